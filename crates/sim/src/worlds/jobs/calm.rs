//! After the faults: everything that was promised must happen, within a bound that follows from the configuration.

use std::time::Duration;

use model::State;
use schedule::upkeep;

use super::database::LATE_MAX;
use super::event::Event;
use super::laws::job_lost;
use super::nature::Nature;
use super::setup::{
    DOWN_MAX, KILL_WAIT_MAX, LEASE_MAX, OWNED_FOR, PAUSE_MAX, RETRY_MAX, RUN_MAX, TROUBLE_MAX,
};
use super::world::World;
use crate::faults::Phase;
use crate::net::LEARN_MAX;
use crate::time::Time;

/// How often somebody looks whether all is done.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The calm lasts at least this long, so that workers with nothing wrong are seen to stay.
const CALM_MIN: Duration = Duration::from_secs(60);

/// The second phase of a run.
pub(super) struct Calm {
    pub(super) since: Time,
    /// By then every job must have ended.
    pub(super) bound: Duration,
}

impl World<'_> {
    /// Nothing new goes wrong from now on.
    pub(super) fn calm_down(&mut self) {
        let now = self.outside.now;
        self.outside.phase = Phase::Calm;
        self.outside.database.heal(now);
        // Dates that were set while the wall clock was ahead come in time.
        self.chaos.settle_wall(&mut self.outside);
        let bound = self.bound();
        let open = self.outside.books.open();
        self.outside.tell(|| format!("calm; {open} jobs must end within {bound:?}"));
        self.calm = Some(Calm { since: now, bound });
        self.outside.queue.push(now + LOOK_INTERVAL, Event::Look);
    }

    /// Somebody looks whether all jobs have ended.
    pub(super) fn look(&mut self) {
        self.note(&[11, self.outside.books.open() as u64]);
        let Some(calm) = &self.calm else { return };
        let verdict =
            job_lost::check_in_time(&self.outside.books, self.outside.now.since(calm.since), calm.bound);
        self.outside.judge(verdict);
        if self.is_over() {
            let verdict =
                job_lost::check_store(&self.outside.books, &self.outside.database, self.outside.now);
            self.outside.judge(verdict);
        }
        self.outside.queue.push(self.outside.now + LOOK_INTERVAL, Event::Look);
    }

    /// Whether nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        let Some((calm, lasted)) = self.calm.as_ref().zip(self.calm_for()) else { return false };
        // If nobody asks whether a job is lost, the bound is still the end of it.
        let is_given_up = self.outside.setup.only_law.is_some() && lasted > calm.bound;
        lasted >= CALM_MIN && self.outside.books.open() == 0 || is_given_up
    }

    /// How long the last job may take from now on.
    fn bound(&self) -> Duration {
        let setup = &self.outside.setup;
        let books = &self.outside.books;
        // The last faults end, and the last of those cut off learns it. The workers of a server that does not come back are
        // taken over, which the store may be late to do.
        let recovery = PAUSE_MAX.max(DOWN_MAX).max(TROUBLE_MAX) + LEARN_MAX + LATE_MAX * 2 + OWNED_FOR * 2;
        // A worker that will not come back is noticed: at the latest a lease after its server came back.
        let silence = setup.rate_error().longer(LEASE_MAX) * 2;
        // What nobody holds comes back when its row lease is over, which a stall of a server may have made longer; and
        // rescue pauses after a stall.
        let clock = self.outside.database.lease_clock(self.outside.now);
        let running = books.jobs().filter(|(_, job)| job.state == Some(State::Running));
        let rows =
            running.filter_map(|(id, _)| self.outside.database.look_at(self.outside.now, id)?.lease_until);
        let rows = rows.map(|until| until.since(clock)).max().unwrap_or_default();
        let rescue = rows + PAUSE_MAX * 2 + upkeep::PAUSE_MAX;
        // Then everything runs; what was lost on the way to its worker once more.
        let open = books.jobs().filter(|(_, job)| job.state.is_some_and(|state| !state.is_terminal()));
        let work: Duration = open.map(|(id, _)| Nature::of(id, setup).runs).sum();
        let once = setup.verify_after + setup.verify_push + RETRY_MAX + RUN_MAX;
        // A worker that is ended with a job it cannot stop comes back.
        let stopping = (KILL_WAIT_MAX + DOWN_MAX) * 2;
        recovery + silence + rescue + stopping + work / setup.workers[0].slots + once * 2
    }
}
