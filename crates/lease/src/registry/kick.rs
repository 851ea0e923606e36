//! Kicked workers. One that runs nothing exclusive ends at once: whatever it still does counts for nothing. The exclusive
//! jobs of others may run on until their worker has stopped them, so it is *stopping* first: it gets nothing and renews
//! nothing, and ends by its own word that all has stopped, or with its lease.

use model::{HolderEnd, Instant, WorkerKey};

use super::entity::Stage;
use super::io::{Input, Output, Ticket};
use super::machine::Registry;
use super::mutation::Mutation;
use super::timers::Timer;

impl Registry {
    /// An operator wants a worker gone.
    pub(super) fn kick(&mut self, now: Instant, ticket: Ticket, key: WorkerKey) {
        let Some(worker) = self.workers.get_mut(&key) else { return self.outbox.leave_done(ticket) };
        let must_stop_first = worker.may_run_exclusive() && !self.rules.has(Mutation::KickHandsOverAtOnce);
        match &mut worker.stage {
            Stage::Joining(joining) => joining.behind.push(Input::Kick { ticket, key }),
            Stage::Active(_) if must_stop_first => {
                self.stop_first(key);
                self.outbox.leave_done(ticket);
            }
            Stage::Active(_) => self.end(now, &key, HolderEnd::Kicked, Some(now), Some(ticket)),
            Stage::Stopping => self.outbox.leave_done(ticket),
            Stage::Ended(ending) => self.outbox.leave_done_with(ending, ticket),
        }
    }

    fn stop_first(&mut self, key: WorkerKey) {
        self.dismiss(&key, HolderEnd::Kicked);
        if self.rules.has(Mutation::GoneWithItsSession) {
            self.outbox.push(Output::Gone { key: key.clone() });
        }
        let Some(worker) = self.workers.get_mut(&key) else { return };
        worker.stage = Stage::Stopping;
        // The timer may have fired in vain while a successor waited; nobody inherits from this one any more.
        worker.lease_timer = worker.expires;
        self.timers.arm(worker.expires, Timer::Lease, key);
    }
}
