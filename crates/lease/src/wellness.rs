//! How a worker is by its own clock: the function by which the scheduler of volatile jobs judges it, [`muster::health()`], over the
//! worker's own stamps.
//!
//! | | the scheduler counts from | the worker counts from |
//! |---|---|---|
//! | heartbeats | when it had read the last one | when it sent the last one that was answered |
//! | healthchecks | when it sent the last one that came back | when the last one that it ran came in |
//! | the lease | its registry says when it is over | its end by the [clock rule](crate::clock_rule) |
//!
//! So a worker that is cut off, or was stopped, finds itself silent no later than the scheduler does and refuses what was sent to it while
//! it still seemed well; and it has to die before the scheduler takes it for dead. Whether the other workers permit it is known to the
//! scheduler alone, who sends nothing until they do.

use std::time::Duration;

use model::{Generation, Instant};
use muster::{Health, Rules, Stamps, health};

use crate::clock_rule::heartbeat_interval;

/// The stamps of one key, as far as they belong to the present scheduler.
#[derive(Clone, Debug, Default)]
pub struct Wellness {
    server: Option<Generation>,
    stamps: Stamps,
    /// The scheduler's own, as the last healthcheck said.
    rules: Rules,
}

impl Wellness {
    /// Heartbeats go to this life of the server from now on. Another one than before knows nothing of us.
    pub fn belongs_to(&mut self, server: Generation) {
        if self.server != Some(server) {
            *self = Wellness { server: Some(server), ..Wellness::default() };
        }
    }

    /// A heartbeat sent then was answered. `is_known`: nothing is asked for beyond what it carried.
    pub fn heard(&mut self, sent_at: Instant, is_known: bool) {
        self.stamps.joined.get_or_insert(sent_at);
        self.stamps.heard = self.stamps.heard.max(Some(sent_at));
        if is_known {
            self.stamps.fetched.get_or_insert(sent_at);
        }
    }

    /// A healthcheck that came in then has run, for a scheduler whose longest lease this is. With rules for our own lease, which may be
    /// shorter, we would refuse what it has every reason to send.
    pub fn checked(&mut self, asked_at: Instant, lease: Duration) {
        self.stamps.checked = self.stamps.checked.max(Some(asked_at));
        if self.rules.lease != lease {
            self.rules = Rules::for_lease(lease, heartbeat_interval(lease));
        }
    }

    /// How it is, if its lease is over then.
    pub fn health(&self, now: Instant, lease_ends: Option<Instant>) -> Health {
        health(now, &Stamps { lease_ends, is_permitted: true, ..self.stamps }, &self.rules)
    }
}

#[cfg(test)]
mod tests {
    use muster::Unhealthy;

    use super::*;

    const LEASE: Duration = Duration::from_secs(20);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Answered and checked at 0.
    fn well() -> Wellness {
        let mut worker = Wellness::default();
        worker.belongs_to(Generation(1));
        worker.heard(at(0), true);
        worker.checked(at(0), LEASE);
        worker
    }

    #[track_caller]
    fn check(worker: &Wellness, millis: u64, expected: Health) {
        assert_eq!(worker.health(at(millis), Some(at(19_980))), expected);
    }

    #[test]
    fn a_worker_is_new_until_all_that_it_holds_is_known_and_unhealthy_until_it_was_checked() {
        let mut worker = Wellness::default();
        worker.belongs_to(Generation(1));
        check(&worker, 0, Health::New);
        worker.heard(at(0), false);
        check(&worker, 0, Health::New);
        worker.heard(at(4), true);
        check(&worker, 4, Health::Unhealthy(Unhealthy::NeverChecked));
        worker.checked(at(5), LEASE);
        check(&worker, 5, Health::Healthy);
    }

    #[test]
    fn silence_is_counted_from_the_last_heartbeat_that_was_answered() {
        let mut worker = well();
        check(&worker, 12_000, Health::Healthy);
        check(&worker, 12_001, Health::Unhealthy(Unhealthy::Silent));
        worker.heard(at(4_000), true);
        worker.heard(at(2_000), true);
        check(&worker, 16_000, Health::Healthy);
        check(&worker, 16_001, Health::Unhealthy(Unhealthy::Silent));
    }

    #[test]
    fn ages_are_in_proportion_to_the_longest_lease_of_the_scheduler() {
        let mut worker = well();
        worker.checked(at(100), LEASE / 10);
        check(&worker, 1_200, Health::Healthy);
        check(&worker, 1_201, Health::Unhealthy(Unhealthy::Silent));
        worker.heard(at(2_000), true);
        check(&worker, 2_100, Health::Healthy);
        check(&worker, 2_101, Health::Unhealthy(Unhealthy::CheckTooOld));
    }

    #[test]
    fn a_worker_must_die_when_its_lease_is_over_and_never_before_it_had_one() {
        check(&well(), 19_980, Health::MustDie);
        let alone = Wellness::default();
        assert_eq!(alone.health(at(3_600_000), None), Health::New);
    }

    #[test]
    fn another_life_of_the_server_knows_nothing_of_it() {
        let mut worker = well();
        worker.belongs_to(Generation(1));
        check(&worker, 0, Health::Healthy);
        worker.belongs_to(Generation(2));
        check(&worker, 0, Health::New);
    }
}
