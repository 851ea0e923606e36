//! Tables for the dispatcher: what it is told, what it asks for.

use std::sync::Arc;

use model::{Instant, QueueName};

use super::{CLAIM_LIMIT_MAX, CLAIMS_PER_QUEUE_MAX, Dispatcher, Input, Output, SessionId};

/// The only place that touches the machine: tells it things and words its claims as "session asks limit from queues".
#[derive(Default)]
struct Desk {
    dispatcher: Dispatcher,
    now: Instant,
}

impl Desk {
    fn tell(&mut self, input: Input) -> Vec<String> {
        self.dispatcher.handle(self.now, input);
        self.drain()
    }

    fn drain(&mut self) -> Vec<String> {
        let claims = std::iter::from_fn(|| self.dispatcher.poll_output());
        let word = |Output::Claim { session, queues, limit }| {
            let queues: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
            format!("{} asks {limit} from {}", session.0, queues.join(","))
        };
        claims.map(word).collect()
    }

    /// A session with credits, over queues named like "a,b".
    fn join(&mut self, session: u64, queues: &str, credits: u32) -> Vec<String> {
        let queues = queues.split(',').map(queue).collect();
        let mut claims = self.tell(Input::Joined { session: SessionId(session), queues });
        claims.extend(self.credits(session, credits));
        claims
    }

    fn credits(&mut self, session: u64, add: u32) -> Vec<String> {
        self.tell(Input::Credits { session: SessionId(session), add })
    }

    fn leave(&mut self, session: u64) -> Vec<String> {
        self.tell(Input::Left { session: SessionId(session) })
    }

    fn ready(&mut self, name: &str) -> Vec<String> {
        self.tell(Input::Ready { queue: queue(name) })
    }

    fn done(&mut self, session: u64, asked: u32, got: u32) -> Vec<String> {
        self.tell(Input::ClaimDone { session: SessionId(session), asked, got })
    }

    fn failed(&mut self, session: u64, asked: u32) -> Vec<String> {
        self.tell(Input::ClaimFailed { session: SessionId(session), asked })
    }

    /// Waits for the next deadline and says how long that took, in milliseconds.
    fn wait(&mut self) -> (u128, Vec<String>) {
        let deadline = self.dispatcher.next_deadline().expect("a deadline must be set");
        let waited = deadline.since(self.now).as_millis();
        self.now = deadline;
        self.dispatcher.handle_deadline(deadline);
        (waited, self.drain())
    }

    fn free(&self, session: u64) -> Option<u32> {
        self.dispatcher.credits(SessionId(session))
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("test names are valid")
}

/// The session and the limit of a claim in words.
fn who_asks(claim: &str) -> (u64, u32) {
    let words: Vec<&str> = claim.split(' ').collect();
    (words[0].parse().expect("a session id"), words[2].parse().expect("a limit"))
}

const NOTHING: [&str; 0] = [];

#[test]
fn session_asks_for_as_many_jobs_as_it_has_free_slots() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 0), NOTHING);
    assert_eq!(desk.credits(1, 3), ["1 asks 3 from a"]);
    assert_eq!(desk.free(1), Some(0));
    assert_eq!(desk.done(1, 3, 3), NOTHING, "all slots are taken");
    assert_eq!(desk.credits(1, 1), ["1 asks 1 from a"], "a full answer leaves the queue possibly ready");
}

#[test]
fn one_claim_at_a_time_and_no_slot_is_promised_twice() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 3), ["1 asks 3 from a"]);
    assert_eq!(desk.credits(1, 2), NOTHING);
    assert_eq!(desk.ready("a"), NOTHING);
    assert_eq!(desk.free(1), Some(2), "three are reserved");
    assert_eq!(desk.done(1, 3, 1), ["1 asks 4 from a"], "two came back, two were added");
}

#[test]
fn dry_queue_is_left_alone_until_something_comes() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 2), ["1 asks 2 from a"]);
    assert_eq!(desk.done(1, 2, 1), NOTHING);
    assert_eq!(desk.credits(1, 1), NOTHING);
    assert_eq!(desk.ready("a"), ["1 asks 2 from a"]);
}

#[test]
fn work_that_comes_during_a_claim_is_looked_for_again() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 2), ["1 asks 2 from a"]);
    assert_eq!(desk.ready("a"), NOTHING);
    assert_eq!(desk.done(1, 2, 0), ["1 asks 2 from a"], "the claim may have looked before the job was there");
    assert_eq!(desk.done(1, 2, 0), NOTHING);
}

