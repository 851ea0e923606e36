//! What can happen, and what comes of it.

use std::sync::Arc;

use muster::{Mutation, set};

use super::World;
use super::code::{Id, Instance, has};
use super::mind::{Mind, Op};
use super::state::{Down, Shared, Slot, State, TASKS_MAX, Up};

/// Something that happens. Slots and tasks are counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The worker in this slot finds the present scheduler, belongs to it from now on and sends it a heartbeat.
    Connect(usize),
    /// It sends a heartbeat, with an id that it has not said yet.
    Beat(usize),
    /// The scheduler hears the oldest heartbeat from this slot.
    Hear(usize),
    /// The scheduler asks the worker what it runs, and is told.
    Fetch(usize),
    /// The scheduler answers a heartbeat, or tells a new id.
    Tell(usize),
    /// The worker receives the oldest message.
    Receive(usize),
    /// The streams of this worker break: whatever was under way is lost.
    Break(usize),
    /// The scheduler finds the worker healthy, as it may.
    Heal(usize),
    /// The scheduler finds that the worker does badly. Only asked for when that would make a difference it must not make.
    Unwell(usize),
    /// The scheduler sends the worker a start of this task.
    Start(usize, usize),
    /// The task ends by itself.
    Finish(usize, usize),
    /// The scheduler learns that the worker certainly does not run the task, by its result or by asking.
    Learn(usize, usize),
    /// The worker's hold is over, or its process died: its tasks have stopped, and its key is never used again.
    End(usize),
    /// The scheduler's lease of this instance is over too.
    Lose(u8),
    /// The safe wait is over.
    SafeWaitOver,
    /// The scheduler makes its pass.
    Update,
    /// Somebody has been held back for so long that newcomers have to queue.
    CloseQueue,
    /// The scheduler dies and the next one starts.
    Restart,
}

impl World {
    pub(super) fn possible(&self, state: &State, into: &mut Vec<Action>) {
        use Action::*;
        into.extend([Update, CloseQueue, SafeWaitOver, Restart]);
        for slot in 0..self.bounds.workers {
            let per_slot = [Connect, Beat, Hear, Fetch, Tell, Receive, Break, Heal, End];
            into.extend(per_slot.map(|action| action(slot)));
            if self.bounds.mutation == Some(Mutation::UnhealthyExcluded) {
                into.push(Unwell(slot));
            }
            for task in 0..self.bounds.tasks {
                into.extend([Start(slot, task), Finish(slot, task), Learn(slot, task)]);
            }
            let now = state.slots[slot].before;
            into.extend((0..now).map(|before| Lose(slot as u8 + before * self.bounds.workers as u8)));
        }
    }

    pub(super) fn follow(&self, state: &State, action: Action) -> Option<State> {
        match action {
            Action::Connect(slot) => self.connect(state, slot),
            Action::Beat(slot) => self.beat(state, slot),
            Action::Hear(slot) => self.hear(state, slot),
            Action::Fetch(slot) => self.fetch(state, slot),
            Action::Tell(slot) => self.tell_id(state, slot),
            Action::Receive(slot) => self.receive(state, slot),
            Action::Break(slot) => break_streams(state, slot),
            Action::Heal(slot) => self.heal(state, slot),
            Action::Unwell(slot) => {
                let instance = self.known(state, slot)?;
                self.minded(state, Op::Unwell(instance))
            }
            Action::Start(slot, task) => self.start(state, slot, task),
            Action::Finish(slot, task) => {
                let mut next = has(state.slots[slot].runs, task as u8).then(|| state.clone())?;
                next.slots[slot].runs &= !(1 << task);
                Some(next)
            }
            Action::Learn(slot, task) => self.learn(state, slot, task),
            Action::End(slot) => self.end(state, slot),
            Action::Lose(instance) => self.lose(state, instance),
            Action::SafeWaitOver => self.safe_wait_over(state),
            Action::Update => self.minded(state, Op::Update),
            Action::CloseQueue => self.minded(state, Op::CloseQueue),
            Action::Restart => self.restart(state),
        }
    }

    /// Something happens to the scheduler's mind and to nothing else; `None` if it does not change it.
    fn minded(&self, state: &State, op: Op) -> Option<State> {
        let mind = self.minds.after(&state.scheduler.mind.0, op);
        (mind.print != state.scheduler.mind.0.print).then(|| {
            let mut next = state.clone();
            set_mind(&mut next, mind);
            next
        })
    }

