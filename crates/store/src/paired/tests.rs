//! What a pair does that neither store does alone: routes, merges, and keeps both in step.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{
    ClientId, Fence, Hold, HolderEnd, JobId, Kind, NewJob, Nonce, Outcome, QueueName, QueuePatch, RegistryId,
    Report, State, When, WorkerKey,
};

use super::Paired;
use crate::conformance::{TestClock, ready};
use crate::error::StoreError;
use crate::memory::MemoryStore;
use crate::port::{
    Cancelled, Claim, Enlist, EnqueueAnswer, EnqueueBatch, Enqueued, Finished, JobFilter, JobStore, Page,
    Redriven, Renewed, Selection,
};

const LEASE: Duration = Duration::from_secs(30);

/// Queue `d` is durable, queue `v` volatile.
struct Desk {
    clock: Arc<TestClock>,
    durable: Arc<MemoryStore>,
    pair: Arc<Paired>,
}

impl Desk {
    fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let durable = Arc::new(MemoryStore::new(clock.clone()));
        let pair = ready(Paired::open(durable.clone(), MemoryStore::volatile(clock.clone()))).unwrap();
        let desk = Desk { clock, durable, pair };
        desk.set_volatile("v", true).unwrap();
        desk
    }

    fn set_volatile(&self, name: &str, volatile: bool) -> Result<(), StoreError> {
        let patch = QueuePatch { volatile: Some(volatile), ..QueuePatch::default() };
        ready(self.pair.set_queue(&queue(name), patch)).map(drop)
    }

    fn try_enqueue(&self, jobs: Vec<NewJob>) -> Result<EnqueueAnswer, StoreError> {
        ready(self.pair.enqueue(EnqueueBatch { request_id: None, jobs }))
    }

    fn enqueue(&self, jobs: Vec<NewJob>) -> EnqueueAnswer {
        self.try_enqueue(jobs).unwrap()
    }

    fn claim(&self, holder: &str, limit: usize) -> Vec<Hold> {
        self.claim_bytes(holder, limit, usize::MAX)
    }

    fn claim_bytes(&self, holder: &str, limit: usize, bytes_max: usize) -> Vec<Hold> {
        let queues = vec![queue("d"), queue("v")];
        let claim = Claim { holder: worker(holder), queues, limit, bytes_max, lease: LEASE, exclusive: true };
        ready(self.pair.claim(claim)).unwrap().into_iter().map(|claimed| claimed.hold).collect()
    }

    fn state(&self, id: JobId) -> Option<State> {
        ready(self.pair.get(id)).unwrap().map(|job| job.state)
    }

    fn list(&self, queue: Option<QueueName>, before: Option<JobId>, limit: usize) -> Vec<JobId> {
        let filter = JobFilter { queue, ..JobFilter::default() };
        let jobs = ready(self.pair.list(filter, Page { before, limit, bytes_max: usize::MAX })).unwrap();
        jobs.into_iter().map(|job| job.id).collect()
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn worker(name: &str) -> WorkerKey {
    WorkerKey::new(name).unwrap()
}

/// Ids of both kinds have their order from their numbers.
fn durable_id(number: u8) -> JobId {
    JobId::from_bytes([0, 0, 0, 0, 0, number, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 1])
}

fn volatile_id(number: u8) -> JobId {
    ClientId::new(model::WallTime::from_millis(i64::from(number)), 0).job(1)
}

fn durable(number: u8) -> NewJob {
    NewJob::new(durable_id(number), queue("d"), Kind::new("k").unwrap(), Bytes::from_static(b"ten bytes."))
}

fn volatile(number: u8) -> NewJob {
    NewJob { id: volatile_id(number), queue: queue("v"), ..durable(number) }
}

fn ids(holds: &[Hold]) -> Vec<JobId> {
    holds.iter().map(|hold| hold.job).collect()
}

fn enlist(key: &str) -> Enlist {
    Enlist {
        key: worker(key),
        nonce: Nonce::new(7),
        registry: RegistryId::ONLY,
        pings: false,
        grant: LEASE,
        name: String::new(),
    }
}

#[test]
fn mixed_batches_are_split_and_answered_in_order() {
    let desk = Desk::new();
    desk.enqueue(vec![durable(1), volatile(4)]);
    let delayed = NewJob { when: When::After(LEASE), ..durable(5) };
    let sooner = NewJob { when: When::After(LEASE / 2), ..volatile(6) };
    let answer = desk.enqueue(vec![volatile(4), durable(2), volatile(3), durable(1), delayed, sooner]);
    let expected = [
        (volatile_id(4), true),
        (durable_id(2), false),
        (volatile_id(3), false),
        (durable_id(1), true),
        (durable_id(5), false),
        (volatile_id(6), false),
    ];
    assert_eq!(answer.jobs, expected.map(|(id, duplicate)| Enqueued { id, duplicate }));
    assert_eq!(answer.ready, [queue("d"), queue("v")]);
    assert_eq!(answer.next_run_in, Some(LEASE / 2));
    let kept = ready(
        desk.durable.list(JobFilter::default(), Page { before: None, limit: 10, bytes_max: usize::MAX }),
    )
    .unwrap();
    assert!(kept.iter().all(|job| !job.id.is_volatile()), "nothing volatile is written down");
}

#[test]
fn job_in_the_wrong_queue_is_refused_with_its_whole_batch() {
    let desk = Desk::new();
    let wrong = [NewJob { id: durable_id(2), ..volatile(2) }, NewJob { id: volatile_id(2), ..durable(2) }];
    for job in wrong {
        let refused = desk.try_enqueue(vec![durable(1), volatile(1), job]);
        let Err(StoreError::Invalid(why)) = refused else { panic!("{refused:?} must be refused") };
        assert!(why.0.contains("volatile"), "{why:?}");
        assert_eq!(desk.list(None, None, 10), []);
    }
}

#[test]
fn neither_store_starves_the_other() {
    let desk = Desk::new();
    desk.enqueue((1..=40).map(durable).collect());
    desk.enqueue((1..=40).map(volatile).collect());
    let mut shares = [0, 0];
    for _ in 0..8 {
        for hold in desk.claim("w", 5) {
            shares[usize::from(hold.job.is_volatile())] += 1;
        }
    }
    assert_eq!(shares, [20, 20]);
    // One alone fills the wish.
    let holds: Vec<Hold> = std::iter::repeat_with(|| desk.claim("w", 30)).take(2).flatten().collect();
    assert_eq!(holds.len(), 40);
    assert_eq!(desk.claim("w", 30), []);
}

#[test]
fn bytes_are_counted_over_both_stores() {
    let desk = Desk::new();
    // Whoever is first has one job of ten bytes; the second one's first reaches the limit.
    desk.enqueue(vec![volatile(1), durable(2), durable(3), durable(4)]);
    let first = desk.claim_bytes("w", 10, 15);
    assert_eq!(ids(&first), [volatile_id(1), durable_id(2)]);
    desk.enqueue((5..9).map(volatile).collect());
    let mut second = ids(&desk.claim_bytes("w", 10, 25));
    second.sort_unstable();
    assert_eq!(second, [durable_id(3), durable_id(4), volatile_id(5)]);
    assert_eq!(desk.claim_bytes("w", 10, 1).len(), 1, "one is always given");
}

#[test]
fn verbs_of_holders_go_by_id_and_keep_their_order() {
    let desk = Desk::new();
    desk.enqueue(vec![durable(1), volatile(2), durable(3), volatile(4)]);
    let holds = desk.claim("w", 10);
    let find = |id| *holds.iter().find(|hold| hold.job == id).unwrap();
    let mixed = [volatile_id(2), durable_id(1), volatile_id(4), durable_id(3)].map(find);
    let held = |exclusive| Renewed::Held { lease: LEASE, cancel: false, exclusive };
    let renewed = ready(desk.pair.renew(&worker("w"), mixed.to_vec(), LEASE)).unwrap();
    assert_eq!(renewed, [held(true), held(false), held(true), held(false)]);
    let outcome = Outcome::Completed { result: Bytes::new() };
    let unknown = Hold { job: durable_id(9), fence: Fence::new(1) };
    let reports = [mixed[0], unknown, mixed[1]].map(|hold| Report { hold, outcome: outcome.clone() });
    let answers = ready(desk.pair.finish(&worker("w"), reports.to_vec())).unwrap();
    let queues: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Finished::Done { queue, .. } => queue.as_str(),
            Finished::Unknown => "unknown",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(queues, ["v", "unknown", "d"]);
    let cancelled = ready(desk.pair.cancel(vec![durable_id(3), volatile_id(4), volatile_id(9)])).unwrap();
    let asked = |hold| Cancelled::Asked { hold, holder: worker("w") };
    assert_eq!(cancelled, [asked(mixed[3]), asked(mixed[2]), Cancelled::Unknown]);
    let called_off = ready(desk.pair.called_off(RegistryId::ONLY)).unwrap();
    assert_eq!(called_off.len(), 2);
}

#[test]
fn lists_are_merged_by_id_page_by_page() {
    let desk = Desk::new();
    desk.enqueue(vec![durable(1), volatile(2), durable(3), volatile(4), durable(5)]);
    let all = [durable_id(5), volatile_id(4), durable_id(3), volatile_id(2), durable_id(1)];
    assert_eq!(desk.list(None, None, 10), all);
    assert_eq!(desk.list(None, None, 2), all[..2]);
    assert_eq!(desk.list(None, Some(all[1]), 2), all[2..4]);
    assert_eq!(desk.list(Some(queue("v")), None, 10), [all[1], all[3]]);
    assert_eq!(desk.list(Some(queue("d")), None, 10), [all[0], all[2], all[4]]);
    let stats = ready(desk.pair.stats()).unwrap();
    let seen: Vec<_> =
        stats.iter().map(|stats| (stats.queue.as_str(), stats.settings.volatile, stats.counts[1])).collect();
    assert_eq!(seen, [("d", false, 3), ("v", true, 2)]);
}

#[test]
fn redrive_by_filter_pages_through_both() {
    let desk = Desk::new();
    desk.enqueue(vec![volatile(1), durable(2), volatile(3), durable(4), volatile(5)]);
    let mixed = vec![volatile_id(1), durable_id(2), volatile_id(3), durable_id(4), volatile_id(5)];
    ready(desk.pair.cancel(mixed.clone())).unwrap();
    let (mut redriven, mut after) = (Vec::new(), None);
    loop {
        let selection = Selection::Filter { filter: JobFilter::default(), after };
        let page = ready(desk.pair.redrive(selection, 2)).unwrap();
        redriven.extend(page.iter().map(|(id, _)| *id));
        if page.len() < 2 {
            break;
        }
        after = page.last().map(|(id, _)| *id);
    }
    redriven.sort_unstable();
    assert_eq!(redriven, mixed);
    let answers = ready(desk.pair.redrive(Selection::Ids(mixed.clone()), 10)).unwrap();
    let available = mixed.into_iter().map(|id| (id, Redriven::NotEnded(State::Available)));
    assert_eq!(answers, available.collect::<Vec<_>>());
}

#[test]
fn holder_that_is_gone_is_gone_in_both() {
    let desk = Desk::new();
    desk.enqueue(vec![durable(1), volatile(2)]);
    ready(desk.pair.enlist(vec![enlist("w")])).unwrap();
    assert_eq!(desk.claim("w", 10).len(), 2);
    let other = RegistryId(9);
    assert!(!ready(desk.pair.retire(&worker("w"), HolderEnd::Expired, other)).unwrap());
    assert_eq!(ready(desk.pair.reap_holder(&worker("w"), true)).unwrap(), []);
    assert!(ready(desk.pair.retire(&worker("w"), HolderEnd::Expired, RegistryId::ONLY)).unwrap());
    let reaped = ready(desk.pair.reap_holder(&worker("w"), true)).unwrap();
    assert_eq!(
        reaped.iter().map(|reaped| reaped.hold.job).collect::<Vec<_>>(),
        [durable_id(1), volatile_id(2)]
    );
    assert_eq!(desk.claim("w", 10), [], "it gets nothing of either");
    assert_eq!(desk.claim("other", 10).len(), 2);
}

#[test]
fn volatile_jobs_have_no_successor() {
    let desk = Desk::new();
    desk.enqueue(vec![durable(1), volatile(2)]);
    ready(desk.pair.enlist(vec![enlist("old"), enlist("new")])).unwrap();
    let mut holds = desk.claim("old", 10);
    holds.sort_unstable_by_key(|hold| !hold.job.is_volatile());
    let moved = ready(desk.pair.succeed(&worker("old"), &worker("new"), holds.clone())).unwrap();
    assert_eq!(moved, [false, true]);
    let holder = |id| ready(desk.pair.get(id)).unwrap().unwrap().holder;
    assert_eq!(holder(volatile_id(2)), Some(worker("old")));
    assert_eq!(holder(durable_id(1)), Some(worker("new")));
    desk.enqueue(vec![volatile(3)]);
    assert_eq!(desk.claim("old", 10), [], "who has a successor gets nothing more");
    let reaped = ready(desk.pair.reap_holder(&worker("old"), true)).unwrap();
    assert_eq!(reaped.len(), 1);
    assert_eq!(desk.claim("new", 10).len(), 2);
    // All of them volatile: the former ends all the same.
    ready(desk.pair.enlist(vec![enlist("next")])).unwrap();
    let hold = Hold { job: volatile_id(9), fence: Fence::new(1) };
    assert_eq!(ready(desk.pair.succeed(&worker("new"), &worker("next"), vec![hold])).unwrap(), [false]);
    desk.enqueue(vec![volatile(4)]);
    assert_eq!(desk.claim("new", 10), []);
}

#[test]
fn queue_with_live_jobs_stays_what_it_is() {
    let desk = Desk::new();
    let refused = |refused: Result<(), StoreError>| match refused {
        Err(StoreError::Refused(why)) => assert!(why.contains("not ended"), "{why:?}"),
        other => panic!("{other:?} must be refused"),
    };
    desk.enqueue(vec![durable(1), volatile(2)]);
    refused(desk.set_volatile("d", true));
    refused(desk.set_volatile("v", false));
    let holds = desk.claim("w", 10);
    refused(desk.set_volatile("d", true));
    refused(desk.set_volatile("v", false));
    desk.enqueue(vec![durable(3), volatile(4)]);
    let reports =
        holds.into_iter().map(|hold| Report { hold, outcome: Outcome::Completed { result: Bytes::new() } });
    ready(desk.pair.finish(&worker("w"), reports.collect())).unwrap();
    ready(desk.pair.cancel(vec![durable_id(3), volatile_id(4)])).unwrap();
    desk.set_volatile("d", true).unwrap();
    desk.set_volatile("v", false).unwrap();
    assert!(desk.pair.is_volatile(&queue("d")) && !desk.pair.is_volatile(&queue("v")));
    desk.enqueue(vec![
        NewJob { queue: queue("v"), ..durable(5) },
        NewJob { queue: queue("d"), ..volatile(6) },
    ]);
    assert_eq!(ids(&desk.claim("w", 10)).len(), 2);
    let counts: Vec<_> = ready(desk.pair.stats()).unwrap().into_iter().map(|stats| stats.counts).collect();
    assert_eq!(counts, [[0, 0, 1, 1, 1, 0]; 2], "what each had before is counted too");
}

#[test]
fn volatile_queues_are_so_after_a_restart_and_their_jobs_are_not_there() {
    let desk = Desk::new();
    let paused = QueuePatch { paused: Some(true), max_attempts: Some(Some(3)), ..QueuePatch::default() };
    ready(desk.pair.set_queue(&queue("v"), paused)).unwrap();
    desk.enqueue(vec![durable(1), volatile(2)]);
    let again = ready(Paired::open(desk.durable.clone(), MemoryStore::volatile(desk.clock.clone()))).unwrap();
    let desk = Desk { pair: again, ..desk };
    assert!(desk.pair.is_volatile(&queue("v")) && !desk.pair.is_volatile(&queue("d")));
    assert_eq!((desk.state(durable_id(1)), desk.state(volatile_id(2))), (Some(State::Available), None));
    desk.enqueue(vec![volatile(2)]);
    assert_eq!(ids(&desk.claim("w", 10)), [durable_id(1)], "its settings were kept");
    assert_eq!(ready(desk.pair.get(volatile_id(2))).unwrap().unwrap().max_attempts, 3);
}

#[test]
fn store_for_several_servers_has_no_volatile_queue() {
    let clock = Arc::new(TestClock::new());
    let pair =
        ready(Paired::open(Arc::new(MemoryStore::shared(clock.clone())), MemoryStore::volatile(clock)))
            .unwrap();
    let patch = QueuePatch { volatile: Some(true), ..QueuePatch::default() };
    let refused = ready(pair.set_queue(&queue("q"), patch));
    assert!(matches!(&refused, Err(StoreError::Invalid(why)) if why.0.contains("one server")), "{refused:?}");
    assert!(!pair.is_volatile(&queue("q")));
}

#[test]
fn duties_are_done_in_both() {
    let desk = Desk::new();
    let later = |job: NewJob| NewJob { when: When::After(LEASE), ..job };
    desk.enqueue(vec![later(durable(1)), later(volatile(2)), durable(3), volatile(4)]);
    assert_eq!(desk.claim("w", 10).len(), 2);
    let deadlines = ready(desk.pair.deadlines(RegistryId::ONLY)).unwrap();
    assert_eq!((deadlines.next_run_in, deadlines.next_lease_in), (Some(LEASE), Some(LEASE)));
    desk.clock.advance(LEASE);
    // Each is first once, so that one at a time reaches both.
    let promoted: Vec<_> = (0..2).flat_map(|_| ready(desk.pair.promote(1)).unwrap().jobs).collect();
    assert!(promoted.contains(&durable_id(1)) && promoted.contains(&volatile_id(2)), "{promoted:?}");
    let one_at_a_time: Vec<_> =
        (0..2).flat_map(|_| ready(desk.pair.expired(RegistryId::ONLY, 1)).unwrap()).collect();
    assert_eq!(one_at_a_time.len(), 2);
    assert_ne!(one_at_a_time[0].hold, one_at_a_time[1].hold);
    assert_eq!(ready(desk.pair.push(one_at_a_time.clone(), LEASE)).unwrap(), 2);
    assert_eq!(ready(desk.pair.extend_leases(RegistryId::ONLY, LEASE)).unwrap(), 2);
    desk.clock.advance(LEASE * 2);
    let seen = ready(desk.pair.expired(RegistryId::ONLY, 10)).unwrap();
    assert_eq!(ready(desk.pair.reap(seen)).unwrap().len(), 2);
}
