//! Worker health: one function, used alike by the scheduler and by the worker about itself.
//!
//! ```text
//!   New ──running tasks known──► Unhealthy ◄──────────► Healthy
//!    └──────────────┬───────────────┘
//!                   └───► MustDie          (never left)
//! ```
//!
//! Only the end of the lease makes a worker MustDie. The age of heartbeats and healthchecks decides between Healthy and
//! Unhealthy; who stays New or Unhealthy for too long is [`overdue`], and its lease is renewed no more. To be held back by the
//! set of workers is no fault and costs nobody its lease.

use std::time::Duration;

use model::Instant;

/// How old is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Between two heartbeats of a worker.
    pub heartbeat: Duration,
    /// Without a heartbeat for longer than this, a worker is unhealthy. Three heartbeats, so that two may be lost; and less than
    /// what is left of a lease when a worker begins to stop its tasks.
    pub heard_within: Duration,
    /// What a heartbeat renews the lease to. Only for the estimate in the status: leases are judged elsewhere.
    pub lease: Duration,
    /// Between two healthchecks.
    pub check_every: Duration,
    /// How much later than that one may be answered.
    pub check_grace: Duration,
    /// Between two looks at everybody.
    pub update_every: Duration,
    /// Who is New, or Unhealthy for another reason than being held back, for longer than this is renewed no more.
    pub lose_after: Duration,
    /// While somebody is held back for longer than this, newcomers queue. Three heartbeats: by then everybody present who lives
    /// has spoken, and only those keep the others back who come and die.
    pub settle_within: Duration,
    /// A burst of changes of the set is told once, so long after the first of them.
    pub push_after: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            heartbeat: Duration::from_secs(4),
            heard_within: Duration::from_secs(12),
            lease: Duration::from_secs(20),
            check_every: Duration::from_secs(10),
            check_grace: Duration::from_secs(10),
            update_every: Duration::from_secs(1),
            lose_after: Duration::from_secs(20),
            settle_within: Duration::from_secs(12),
            push_after: Duration::from_millis(50),
        }
    }
}

impl Rules {
    /// The rules for workers with this lease and this pause between heartbeats. The defaults are for 20 s and 4 s; everything is in
    /// proportion.
    pub fn for_lease(lease: Duration, heartbeat: Duration) -> Self {
        let defaults = Rules::default();
        Rules {
            heartbeat,
            heard_within: heartbeat * 3,
            lease,
            check_every: lease / 2,
            check_grace: lease / 2,
            update_every: (lease / 20).min(defaults.update_every),
            lose_after: lease,
            settle_within: heartbeat * 3,
            push_after: defaults.push_after,
        }
    }

    /// How long a healthcheck is good for, from when it was sent.
    pub fn check_good_for(&self) -> Duration {
        self.check_every + self.check_grace
    }
}

/// What is known about one worker, in times of one's own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Since when it belongs to this scheduler. A worker that never belonged to one has nothing to stop.
    pub joined: Option<Instant>,
    /// Since when all that it runs is known.
    pub fetched: Option<Instant>,
    /// The last heartbeat; for the worker itself, when it *sent* the last one that was answered.
    pub heard: Option<Instant>,
    /// When the last healthcheck that came back was *sent*.
    pub checked: Option<Instant>,
    /// When its lease is over, where that is judged by the one who asks.
    pub lease_ends: Option<Instant>,
    /// It is renewed no more.
    pub is_dismissed: bool,
    /// The set of workers permits it, or did so once.
    pub is_permitted: bool,
}

/// How a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// What it runs is not known yet.
    New,
    /// It may not be given work now.
    Unhealthy(Unhealthy),
    /// It may be given work.
    Healthy,
    /// It has stopped everything, or has to, now.
    MustDie,
}

/// Why a worker is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unhealthy {
    /// It is renewed no more.
    Dismissed,
    /// Its last heartbeat is too old.
    Silent,
    /// No healthcheck came back yet.
    NeverChecked,
    /// The last healthcheck that came back is too old.
    CheckTooOld,
    /// Nothing is wrong with it, but the set of workers does not permit it yet.
    HeldBack,
}

impl Unhealthy {
    /// For people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Unhealthy::Dismissed => "its lease is renewed no more",
            Unhealthy::Silent => "its last heartbeat is too old",
            Unhealthy::NeverChecked => "no healthcheck came back yet",
            Unhealthy::CheckTooOld => "its last healthcheck is too old",
            Unhealthy::HeldBack => "the set of workers does not permit it yet",
        }
    }
}

/// How a worker is.
pub fn health(now: Instant, stamps: &Stamps, rules: &Rules) -> Health {
    if must_die(now, stamps.lease_ends) {
        return Health::MustDie;
    }
    if stamps.fetched.is_none() {
        return Health::New;
    }
    if stamps.is_dismissed {
        return Health::Unhealthy(Unhealthy::Dismissed);
    }
    match fault(now, stamps, rules) {
        Some((why, _)) => Health::Unhealthy(why),
        None if !stamps.is_permitted => Health::Unhealthy(Unhealthy::HeldBack),
        None => Health::Healthy,
    }
}

