//! The moment a call is carried out by the store: what changed goes into the world's books, and the laws are asked.

use model::{Hold, HolderEnd, Job, JobId, State, WorkerKey};
use store::{Cancelled, EnlistAnswer, Expired, Finished, KnownWorker, Reaped, Redriven, Renewed};

use super::books::shown;
use super::call::{Call, Reply};
use super::database::Asker;
use super::event::Event;
use super::laws::{
    double_judge, exclusive_to_the_unfit, fence_went_back, left_without_owner, reported_while_running,
    stale_write_accepted, taken_from_a_live_holder,
};
use super::world::World;

impl World<'_> {
    /// A call is carried out, unless it is refused.
    pub(super) fn store_runs(&mut self, number: u64) {
        let now = self.outside.now;
        let arrived = self.outside.database.arrive(number);
        let arrived = arrived.map(|it| (it.asker, it.call.clone()));
        let reply = arrived.map(|(asker, call)| {
            let rows = self.rows_before(&call);
            let reply = self.outside.database.run(now, call.clone());
            self.book(asker, &call, &reply, &rows);
            reply
        });
        if let Some(at) = self.outside.database.answer(now, number, reply) {
            self.outside.queue.push(at, Event::StoreAnswers(number));
        }
    }

    /// The rows that a rescue or a push is about, before it.
    fn rows_before(&self, call: &Call) -> Vec<Option<Job>> {
        match call {
            Call::Reap(seen) | Call::Push(seen, _) => {
                seen.iter().map(|row| self.outside.database.look_at(self.outside.now, row.hold.job)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn book(&mut self, asker: Asker, call: &Call, reply: &Reply, rows: &[Option<Job>]) {
        match (call, reply) {
            (Call::Enqueue(_), Reply::Enqueue(answer)) => {
                let new = answer.jobs.iter().filter(|job| !job.duplicate);
                new.for_each(|job| self.outside.books.moved(job.id, State::Available));
            }
            (Call::Claim(claim), Reply::Claim(claimed)) => {
                for job in claimed {
                    let verdict = fence_went_back::check(self.outside.books.job(job.hold.job), job.hold);
                    self.outside.judge(verdict);
                    let is_exclusive = self.outside.setup.exclusive.contains(&job.queue);
                    self.outside.books.claimed(job.hold, &claim.holder, is_exclusive);
                    self.outside.stats.claims += 1;
                    self.outside.tell(|| format!("{} claims {}", claim.holder, shown(job.hold)));
                    if is_exclusive {
                        self.check_fitness(job.hold, &claim.holder);
                        self.outside.note_handover(job.hold);
                    }
                }
            }
            (Call::Finish { key, reports }, Reply::Finish(answers)) => {
                for (report, answer) in reports.iter().zip(answers) {
                    if let Finished::Done { state, .. } = answer {
                        self.check_write(report.hold, key, "report");
                        let is_live = self.outside.runs.is_live(report.hold);
                        self.outside.judge(reported_while_running::check(report.hold, key, is_live));
                        self.moved(report.hold.job, *state);
                        self.outside
                            .tell(|| format!("{key} reported {}: {}", shown(report.hold), state.word()));
                    }
                }
            }
            (Call::Progress { key, notes }, Reply::Progress(accepted)) => {
                let accepted = notes.iter().zip(accepted).filter(|(_, accepted)| **accepted);
                accepted.for_each(|(note, _)| self.check_write(note.hold, key, "note"));
            }
            (Call::Renew { key, holds, .. }, Reply::Renew(renewed)) => {
                let held = holds.iter().zip(renewed).filter(|(_, it)| matches!(it, Renewed::Held { .. }));
                held.for_each(|(hold, _)| self.check_write(*hold, key, "renewal"));
            }
            (Call::Push(seen, _), Reply::Push(moved)) => {
                let current = seen.iter().zip(rows).filter(|(seen, row)| is_as_seen(seen, row.as_ref()));
                self.outside.judge(stale_write_accepted::check_push(*moved, current.count() as u64));
            }
            (Call::Reap(seen), Reply::Reap(reaped)) => {
                for taken in reaped {
                    let place = seen.iter().position(|seen| seen.hold.job == taken.hold.job);
                    let place = place.expect("a rescue takes back only what it was asked to");
                    let row = rows[place].as_ref().expect("what was taken back was there");
                    let clock = self.outside.database.lease_clock(self.outside.now);
                    self.outside.judge(stale_write_accepted::check_reap(row, &seen[place], clock));
                    self.taken_back(asker, taken, seen[place].beats_itself);
                }
            }
            (Call::ReapHolder { key, counted }, Reply::Reap(reaped)) => {
                for taken in reaped {
                    self.taken_back(asker, taken, false);
                    if *counted && taken.state == State::Available {
                        self.note_rescue(key);
                    }
                }
            }
            (Call::Retire { key, end, .. }, Reply::Retire(true)) => {
                self.check_judge(asker, key);
                self.outside.books.key_mut(key).end.get_or_insert(*end);
            }
            (Call::Enlist(worker), Reply::Enlist(EnlistAnswer::Known)) => {
                let is_there = self.outside.books.registry(worker.registry).is_some();
                let verdict = left_without_owner::check_enlisted(&worker.key, worker.registry, is_there);
                self.outside.judge(verdict);
                let book = self.outside.books.key_mut(&worker.key);
                book.registry = Some(worker.registry);
                // The store may have forgotten that it was over.
                book.end = None;
            }
            (Call::Found(_), Reply::Found(registry)) => {
                self.outside.books.founded(*registry, asker.server, asker.life, self.outside.now);
            }
            (Call::Beat(registry), Reply::Beat(Some(_))) => self.beaten(*registry),
            (Call::TakeOver { from, by, .. }, Reply::TakeOver(Some(workers))) => {
                self.taken_over(*from, *by, workers.len());
            }
            (Call::Succeed { former, key, holds }, Reply::Succeed(moved)) => {
                for hold in holds.iter().zip(moved).filter(|(_, moved)| **moved).map(|(hold, _)| *hold) {
                    if !self.outside.books.job(hold.job).is_held(hold, key) {
                        self.check_write(hold, former, "succession");
                    }
                    self.outside.books.succeeded(hold.job, key);
                    self.outside.stats.succeeded += 1;
                }
                self.note_end(former);
            }
            (Call::Cancel(id), Reply::Cancel(Cancelled::Now)) => self.moved(*id, State::Cancelled),
            (Call::Redrive(id), Reply::Redrive(Redriven::Again(_))) => self.moved(*id, State::Available),
            _ => {}
        }
    }

    /// Whether the store has this key as over, which a succession does to the former one.
    fn note_end(&mut self, key: &WorkerKey) {
        let known = self.outside.database.run(self.outside.now, Call::Worker(key.clone()));
        if let Reply::Worker(Some(KnownWorker { ended: Some((end, _)), .. })) = known {
            self.outside.books.key_mut(key).end.get_or_insert(end);
        }
    }

    /// A job was taken back from its holder.
    fn taken_back(&mut self, asker: Asker, taken: &Reaped, beats_itself: bool) {
        self.outside.tell(|| {
            format!("{} is taken back from {}: {}", shown(taken.hold), taken.holder, taken.state.word())
        });
        self.check_judge(asker, &taken.holder);
        let server = &self.servers[asker.server];
        // A statement of an earlier life, or of an earlier registry of this one, was decided by a machine that is gone.
        if server.process.is_up()
            && server.process.life() == asker.life
            && server.registry_id() == asker.registry
        {
            let is_in_use =
                self.workers[self.outside.books.key(&taken.holder).worker].key() == Some(&taken.holder);
            let holder = taken_from_a_live_holder::Holder {
                key: &taken.holder,
                is_alive: self.is_alive(&taken.holder) && is_in_use,
                state: server.state_of(&taken.holder),
                is_bound: server.registry().is_some_and(|it| it.is_bound(&taken.holder, taken.hold)),
                beats_itself,
                is_exclusive: taken.exclusive,
            };
            let verdict = taken_from_a_live_holder::check(taken.hold, &holder);
            self.outside.judge(verdict);
        }
        self.moved(taken.hold.job, taken.state);
    }

    fn check_judge(&mut self, asker: Asker, key: &WorkerKey) {
        let owner = self.outside.books.owner_of(key);
        self.outside.judge(double_judge::check(key, owner, asker.registry));
    }

    fn check_fitness(&mut self, hold: Hold, holder: &WorkerKey) {
        let worker = &self.outside.setup.workers[self.outside.books.key(holder).worker];
        let verdict = exclusive_to_the_unfit::check(hold, holder, worker.stop_within().is_some());
        self.outside.judge(verdict);
    }

    fn check_write(&mut self, hold: Hold, key: &WorkerKey, verb: &str) {
        let verdict = stale_write_accepted::check_write(self.outside.books.job(hold.job), hold, key, verb);
        self.outside.judge(verdict);
    }

    fn moved(&mut self, id: JobId, state: State) {
        self.outside.books.moved(id, state);
        match state {
            State::Completed => self.outside.stats.completed += 1,
            State::Cancelled => self.outside.stats.cancelled += 1,
            State::Dead => self.outside.stats.buried += 1,
            State::Scheduled | State::Available | State::Running => {}
        }
    }

    /// A job of a worker that ended is offered again.
    fn note_rescue(&mut self, key: &WorkerKey) {
        let book = self.outside.books.key(key);
        if let Some(since) = book.died_at.or(book.answered_at) {
            let took = self.outside.now.since(since).as_nanos() as u64;
            self.outside.stats.rescues.push(took);
            if self.chaos.disturbance() < since {
                self.outside.stats.rescues_undisturbed.push(took);
            }
            let was_at_once = book.end == Some(HolderEnd::Crashed);
            if was_at_once && self.chaos.trouble_of_machine(book.worker) < since {
                self.outside.stats.crash_rescues.push(took);
            }
        }
    }
}

fn is_as_seen(seen: &Expired, row: Option<&Job>) -> bool {
    row.is_some_and(|row| row.fence == seen.hold.fence && row.lease_until == Some(seen.lease_until))
}
