//! What the roll makes of a registry's answers.

use lease::message::Profile;
use lease::registry::Speaker;
use model::{Clock as _, Fence, Hold, JobId, LeaseTime, Nonce};
use store::{Enlist, MemoryStore};
use tokio::sync::mpsc;

use super::*;

const LEASE_MAX: Duration = Duration::from_secs(20);

/// A server with volatile queues that knows a worker from before, which had this lease; and the worker's session.
fn known_from_before(grant: Duration) -> (Roll, Instant, Arc<Session>) {
    let clock = Arc::new(clock::SystemClock);
    let store = Arc::new(MemoryStore::volatile(clock.clone()));
    let (events, _inbox) = mpsc::channel(64);
    let api = Arc::new(Api::new(crate::Node::new(store, clock.clone()), None, events));
    assert_eq!(Mustering::lease_max(&api), LEASE_MAX);
    let (key, nonce, now) = (WorkerKey::new("w").unwrap(), Nonce::new(1), clock.monotonic());
    let mut roll = Roll::new(Arc::clone(&api), RegistryId::ONLY);
    let known = Enlist {
        key: key.clone(),
        nonce,
        registry: RegistryId::ONLY,
        pings: false,
        grant,
        name: String::new(),
    };
    roll.restore(now, vec![known]);
    let profile = Profile { stop_within: Some(Duration::from_secs(1)), ..Profile::default() };
    let frames = mpsc::channel(4).0;
    let session =
        api.sessions.open(key, nonce, profile, frames, Speaker::Worker).expect("the key is its own");
    (roll, now, session)
}

/// It would go on for what is left of the longer lease if this server died now, and the next life does not wait for so long.
#[test]
fn a_worker_gets_no_volatile_jobs_before_its_longer_lease_from_before_is_over() {
    for (grant, may_run) in [(LEASE_MAX, true), (LEASE_MAX * 2, false)] {
        let (roll, now, session) = known_from_before(grant);
        roll.note_leased(now, &session, LEASE_MAX);
        session.set_mustered(true);
        assert_eq!(session.is_mustered(), may_run, "{grant:?}");
        roll.note_leased(now + LEASE_MAX * 2, &session, LEASE_MAX);
        session.set_mustered(true);
        assert!(session.is_mustered(), "by now it is as good as any");
    }
}

/// Whoever should have stopped a job by itself is given time, once. An exclusive job moves by its holder's word alone.
#[test]
fn a_job_past_its_time_limit_is_not_left_to_its_live_holder_for_ever() {
    let (mut roll, now, _) = known_from_before(LEASE_MAX);
    let holder = WorkerKey::new("pinger").unwrap();
    roll.api.pingers.ping(&holder).unwrap();
    let row = |number: u8, timed_out, exclusive| Expired {
        hold: Hold { job: JobId::from_bytes([number; 16]), fence: Fence::new(1) },
        holder: holder.clone(),
        registry: None,
        beats_itself: false,
        exclusive,
        timed_out,
        lease_until: LeaseTime::from_micros(1),
    };
    let rows = [row(1, false, false), row(2, true, false), row(3, true, true)];
    let grace = roll.api.worker_grace(None);
    for (later, again, overdue) in [(0, vec![2], vec![]), (1, vec![2], vec![]), (2, vec![], vec![2])] {
        let judged = roll.judge(now + grace * later / 2, rows.to_vec());
        let jobs = |rows: &[Expired]| rows.iter().map(|row| row.hold.job.to_bytes()[0]).collect::<Vec<_>>();
        assert_eq!(jobs(&judged.push), [1, 3]);
        let asked_again: Vec<Expired> = judged.ask_again.into_values().flatten().collect();
        assert_eq!(
            (jobs(&asked_again), jobs(&judged.overdue)),
            (again, overdue),
            "{later} half graces later"
        );
    }
}

/// The heartbeats of a long lease are rarer than those that the muster expects: it would take their sender for silent.
#[test]
fn the_first_volatile_queue_makes_longer_leases_shorter() {
    for grant in [LEASE_MAX, LEASE_MAX * 2] {
        let (mut roll, now, session) = known_from_before(grant);
        roll.muster(now);
        assert_eq!(session.close.is_cancelled(), grant > LEASE_MAX, "{grant:?}");
    }
}