/// Whether it has stopped everything or has to, now: the only way to be lost.
pub fn must_die(now: Instant, lease_ends: Option<Instant>) -> bool {
    lease_ends.is_some_and(|end| now >= end)
}

/// Whether it is New, or Unhealthy for another reason than being held back, for longer than allowed; and how it is.
pub fn overdue(now: Instant, stamps: &Stamps, rules: &Rules) -> Option<Health> {
    let (health, since) = match stamps.fetched {
        None => (Health::New, stamps.joined?),
        Some(_) => fault(now, stamps, rules).map(|(why, since)| (Health::Unhealthy(why), since))?,
    };
    (now.since(since) > rules.lose_after).then_some(health)
}

/// What is wrong with it for the longest time, and since when.
fn fault(now: Instant, stamps: &Stamps, rules: &Rules) -> Option<(Unhealthy, Instant)> {
    let silent = stamps.heard.map(|heard| (Unhealthy::Silent, heard + rules.heard_within));
    let unchecked = match (stamps.checked, stamps.fetched) {
        (Some(checked), _) => Some((Unhealthy::CheckTooOld, checked + rules.check_good_for())),
        (None, Some(fetched)) => Some((Unhealthy::NeverChecked, fetched)),
        (None, None) => None,
    };
    let too_old = |(why, since): &(Unhealthy, Instant)| match why {
        Unhealthy::NeverChecked => true,
        _ => now > *since,
    };
    [silent, unchecked].into_iter().flatten().filter(too_old).min_by_key(|(_, since)| *since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(100_000 + millis)
    }

    /// Joined and fetched at 0, heard at 0, checked by one sent at 0, permitted.
    fn well() -> Stamps {
        Stamps {
            joined: Some(at(0)),
            fetched: Some(at(0)),
            heard: Some(at(0)),
            checked: Some(at(0)),
            is_permitted: true,
            ..Stamps::default()
        }
    }

    #[track_caller]
    fn check(stamps: Stamps, millis: u64, expected: Health, is_overdue: bool) {
        let rules = Rules::default();
        assert_eq!(health(at(millis), &stamps, &rules), expected);
        assert_eq!(overdue(at(millis), &stamps, &rules).is_some(), is_overdue, "overdue");
    }

    #[test]
    fn ages_decide_between_healthy_and_unhealthy() {
        check(well(), 12_000, Health::Healthy, false);
        check(well(), 12_001, Health::Unhealthy(Unhealthy::Silent), false);
        let heard = Stamps { heard: Some(at(60_000)), ..well() };
        check(Stamps { checked: Some(at(40_000)), ..heard }, 60_000, Health::Healthy, false);
        check(
            Stamps { checked: Some(at(39_999)), ..heard },
            60_000,
            Health::Unhealthy(Unhealthy::CheckTooOld),
            false,
        );
        check(
            Stamps { checked: None, fetched: Some(at(50_000)), ..heard },
            60_000,
            Health::Unhealthy(Unhealthy::NeverChecked),
            false,
        );
    }

    #[test]
    fn a_fault_that_lasts_makes_it_overdue() {
        let heard = Stamps { heard: Some(at(60_000)), ..well() };
        check(
            Stamps { checked: Some(at(20_000)), ..heard },
            60_000,
            Health::Unhealthy(Unhealthy::CheckTooOld),
            false,
        );
        check(
            Stamps { checked: Some(at(19_999)), ..heard },
            60_000,
            Health::Unhealthy(Unhealthy::CheckTooOld),
            true,
        );
        check(Stamps { fetched: None, joined: Some(at(40_000)), ..heard }, 60_000, Health::New, false);
        check(Stamps { fetched: None, joined: Some(at(39_999)), ..heard }, 60_000, Health::New, true);
    }

    #[test]
    fn the_longest_fault_counts() {
        let both = Stamps { heard: Some(at(30_000)), checked: Some(at(0)), ..well() };
        check(both, 45_000, Health::Unhealthy(Unhealthy::CheckTooOld), true);
    }

    #[test]
    fn held_back_is_no_fault_however_long() {
        let held_back = Stamps {
            heard: Some(at(3_600_000)),
            checked: Some(at(3_590_000)),
            is_permitted: false,
            ..well()
        };
        check(held_back, 3_600_000, Health::Unhealthy(Unhealthy::HeldBack), false);
        let other_reason_too = Stamps { checked: Some(at(3_000_000)), ..held_back };
        check(other_reason_too, 3_600_000, Health::Unhealthy(Unhealthy::CheckTooOld), true);
    }

    #[test]
    fn only_the_end_of_the_lease_is_death() {
        let worker = Stamps { lease_ends: Some(at(20_000)), heard: Some(at(15_000)), ..well() };
        check(worker, 19_999, Health::Healthy, false);
        check(worker, 20_000, Health::MustDie, false);
        check(Stamps { is_dismissed: true, ..well() }, 1, Health::Unhealthy(Unhealthy::Dismissed), false);
    }

    #[test]
    fn before_it_ever_belonged_to_a_scheduler_a_worker_never_stops_itself() {
        check(Stamps::default(), 3_600_000, Health::New, false);
    }
}
