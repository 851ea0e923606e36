//! The ends of workers and guardians: who is killed by whom, who goes by itself, and what dies with them.

use std::time::Duration;

use super::event::Event;
use super::guardian::{Guardian, GuardianId};
use super::laws::process_left_behind;
use super::outside::Death;
use super::setup::{Guard, worker_node};
use super::worker::GuardianNews;
use super::world::World;

/// When a worker that its guardian killed is started again.
const RESTART_AFTER: Duration = Duration::from_secs(1);

impl World<'_> {
    /// Carries out what processes did to each other and to themselves during the last event.
    pub(super) fn carry_out_deaths(&mut self) {
        while let Some(death) = self.outside.deaths.pop() {
            match death {
                Death::OfWorker(id) => {
                    let worker = &self.workers[id.worker];
                    if worker.process.is_up() && worker.process.life() == id.life {
                        self.outside.tell(|| format!("worker {} is killed by its guardian", id.worker));
                        self.outside.stats.workers_killed += 1;
                        self.kill_worker(id.worker, RESTART_AFTER);
                    }
                }
                Death::OfGuardian(id) => self.kill_guardian(id),
                Death::Exit(id) => {
                    let left = self.outside.families.of(id).next();
                    self.outside.judge(process_left_behind::check_exit(id.worker, left));
                    self.end_guardian(id);
                }
            }
        }
    }

    /// SIGKILL to a worker, which somebody starts again after a while.
    pub(super) fn kill_worker(&mut self, index: usize, down: Duration) {
        let now = self.outside.now;
        self.workers[index].crash(&mut self.outside);
        self.outside.net.process_died(now, worker_node(index));
        self.outside.schedule_net();
        self.outside.queue.push(now + down, Event::Start(worker_node(index)));
    }

    /// SIGKILL to a guardian: whatever is in its namespace dies with it.
    pub(super) fn kill_guardian(&mut self, id: GuardianId) {
        if self.guardians.contains_key(&id) {
            self.outside.tell(|| format!("the guardian of worker {} is killed", id.worker));
            self.outside.stats.guardians_killed += 1;
            self.end_guardian(id);
            self.note_end_of_namespace(id);
        }
    }

    /// A namespace is gone when the last in it is: only then its worker learns that it has lost its guardian.
    pub(super) fn note_end_of_namespace(&mut self, id: GuardianId) {
        let is_gone = !self.guardians.contains_key(&id) && self.outside.families.of(id).next().is_none();
        if is_gone {
            self.outside.tell_worker(id, GuardianNews::Lost);
            self.outside.pipes.close(id);
        }
    }

    /// A machine goes dark: all its guardians with it, and at once.
    pub(super) fn kill_guardians_of(&mut self, worker: usize) {
        let ids: Vec<GuardianId> = self.guardians.keys().filter(|id| id.worker == worker).copied().collect();
        ids.into_iter().for_each(|id| self.kill_guardian(id));
    }

    /// A worker starts, with a guardian beside it if it has one.
    pub(super) fn start_worker(&mut self, index: usize) {
        if self.outside.setup.workers[index].guard != Guard::Nobody {
            let id = GuardianId { worker: index, life: self.workers[index].process.life() + 1 };
            self.guardians.insert(id, Guardian::start(id, &self.outside));
        }
        self.workers[index].start(&mut self.outside);
    }

    /// The guardian of a worker's present life, if it has one and it lives.
    pub(super) fn guardian_of(&self, index: usize) -> Option<(GuardianId, &Guardian)> {
        let id = self.workers[index].guardian_id(&self.outside)?;
        self.guardians.get(&id).map(|guardian| (id, guardian))
    }

    fn end_guardian(&mut self, id: GuardianId) {
        if let Some(guardian) = self.guardians.remove(&id) {
            guardian.die(&mut self.outside);
            self.outside.kill_families_of(id);
        }
    }
}