#[test]
fn one_claim_asks_for_a_bounded_number() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 2 * CLAIM_LIMIT_MAX + 1), ["1 asks 1000 from a"]);
    assert_eq!(desk.done(1, 1_000, 1_000), ["1 asks 1000 from a"]);
    assert_eq!(desk.done(1, 1_000, 1_000), ["1 asks 1 from a"]);
}

#[test]
fn claim_names_only_queues_that_may_have_work() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "b,a,b,c", 5), ["1 asks 5 from a,b,c"]);
    assert_eq!(desk.ready("b"), NOTHING);
    assert_eq!(desk.done(1, 5, 0), ["1 asks 5 from a"]);
    assert_eq!(desk.done(1, 5, 0), ["1 asks 5 from b,c"], "a is dry, b has news, c was not asked alone yet");
    assert_eq!(desk.done(1, 5, 0), ["1 asks 5 from b"]);
    assert_eq!(desk.done(1, 5, 0), ["1 asks 5 from c"]);
    assert_eq!(desk.done(1, 5, 0), NOTHING);
    assert_eq!(desk.ready("c"), ["1 asks 5 from c"]);
}

#[test]
fn short_answer_over_several_queues_says_nothing_about_each() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a,b", 2), ["1 asks 2 from a,b"]);
    // Another server was taking the best jobs of a at that moment, so that none was left of those that were looked at.
    assert_eq!(desk.done(1, 2, 0), ["1 asks 2 from a"]);
    assert_eq!(desk.done(1, 2, 0), ["1 asks 2 from b"], "a is dry, which says nothing of b");
    assert_eq!(desk.done(1, 2, 2), NOTHING);
    assert_eq!(desk.credits(1, 1), ["1 asks 1 from b"]);
    assert_eq!(desk.ready("a"), NOTHING);
    assert_eq!(desk.done(1, 1, 1), NOTHING);
    assert_eq!(desk.credits(1, 2), ["1 asks 2 from a,b"], "both may have work again, and go by priority");
    assert_eq!(desk.done(1, 2, 1), ["1 asks 1 from a"], "some are no proof either");
    assert_eq!(desk.done(1, 1, 0), ["1 asks 1 from b"]);
    assert_eq!(desk.done(1, 1, 0), NOTHING);
}

#[test]
fn claim_over_all_queues_shares_the_sessions_own_list() {
    let mut dispatcher = Dispatcher::new();
    let session = SessionId(1);
    let mut claim = |input| {
        dispatcher.handle(Instant::ZERO, input);
        dispatcher.poll_output().map(|Output::Claim { queues, .. }| queues)
    };
    claim(Input::Joined { session, queues: vec![queue("a"), queue("b")] });
    let first = claim(Input::Credits { session, add: 2 }).expect("both queues are assumed ready");
    assert_eq!(claim(Input::ClaimDone { session, asked: 2, got: 2 }), None);
    let second = claim(Input::Credits { session, add: 1 }).expect("both queues are possibly ready");
    assert!(Arc::ptr_eq(&first, &second));
}

#[test]
fn signal_wakes_one_session_and_full_answers_wake_twice_as_many() {
    let mut desk = Desk::default();
    desk.join(0, "a", 1);
    desk.done(0, 1, 0);
    for session in 1..=200 {
        // Every join looks once, by whoever is first in line.
        let claims = desk.join(session, "a", 1);
        assert_eq!(claims.len(), 1);
        assert_eq!(desk.done(who_asks(&claims[0]).0, 1, 0), NOTHING);
    }
    let mut in_flight = desk.ready("a");
    let mut together = vec![in_flight.len()];
    while together.len() < 10 {
        let mut next = Vec::new();
        for claim in in_flight.drain(..) {
            let (session, _) = who_asks(&claim);
            next.extend(desk.done(session, 1, 1));
            next.extend(desk.credits(session, 1));
        }
        in_flight = next;
        together.push(in_flight.len());
    }
    assert_eq!(together, [1, 2, 4, 8, 16, 32, 64, CLAIMS_PER_QUEUE_MAX as usize, 128, 128]);
}

