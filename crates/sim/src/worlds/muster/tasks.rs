//! Tasks, as a scheduler without memory knows them: from clients that submit again, and from workers that say what they run.

use std::time::Duration;

use model::{Clock, WallTime};
use muster::Input;

use super::event::{Down, Event, Fence, Instance, Life, Stream, Task};
use super::laws::{fence_monotone, work_for_the_unhealthy};
use super::mutation::Mutation;
use super::world::World;

/// What a scheduler knows of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its client has submitted it to this scheduler.
    is_wanted: bool,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It waits for a worker.
    Queued,
    /// It may be running there.
    On(Instance, Fence),
    /// It has ended there, and its client does not know yet.
    Ended(Instance, Fence),
}

impl World<'_> {
    /// A client wants something new, and something again later.
    pub(super) fn submit(&mut self) {
        let Some(every) = self.setup.submit_every.filter(|_| self.calm_since.is_none()) else { return };
        let client = self.rng.below(u64::from(self.setup.clients)) as u32;
        let task = self.books.want(client);
        self.stats.tasks += 1;
        if self.scheduler.as_ref().is_some_and(|scheduler| scheduler.clients.contains(&client)) {
            self.submitted(task);
            self.dispatch();
        }
        let next = self.rng.span(Duration::ZERO, every * 2);
        self.push_in(next, Event::Submit);
    }

    /// A client finds a new scheduler and submits all it still wants, under the same ids.
    pub(super) fn client_connects(&mut self, client: u32, life: Life) {
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        scheduler.clients.insert(client);
        scheduler.fence_last = scheduler.fence_last.max(self.clients[client as usize]);
        let wanted: Vec<Task> = (0..self.books.tasks.len() as Task)
            .filter(|task| self.books.task(*task).client == client && !self.books.task(*task).is_done)
            .collect();
        wanted.into_iter().for_each(|task| self.submitted(task));
        // Results of what it does not want any more, it has; nobody need keep them.
        self.hand_over_results();
        self.after_scheduler();
    }

    fn submitted(&mut self, task: Task) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let entry = scheduler.tasks.entry(task).or_insert_with(|| {
            scheduler.queue.push_back(task);
            Entry { is_wanted: true, place: Place::Queued }
        });
        entry.is_wanted = true;
    }

    /// Results go to those clients that are there.
    fn hand_over_results(&mut self) {
        let Some(scheduler) = &self.scheduler else { return };
        let ended: Vec<(Task, Instance, Fence)> = scheduler
            .tasks
            .iter()
            .filter(|(task, _)| scheduler.clients.contains(&self.books.task(**task).client))
            .filter_map(|(task, entry)| match entry.place {
                Place::Ended(instance, fence) => Some((*task, instance, fence)),
                Place::Queued | Place::On(..) => None,
            })
            .collect();
        for (task, instance, fence) in ended {
            self.hand_over(task, instance, fence);
        }
    }

    fn hand_over(&mut self, task: Task, instance: Instance, fence: Fence) {
        self.books.done(task);
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.tasks.remove(&task);
        }
        self.send(instance, Down::Acknowledged(task, fence));
    }

    /// A worker says what it runs: the first time it is adopted, later it tells what did not arrive.
    pub(super) fn running(
        &mut self,
        instance: Instance,
        stream: Stream,
        running: &[(Task, Fence)],
        ended: &[(Task, Fence)],
    ) {
        let now = self.setup.scheduler_clock.shows(self.now);
        let key = self.books.instance(instance).key.clone();
        let Some(scheduler) = &mut self.scheduler else { return };
        let Some(session) = scheduler.sessions.get_mut(&instance) else { return };
        let there = || running.iter().chain(ended);
        if session.stamps.fetched.is_some() {
            // Starts of an earlier stream are refused by now.
            let missing: Vec<(Task, Fence)> = session
                .tasks
                .iter()
                .filter(|(.., sent)| *sent < stream)
                .map(|(task, fence, _)| (*task, *fence))
                .filter(|hold| !there().any(|other| other == hold))
                .collect();
            session.tasks.iter_mut().for_each(|(.., sent)| *sent = (*sent).max(stream));
            session.tasks.retain(|(task, fence, _)| !missing.contains(&(*task, *fence)));
            for (task, fence) in missing {
                self.not_there(instance, task, fence);
            }
            return self.note_ready(instance);
        }
        session.stamps.fetched = Some(now);
        for (task, fence) in there() {
            scheduler.fence_last = scheduler.fence_last.max(*fence);
            session.tasks.push((*task, *fence, stream));
            let entry =
                scheduler.tasks.entry(*task).or_insert(Entry { is_wanted: false, place: Place::Queued });
            entry.place = Place::On(instance, *fence);
        }
        scheduler.muster.handle(now, Input::Fetched { key });
        for (task, fence) in ended {
            self.result(instance, *task, *fence);
        }
    }

    /// A task ended.
    pub(super) fn result(&mut self, instance: Instance, task: Task, fence: Fence) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let Some(session) = scheduler.sessions.get_mut(&instance) else { return };
        // A result that overtook the answer about what runs is said again in there.
        if session.stamps.fetched.is_none() {
            return;
        }
        session.tasks.retain(|(other, claim, _)| (*other, *claim) != (task, fence));
        let entry = scheduler.tasks.get_mut(&task).filter(|entry| entry.place == Place::On(instance, fence));
        match entry {
            Some(entry) => {
                entry.place = Place::Ended(instance, fence);
                if scheduler.clients.contains(&self.books.task(task).client) {
                    self.hand_over(task, instance, fence);
                }
            }
            // It was known before, or is stale.
            None => {
                let is_kept = scheduler
                    .tasks
                    .get(&task)
                    .is_some_and(|entry| entry.place == Place::Ended(instance, fence));
                if !is_kept {
                    self.stats.stale_results += 1;
                    self.send(instance, Down::Acknowledged(task, fence));
                }
            }
        }
        self.note_ready(instance);
    }

    /// A start was refused: the worker was not well when it came.
    pub(super) fn refused(&mut self, instance: Instance, task: Task, fence: Fence) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let Some(session) = scheduler.sessions.get_mut(&instance) else { return };
        session.tasks.retain(|(other, claim, _)| (*other, *claim) != (task, fence));
        self.not_there(instance, task, fence);
        self.note_ready(instance);
    }

    /// It certainly does not run there, and did not end there as far as anybody knows.
    pub(super) fn not_there(&mut self, instance: Instance, task: Task, fence: Fence) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let Some(entry) = scheduler.tasks.get_mut(&task) else { return };
        if entry.place != Place::On(instance, fence) {
            return;
        }
        if entry.is_wanted {
            entry.place = Place::Queued;
            scheduler.queue.push_back(task);
        } else {
            scheduler.tasks.remove(&task);
        }
    }

    /// Whether this worker may be given more.
    pub(super) fn note_ready(&mut self, instance: Instance) {
        let slots = self.setup.workers[self.books.instance(instance).slot as usize].slots as usize;
        let Some(scheduler) = &mut self.scheduler else { return };
        let Some(session) = scheduler.sessions.get(&instance) else { return };
        if session.is_healthy && session.tasks.len() < slots {
            scheduler.ready.insert(instance);
        } else {
            scheduler.ready.remove(&instance);
        }
    }

    /// Starts what waits on whoever has room.
    pub(super) fn dispatch(&mut self) {
        loop {
            let Some(scheduler) = &mut self.scheduler else { return };
            if scheduler.muster.is_waiting() || scheduler.queue.is_empty() || scheduler.ready.is_empty() {
                return;
            }
            let anywhere = self.rng.below(self.books.instances.len() as u64) as Instance;
            let ready = &scheduler.ready;
            let instance = *ready.range(anywhere..).next().or(ready.first()).expect("somebody is ready");
            if !scheduler.muster.may_run(&self.books.instance(instance).key) {
                scheduler.ready.remove(&instance);
                continue;
            }
            let task = scheduler.queue.pop_front().expect("something waits");
            let is_queued = scheduler.tasks.get(&task).is_some_and(|entry| entry.place == Place::Queued);
            if is_queued {
                self.send_start(instance, task);
            }
        }
    }

    fn send_start(&mut self, instance: Instance, task: Task) {
        let fence = self.mint();
        let Some(scheduler) = &mut self.scheduler else { return };
        scheduler.fence_last = fence;
        let Some(session) = scheduler.sessions.get_mut(&instance) else { return };
        session.tasks.push((task, fence, session.stream));
        let stamps = session.stamps;
        if let Some(entry) = scheduler.tasks.get_mut(&task) {
            entry.place = Place::On(instance, fence);
        }
        let book = &mut self.books.tasks[task as usize];
        let before = book.fence;
        book.fence = before.max(fence);
        // Its client has submitted it to this scheduler, and is told.
        let client = &mut self.clients[book.client as usize];
        *client = fence.max(*client);
        self.tell(|| format!("task {task} fence {fence} is sent to instance {instance}"));
        self.judge(fence_monotone::check(task, before, fence));
        let now = self.setup.scheduler_clock.shows(self.now);
        self.judge(work_for_the_unhealthy::check(instance, now, &stamps, &self.setup.rules));
        self.send(instance, Down::Start(task, fence));
        self.note_ready(instance);
    }

    /// A fence that is higher than all before it.
    fn mint(&self) -> Fence {
        self.wall.set(self.now);
        let micros = self.wall.wall().since(WallTime::from_millis(0)).as_micros() as Fence;
        let last = self.scheduler.as_ref().map_or(0, |scheduler| scheduler.fence_last);
        if self.setup.is_broken_by(Mutation::FencesByWall) { micros } else { micros.max(last + 1) }
    }
}
