//! What clients and operators do.

use std::time::Duration;

use model::Kind;
use store::EnqueueBatch;

use super::books::job_id;
use super::event::Event;
use super::nature::Nature;
use super::server::ServerInput;
use super::setup::{SERVERS, Setup};
use super::worker::WorkerInput;
use super::world::World;
use crate::faults::{Phase, until_next};
use crate::rng::Rng;

/// Jobs per slot beyond which clients wait: a world that only waits for work shows nothing.
const OPEN_PER_SLOT_MAX: usize = 8;

/// Clients and operators.
pub(super) struct Workload {
    rng: Rng,
    kind: Kind,
    jobs: u64,
}

impl Workload {
    pub(super) fn new(setup: &Setup) -> Self {
        let kind = Kind::new("work").expect("a valid name");
        Workload { rng: Rng::stream(setup.seed, 0, "workload"), kind, jobs: 0 }
    }
}

impl World<'_> {
    /// A client enqueues a few jobs at some server.
    pub(super) fn enqueue(&mut self) {
        if self.outside.phase == Phase::Calm {
            return;
        }
        let Workload { rng, kind, jobs } = &mut self.workload;
        let setup = &self.outside.setup;
        let next = self.outside.now + until_next(rng, setup.enqueue_every);
        let batch: Vec<_> = (0..rng.between(1, setup.batch_max))
            .map(|_| {
                *jobs += 1;
                let id = job_id(*jobs);
                Nature::of(id, setup).job(id, rng.pick(&setup.queues).clone(), kind.clone())
            })
            .collect();
        let server = rng.below(SERVERS as u64) as usize;
        self.outside.queue.push(next, Event::Enqueue);
        if self.outside.books.open() > OPEN_PER_SLOT_MAX * self.outside.setup.slots() as usize {
            return;
        }
        self.note(&[9, batch.len() as u64]);
        batch.iter().for_each(|job| self.outside.books.draft(job.id));
        let batch = EnqueueBatch { request_id: None, jobs: batch };
        self.servers[server].deliver(&mut self.outside, ServerInput::Enqueue(batch));
    }

    /// A client repeats an enqueue that failed, at some server. Perhaps it was done after all.
    pub(super) fn enqueue_again(&mut self, batch: EnqueueBatch) {
        self.note(&[13, batch.jobs.len() as u64]);
        let server = self.workload.rng.below(SERVERS as u64) as usize;
        self.servers[server].deliver(&mut self.outside, ServerInput::Enqueue(batch));
    }

    /// An operator does something.
    pub(super) fn operate(&mut self) {
        if self.outside.phase == Phase::Calm {
            return;
        }
        let rng = &mut self.workload.rng;
        let next = self.outside.now + until_next(rng, self.outside.setup.operate_every);
        let what = rng.below(100);
        let server = rng.below(SERVERS as u64) as usize;
        let worker = rng.below(self.workers.len() as u64) as usize;
        let back = rng.below(100);
        self.outside.queue.push(next, Event::Operate);
        self.note(&[10, what]);
        match what {
            0..60 => {
                let Some(number) = self.workload.jobs.checked_sub(back).filter(|number| *number > 0) else {
                    return;
                };
                let id = job_id(number);
                let input = if what < 40 { ServerInput::Cancel(id) } else { ServerInput::Redrive(id) };
                self.servers[server].deliver(&mut self.outside, input);
            }
            60..85 => {
                let Some(key) = self.workers[worker].key().cloned() else { return };
                self.outside.tell(|| format!("an operator wants {key} to go"));
                let input =
                    if what < 70 { ServerInput::Kick(key.clone()) } else { ServerInput::Drain(key.clone()) };
                let owner = self.owner_of(&key).unwrap_or(server);
                self.servers[owner].deliver(&mut self.outside, input);
            }
            _ => self.workers[worker].deliver(&mut self.outside, WorkerInput::Drain),
        }
    }
}

/// The mean time between batches at which this part of all slots is busy.
pub(super) fn pace(run_max: Duration, batch_max: u64, slots: u32, busy: f64) -> Duration {
    // Runs are drawn over about 16 orders of magnitude, of which the last few make up nearly all of the time.
    let run_mean = run_max.as_secs_f64() / 10.0 + 0.4;
    let batch_mean = (batch_max + 1) as f64 / 2.0;
    Duration::from_secs_f64(run_mean * batch_mean / (f64::from(slots) * busy))
}