#[test]
fn sessions_take_turns_whatever_their_credits() {
    let mut desk = Desk::default();
    let mut asked = vec![];
    asked.extend(desk.join(1, "a", 10_000));
    asked.extend(desk.join(2, "a", 1));
    asked.extend(desk.join(3, "a", 1));
    // One answer at a time; whoever was served frees a slot at once and wants more.
    let mut served = Vec::new();
    for _ in 0..9 {
        let (session, limit) = who_asks(&asked.remove(0));
        served.push(session);
        asked.extend(desk.done(session, limit, limit));
        asked.extend(desk.credits(session, limit));
    }
    assert_eq!(served, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

#[test]
fn scarce_work_goes_round() {
    let mut desk = Desk::default();
    for session in 1..=4 {
        let credits = if session == 1 { 10_000 } else { 2 };
        for claim in desk.join(session, "a", credits) {
            let (who, limit) = who_asks(&claim);
            assert_eq!(desk.done(who, limit, 0), NOTHING);
        }
    }
    let mut served = Vec::new();
    for _ in 0..12 {
        let claims = desk.ready("a");
        assert_eq!(claims.len(), 1, "one job, one claim");
        let (who, limit) = who_asks(&claims[0]);
        served.push(who);
        assert_eq!(desk.done(who, limit, 1), NOTHING);
        assert_eq!(desk.credits(who, 1), NOTHING);
    }
    let (round, rest) = served.split_at(4);
    assert_eq!(rest, [round, round].concat(), "always in the same order");
    assert_eq!(round.iter().sum::<u64>(), 10, "everybody");
}

#[test]
fn sessions_that_serve_two_queues_cannot_crowd_out_one_that_serves_one() {
    let mut desk = Desk::default();
    // More sessions than may be in flight over one queue, all claiming over both.
    let crowd = u64::from(CLAIMS_PER_QUEUE_MAX) * 2;
    let mut in_flight = Vec::new();
    for session in 1..=crowd {
        in_flight.extend(desk.join(session, "a,b", 1).into_iter().map(|_| session));
    }
    let mut claims = desk.join(9_999, "b", 1);
    for _ in 0..4 * crowd {
        if claims.iter().any(|claim| claim.starts_with("9999 ")) {
            return;
        }
        in_flight.extend(claims.iter().map(|claim| who_asks(claim).0));
        let session = in_flight.remove(0);
        claims = desk.done(session, 1, 1);
        claims.extend(desk.credits(session, 1));
    }
    panic!("the session that serves only b never got a turn");
}

#[test]
fn session_that_left_during_a_claim_makes_room_for_the_next() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 4), ["1 asks 4 from a"]);
    assert_eq!(desk.join(2, "a", 1), ["2 asks 1 from a"]);
    assert_eq!(desk.join(3, "a", 1), ["3 asks 1 from a"]);
    assert_eq!(desk.done(3, 1, 0), NOTHING, "a claim from before says the queue is dry");
    assert_eq!(desk.ready("a"), ["3 asks 1 from a"]);
    assert_eq!(desk.leave(1), NOTHING);
    assert_eq!(desk.done(1, 4, 4), NOTHING, "the driver hands these back, which is a signal");
    assert_eq!(desk.free(1), None);
    assert_eq!(desk.credits(1, 4), NOTHING);
}

#[test]
fn sole_claim_of_a_session_that_left_is_made_again_by_the_next_in_line() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 1), ["1 asks 1 from a"]);
    assert_eq!(desk.done(1, 1, 0), NOTHING);
    assert_eq!(desk.join(2, "a", 1), ["1 asks 1 from a"]);
    assert_eq!(desk.leave(1), ["2 asks 1 from a"]);
    assert_eq!(desk.done(1, 1, 0), NOTHING, "a retired session's empty hands say nothing");
    assert_eq!(desk.done(2, 1, 1), NOTHING);
}

#[test]
fn late_answer_is_not_taken_for_one_of_the_new_session() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 5), ["1 asks 5 from a"]);
    assert_eq!(desk.leave(1), NOTHING);
    assert_eq!(desk.join(2, "a", 3), ["2 asks 3 from a"]);
    assert_eq!(desk.done(1, 5, 0), NOTHING);
    assert_eq!(desk.free(2), Some(0), "its own three are still reserved");
    assert_eq!(desk.credits(2, 1), NOTHING, "its own claim is still in flight");
    assert_eq!(desk.done(2, 3, 3), ["2 asks 1 from a"], "and the queue is not dry");
}

#[test]
fn word_of_a_session_that_leaves_is_not_trusted() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 1), ["1 asks 1 from a"]);
    assert_eq!(desk.done(1, 1, 0), NOTHING);
    assert_eq!(desk.join(2, "a", 1), ["1 asks 1 from a"]);
    assert_eq!(desk.done(1, 1, 0), NOTHING, "it may be retired, and then gets nothing from a full queue");
    assert_eq!(desk.leave(1), ["2 asks 1 from a"]);
    assert_eq!(desk.done(2, 1, 0), NOTHING);
}