    /// Something happens to the scheduler's mind, among other things.
    fn tell_mind(&self, next: &mut State, op: Op) {
        let mind = self.minds.after(&next.scheduler.mind.0, op);
        set_mind(next, mind);
    }

    fn instance(&self, state: &State, slot: usize) -> Instance {
        state.slots[slot].instance(slot, self.bounds.workers)
    }

    /// The instance in this slot, if it belongs to the present scheduler, which has heard from it.
    fn known(&self, state: &State, slot: usize) -> Option<Instance> {
        let instance = self.instance(state, slot);
        let scheduler = &state.scheduler;
        let is_ours = state.slots[slot].belongs == scheduler.generation;
        (is_ours && has(scheduler.mind.0.known, instance)).then_some(instance)
    }

    fn connect(&self, state: &State, slot: usize) -> Option<State> {
        let Slot { belongs, kept, up, .. } = state.slots[slot];
        let may = belongs != state.scheduler.generation && up.len() < self.bounds.in_flight;
        let mut next = may.then(|| state.clone())?;
        let from = self.instance(state, slot);
        let worker = &mut next.slots[slot];
        worker.belongs = state.scheduler.generation;
        worker.said = kept;
        // What a former scheduler said on its own stream is not read any more.
        worker.down.retain(|_| false);
        worker.up.push(Up { from, id: kept });
        Some(next)
    }

    fn beat(&self, state: &State, slot: usize) -> Option<State> {
        let Slot { belongs, kept, said, up, .. } = state.slots[slot];
        let is_ours = belongs == state.scheduler.generation;
        let mut next =
            (is_ours && said != kept && up.len() < self.bounds.in_flight).then(|| state.clone())?;
        next.slots[slot].said = kept;
        next.slots[slot].up.push(Up { from: self.instance(state, slot), id: kept });
        Some(next)
    }

    fn hear(&self, state: &State, slot: usize) -> Option<State> {
        let mut next = (!state.slots[slot].up.is_empty()).then(|| state.clone())?;
        let Up { from, id } = next.slots[slot].up.pop()?;
        let is_known = has(state.scheduler.mind.0.known, from);
        self.tell_mind(&mut next, if is_known { Op::Echoed(from, id) } else { Op::Join(from, id) });
        Some(next)
    }

    fn fetch(&self, state: &State, slot: usize) -> Option<State> {
        let instance = self.known(state, slot)?;
        let mut next = (!has(state.scheduler.mind.0.fetched, instance)).then(|| state.clone())?;
        for task in (0..TASKS_MAX).filter(|task| has(state.slots[slot].runs, *task as u8)) {
            next.scheduler.on[task].get_or_insert(instance);
        }
        self.tell_mind(&mut next, Op::Fetched(instance));
        Some(next)
    }

    fn tell_id(&self, state: &State, slot: usize) -> Option<State> {
        let instance = self.known(state, slot)?;
        let Slot { holds, kept, down, .. } = state.slots[slot];
        let id = state.scheduler.mind.0.current[usize::from(instance)];
        let last = down.iter().rev().find_map(|said| if let Down::Told(id) = said { Some(id) } else { None });
        // What it has or is about to have need not be said again; but its first lease must be granted.
        let is_news =
            if holds || last.is_some() { id != Id::NONE && last.unwrap_or(kept) != id } else { true };
        let mut next = (is_news && down.len() < self.bounds.in_flight).then(|| state.clone())?;
        next.slots[slot].down.push(Down::Told(id));
        Some(next)
    }

    fn receive(&self, state: &State, slot: usize) -> Option<State> {
        let mut next = (!state.slots[slot].down.is_empty()).then(|| state.clone())?;
        let worker = &mut next.slots[slot];
        match worker.down.pop()? {
            Down::Told(told) => {
                worker.holds = true;
                let codes = self.minds.codes();
                if let Some(told) = codes.set_id(told) {
                    let scheduler = model::Generation(u64::from(worker.belongs));
                    worker.kept = codes.code(set::keep(codes.set_id(worker.kept), scheduler, told));
                }
            }
            // Without a lease it refuses.
            Down::Start(task) => worker.runs |= u8::from(worker.holds) << task,
        }
        Some(next)
    }

