//! What goes wrong, when, and to whom.

use std::time::Duration;

use super::event::{Event, Slot};
use super::setup::{DOWN_MAX, TROUBLE_MAX};
use super::world::World;
use crate::faults::{Fault, until_next};

/// The end of a fault, or a part of one that comes later.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heal {
    /// The process goes on.
    Thaw(Slot),
    /// It can be reached again.
    Unblock(Slot),
    /// It is cut off now.
    Block(Slot),
    /// It is as fast as before.
    NoLag(Slot),
    /// Messages are as fast as before.
    NoSpikes,
    /// The process of one that never lasts dies again.
    LooperDies(Slot),
}

impl World<'_> {
    /// A fault of the plan strikes, and again later.
    pub(super) fn strike(&mut self, number: usize) {
        if self.calm_since.is_some() {
            return;
        }
        let (fault, mean) = self.setup.plan.faults().nth(number).expect("a fault of the plan");
        self.stats.faults += 1;
        self.tell(|| format!("fault {fault:?}"));
        self.befall(fault);
        let next = until_next(&mut self.rng, mean);
        self.push_in(next, Event::Fault(number));
    }

    fn befall(&mut self, fault: Fault) {
        let ms = Duration::from_millis;
        match fault {
            Fault::Crash | Fault::PowerLoss => {
                let slot = self.anybody();
                self.worker_dies(slot, fault == Fault::Crash);
                let away = self.rng.span_of_any_size(ms(50), TROUBLE_MAX);
                self.push_in(away, Event::WorkerStarts(slot));
            }
            Fault::MassRestart => {
                let share = self.rng.between(1, 10) as f64 / 10.0;
                let guarded = self.rng.chance(0.5);
                for slot in self.some(share) {
                    self.worker_dies(slot, guarded);
                    let away = self.rng.span_of_any_size(ms(50), Duration::from_secs(10));
                    self.push_in(away, Event::WorkerStarts(slot));
                }
            }
            Fault::GracefulStop => {
                // As far as others can tell, one that leaves is one whose guardian is quick.
                let slot = self.anybody();
                self.worker_dies(slot, true);
                let away = self.rng.span_of_any_size(ms(500), TROUBLE_MAX);
                self.push_in(away, Event::WorkerStarts(slot));
            }
            Fault::InTurn => {
                // Schedulers in quick succession, each alive for less than it would like. Not too often: one that never leaves its
                // wait does no harm.
                if self.rng.chance(0.7) {
                    return;
                }
                let mut at = Duration::ZERO;
                for _ in 0..self.rng.between(2, 4) {
                    self.push_in(at, Event::SchedulerDiesOnce);
                    at += self.rng.span_of_any_size(ms(1), Duration::from_secs(1));
                    self.push_in(at, Event::SchedulerStarts);
                    at += self.rng.span_of_any_size(ms(20), Duration::from_secs(12));
                }
            }
            Fault::Pause => {
                let slot = self.anybody();
                self.freeze(slot);
                let lasts = self.rng.span_of_any_size(ms(100), TROUBLE_MAX);
                self.push_in(lasts, Event::Heal(Heal::Thaw(slot)));
            }
            Fault::SlowCpu => {
                let slot = self.anybody();
                self.worker_mut(slot).lag = self.rng.span_of_any_size(ms(50), Duration::from_secs(4));
                let lasts = self.rng.span_of_any_size(ms(500), TROUBLE_MAX);
                self.push_in(lasts, Event::Heal(Heal::NoLag(slot)));
            }
            Fault::Break => {
                let share = *self.rng.pick(&[0.0, 0.3, 1.0]);
                self.some(share).into_iter().for_each(|slot| self.break_stream(slot));
            }
            Fault::Block => {
                let share = *self.rng.pick(&[0.0, 0.1, 0.5]);
                self.some(share).into_iter().for_each(|slot| self.block_for_a_while(slot));
            }
            Fault::DelaySpikes => {
                self.spike = self.rng.span_of_any_size(ms(100), Duration::from_secs(6));
                let lasts = self.rng.span_of_any_size(ms(500), TROUBLE_MAX);
                self.push_in(lasts, Event::Heal(Heal::NoSpikes));
            }
            Fault::WallStep => {
                let most = super::setup::WALL_STEP_MAX.as_millis() as u64;
                let step = self.rng.below(2 * most + 1) as i64 - most as i64;
                self.wall.step_wall(step);
            }
            _ => unreachable!("not on this world's menu"),
        }
    }

    fn block_for_a_while(&mut self, slot: Slot) {
        self.block(slot);
        // Long and short ones alike, and in between those that are nearly a lease.
        let most = self.setup.block_max;
        let lasts = if self.rng.chance(0.5) {
            self.rng.span(most / 2, most)
        } else {
            self.rng.span_of_any_size(most / 256, most)
        };
        self.push_in(lasts, Event::Heal(Heal::Unblock(slot)));
    }

    /// The worst moment: somebody may run tasks from now on. The scheduler dies soon, those who were cut off come back, and some
    /// of the others do not find the next one at once.
    pub(super) fn strike_now(&mut self) {
        if self.calm_since.is_some() || !self.rng.chance(self.setup.dies_at_worst) {
            return;
        }
        let soon = self.rng.span_of_any_size(Duration::from_micros(100), Duration::from_secs(2));
        self.push_in(soon, Event::SchedulerDiesOnce);
        let next = soon + self.rng.span_of_any_size(Duration::from_micros(100), Duration::from_secs(1));
        self.push_in(next, Event::SchedulerStarts);
        for slot in 0..self.workers.len() as Slot {
            if self.worker(slot).is_blocked {
                self.push_in(soon, Event::Heal(Heal::Unblock(slot)));
            } else if self.rng.chance(0.4) {
                self.push_in(soon, Event::Heal(Heal::Block(slot)));
            }
        }
    }

    pub(super) fn heal(&mut self, heal: Heal) {
        match heal {
            Heal::Thaw(slot) => self.thaw(slot),
            Heal::Unblock(slot) => self.worker_mut(slot).is_blocked = false,
            Heal::Block(slot) => {
                if self.calm_since.is_none() {
                    self.block_for_a_while(slot);
                }
            }
            Heal::NoLag(slot) => self.worker_mut(slot).lag = Duration::ZERO,
            Heal::NoSpikes => self.spike = Duration::ZERO,
            Heal::LooperDies(slot) => {
                self.worker_dies(slot, false);
                if self.calm_since.is_none_or(|since| self.now.since(since) < self.loops_on_for()) {
                    let away =
                        self.rng.span_of_any_size(Duration::from_millis(100), self.setup.loop_away_max);
                    self.push_in(away, Event::WorkerStarts(slot));
                }
            }
        }
    }

    /// The scheduler dies, and the next one starts after a while.
    pub(super) fn scheduler_dies_for_a_while(&mut self) {
        self.scheduler_dies();
        let away = self.rng.span_of_any_size(Duration::from_millis(1), DOWN_MAX);
        self.push_in(away, Event::SchedulerStarts);
        if let Some(mean) = self.setup.scheduler_dies_every {
            let next = until_next(&mut self.rng, mean);
            self.push_in(away + next, Event::SchedulerDies);
        }
    }

    fn anybody(&mut self) -> Slot {
        self.rng.below(self.workers.len() as u64) as Slot
    }

    /// About this share of all, and at least one.
    fn some(&mut self, share: f64) -> Vec<Slot> {
        let all = 0..self.workers.len() as Slot;
        let mut chosen: Vec<Slot> = all.filter(|_| self.rng.chance(share)).collect();
        if chosen.is_empty() {
            chosen.push(self.anybody());
        }
        chosen
    }
}