#[test]
fn failed_claim_gives_its_credits_back_and_everybody_waits() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 2), ["1 asks 2 from a"]);
    assert_eq!(desk.failed(1, 2), NOTHING);
    assert_eq!(desk.free(1), Some(2));
    assert_eq!(desk.ready("a"), NOTHING);
    assert_eq!(desk.join(2, "b", 7), NOTHING);
    desk.dispatcher.handle_deadline(Instant::from_millis(99));
    assert_eq!(desk.drain(), NOTHING, "too early");
    assert_eq!(desk.wait(), (100, vec!["1 asks 2 from a".to_owned(), "2 asks 7 from b".to_owned()]));
    assert_eq!(desk.dispatcher.next_deadline(), None);
}

#[test]
fn waiting_doubles_for_each_outage_and_starts_over_after_a_success() {
    let mut desk = Desk::default();
    desk.join(1, "a", 1);
    desk.join(2, "b", 1);
    let mut waits = Vec::new();
    for _ in 0..8 {
        // Both fail; the second failure belongs to the same outage.
        desk.failed(1, 1);
        desk.failed(2, 1);
        waits.push(desk.wait().0);
    }
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    desk.done(1, 1, 0);
    desk.failed(2, 1);
    assert_eq!(desk.wait().0, 100);
}

#[test]
fn failed_claim_of_a_session_that_left_still_says_that_there_may_be_work() {
    let mut desk = Desk::default();
    assert_eq!(desk.join(1, "a", 1), ["1 asks 1 from a"]);
    assert_eq!(desk.join(2, "a", 1), ["2 asks 1 from a"]);
    assert_eq!(desk.leave(1), NOTHING);
    assert_eq!(desk.done(2, 1, 0), NOTHING, "the first claim had the rows locked");
    assert_eq!(desk.failed(1, 1), NOTHING);
    assert_eq!(desk.wait(), (100, vec!["2 asks 1 from a".to_owned()]));
}

#[test]
fn what_nobody_serves_is_found_when_somebody_joins() {
    let mut desk = Desk::default();
    assert_eq!(desk.ready("a"), NOTHING);
    assert_eq!(desk.join(1, "a", 1), ["1 asks 1 from a"]);
    assert_eq!(desk.done(1, 1, 0), NOTHING);
    assert_eq!(desk.leave(1), NOTHING);
    assert_eq!(desk.join(2, "a", 1), ["2 asks 1 from a"]);
}

#[test]
fn tells_who_serves_what() {
    let mut desk = Desk::default();
    desk.join(1, "a,b", 1);
    desk.join(2, "b", 1);
    let workers = |desk: &Desk| ["a", "b", "c"].map(|name| desk.dispatcher.workers_for(&queue(name)));
    assert_eq!(workers(&desk), [1, 2, 0]);
    assert_eq!(desk.dispatcher.sessions().collect::<Vec<_>>(), [SessionId(1), SessionId(2)]);
    desk.leave(1);
    assert_eq!(workers(&desk), [0, 1, 0]);
    assert!(!desk.dispatcher.serves(&queue("a")) && desk.dispatcher.serves(&queue("b")));
    desk.leave(2);
    assert!(desk.dispatcher.queues.is_empty(), "what nobody serves takes no memory");
}

#[test]
fn a_session_may_serve_other_queues_from_now_on() {
    let mut desk = Desk::default();
    let serves = |desk: &mut Desk, session, queues: &[&str]| {
        let queues = queues.iter().copied().map(queue).collect();
        desk.tell(Input::Serves { session: SessionId(session), queues })
    };
    assert_eq!(desk.join(1, "a,b", 2), ["1 asks 2 from a,b"]);
    assert_eq!(desk.join(2, "b", 1), ["2 asks 1 from b"]);
    assert_eq!(serves(&mut desk, 1, &["a"]), NOTHING);
    assert_eq!(desk.done(1, 2, 0), ["1 asks 2 from a"], "it got nothing from b for another reason");
    assert_eq!(desk.done(1, 2, 0), NOTHING);
    assert_eq!(desk.done(2, 1, 1), NOTHING);
    assert_eq!(desk.credits(2, 1), ["2 asks 1 from b"], "b is not believed to be dry");
    assert_eq!(serves(&mut desk, 1, &["a", "c"]), ["1 asks 2 from c"], "what is new to it may have work");
    assert_eq!(serves(&mut desk, 1, &[]), NOTHING);
    assert_eq!(desk.done(1, 2, 2), NOTHING, "what was on its way arrives");
    assert_eq!(desk.credits(1, 2), NOTHING, "and that was all");
    assert_eq!(serves(&mut desk, 9, &["a"]), NOTHING, "it has left");
    assert!(!desk.dispatcher.serves(&queue("a")));
}

#[test]
#[should_panic(expected = "an answer must repeat what")]
fn answer_with_another_number_is_a_bug() {
    let mut desk = Desk::default();
    desk.join(1, "a", 2);
    desk.done(1, 3, 3);
}