    fn heal(&self, state: &State, slot: usize) -> Option<State> {
        let instance = self.known(state, slot)?;
        let mind = &state.scheduler.mind.0;
        let may = has(mind.permitted & mind.fetched & !mind.latched, instance);
        may.then(|| self.minded(state, Op::Healthy(instance)))?
    }

    fn start(&self, state: &State, slot: usize, task: usize) -> Option<State> {
        let instance = self.known(state, slot)?;
        let scheduler = &state.scheduler;
        let is_free = scheduler.on[task].is_none() && state.slots[slot].down.len() < self.bounds.in_flight;
        let may = scheduler.mind.0.is_over && has(scheduler.mind.0.latched, instance) && is_free;
        let mut next = may.then(|| state.clone())?;
        next.scheduler.on[task] = Some(instance);
        next.slots[slot].down.push(Down::Start(task as u8));
        Some(next)
    }

    fn learn(&self, state: &State, slot: usize, task: usize) -> Option<State> {
        let instance = self.known(state, slot)?;
        let worker = &state.slots[slot];
        let may_run =
            has(worker.runs, task as u8) || worker.down.iter().any(|it| it == Down::Start(task as u8));
        let is_free = state.scheduler.on[task] == Some(instance) && !may_run;
        let mut next = is_free.then(|| state.clone())?;
        next.scheduler.on[task] = None;
        Some(next)
    }

    fn end(&self, state: &State, slot: usize) -> Option<State> {
        let worker = &state.slots[slot];
        // One that never met a scheduler is as good as new.
        let mut next = (state.ends_left > 0 && worker.belongs != 0).then(|| state.clone())?;
        next.ends_left -= 1;
        // Its heartbeats may still arrive.
        next.slots[slot] = Slot { before: worker.before + 1, up: worker.up, ..Slot::new() };
        Some(next)
    }

    fn lose(&self, state: &State, instance: Instance) -> Option<State> {
        let mut next = has(state.scheduler.mind.0.known, instance).then(|| state.clone())?;
        self.tell_mind(&mut next, Op::Lost(instance));
        let freed = next.scheduler.on.iter_mut().filter(|on| **on == Some(instance));
        freed.for_each(|on| *on = None);
        // A heartbeat that is older than a lease is refused.
        next.slots[usize::from(instance) % self.bounds.workers].up.retain(|up| up.from != instance);
        Some(next)
    }

    fn safe_wait_over(&self, state: &State) -> Option<State> {
        let mind = &state.scheduler.mind.0;
        let unheard = |slot: &usize| !has(mind.known, self.instance(state, *slot));
        // Whoever still holds a lease of a former scheduler must have been heard of: all others' are over by now.
        let is_over = (0..self.bounds.workers).filter(unheard).all(|slot| !state.slots[slot].holds);
        let mut next = (is_over && !mind.is_safe).then(|| state.clone())?;
        // And so are those that are still under way to somebody.
        let former = next.slots.iter_mut().filter(|worker| worker.belongs != state.scheduler.generation);
        former.for_each(|worker| worker.down.retain(|_| false));
        self.tell_mind(&mut next, Op::SafeWaitOver);
        Some(next)
    }

    fn restart(&self, state: &State) -> Option<State> {
        let generation = state.scheduler.generation;
        let mut next = (generation <= self.bounds.restarts).then(|| self.began(generation + 1))?;
        next.ends_left = state.ends_left;
        next.slots = state.slots;
        for worker in &mut next.slots {
            // Heartbeats were addressed to the one that died.
            worker.up.retain(|_| false);
            worker.said = Id::UNSAID;
        }
        Some(next)
    }
}

fn break_streams(state: &State, slot: usize) -> Option<State> {
    let Slot { up, down, .. } = state.slots[slot];
    let mut next = (!up.is_empty() || !down.is_empty()).then(|| state.clone())?;
    let worker = &mut next.slots[slot];
    worker.said = Id::UNSAID;
    worker.up.retain(|_| false);
    worker.down.retain(|_| false);
    Some(next)
}

fn set_mind(state: &mut State, mind: Arc<Mind>) {
    state.scheduler.has_left |= mind.is_over;
    state.scheduler.mind = Shared(mind);
}
