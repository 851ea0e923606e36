//! A step of a counterexample in words.

use super::World;
use super::code::{Id, Instance, Instances, has};
use super::rules::Action;
use super::state::{Down, State};

impl World {
    /// An instance's name: `w2`, and after its end `w2'`.
    pub(super) fn name(&self, instance: Instance) -> String {
        let number = usize::from(instance);
        let marks = "'".repeat(number / self.bounds.workers);
        format!("w{}{marks}", number % self.bounds.workers + 1)
    }

    fn names(&self, set: Instances) -> String {
        let members = (0..8).filter(|instance| has(set, *instance)).map(|instance| self.name(instance));
        format!("{{{}}}", members.collect::<Vec<_>>().join(" "))
    }

    fn id(&self, id: Id) -> String {
        match id {
            Id::NONE => "no id".to_owned(),
            id => format!("id {}.{} {}", id.generation(), id.version(), self.names(id.members())),
        }
    }

    pub(super) fn line(&self, before: &State, action: Action, after: &State) -> String {
        let at = |slot: usize| self.name(before.slots[slot].instance(slot, self.bounds.workers));
        let scheduler = format!("scheduler {}", before.scheduler.generation);
        let line = match action {
            Action::Connect(slot) => {
                format!("{} connects to {scheduler} and sends {}", at(slot), self.id(before.slots[slot].kept))
            }
            Action::Beat(slot) => {
                format!("{} sends a heartbeat with {}", at(slot), self.id(before.slots[slot].kept))
            }
            Action::Hear(slot) => {
                let heard = before.slots[slot].up.iter().next();
                heard.map_or_else(String::new, |up| {
                    let is_known = has(before.scheduler.mind.0.known, up.from);
                    let what = if is_known { "is heard by" } else { "joins" };
                    format!("{} {what} {scheduler} with {}", self.name(up.from), self.id(up.id))
                })
            }
            Action::Fetch(slot) => {
                format!("{scheduler} learns what {} runs: {}", at(slot), tasks(before, slot))
            }
            Action::Tell(slot) => {
                let told = after.slots[slot].down.iter().last();
                let id = if let Some(Down::Told(id)) = told { id } else { Id::NONE };
                format!("{scheduler} tells {} {}", at(slot), self.id(id))
            }
            Action::Receive(slot) => match before.slots[slot].down.iter().next() {
                Some(Down::Start(task)) if after.slots[slot].runs != before.slots[slot].runs => {
                    format!("{} starts task {}", at(slot), task + 1)
                }
                Some(Down::Start(task)) => format!("{} refuses to start task {}", at(slot), task + 1),
                _ => format!("{} has a lease and keeps {}", at(slot), self.id(after.slots[slot].kept)),
            },
            Action::Break(slot) => format!("the streams of {} break", at(slot)),
            Action::Heal(slot) => format!("{scheduler} finds {} healthy", at(slot)),
            Action::Unwell(slot) => format!("{scheduler} finds {} unhealthy", at(slot)),
            Action::Start(slot, task) => format!("{scheduler} sends task {} to {}", task + 1, at(slot)),
            Action::Finish(slot, task) => format!("task {} ends on {}", task + 1, at(slot)),
            Action::Learn(slot, task) => {
                format!("{scheduler} learns that {} does not run task {}", at(slot), task + 1)
            }
            Action::End(slot) => format!("{} has ended, with all that it ran", at(slot)),
            Action::Lose(instance) => format!("{scheduler} loses {}", self.name(instance)),
            Action::SafeWaitOver => format!("the safe wait of {scheduler} is over"),
            Action::Update => format!("{scheduler} makes its pass"),
            Action::CloseQueue => format!("{scheduler} has newcomers queue"),
            Action::Restart => format!("{scheduler} dies; scheduler {} starts", after.scheduler.generation),
        };
        let has_left = after.scheduler.mind.0.is_over && !before.scheduler.mind.0.is_over;
        if has_left { format!("{line}, and waits no longer") } else { line }
    }
}

fn tasks(state: &State, slot: usize) -> String {
    match state.slots[slot].runs {
        0 => "nothing".to_owned(),
        1 => "task 1".to_owned(),
        2 => "task 2".to_owned(),
        _ => "tasks 1 and 2".to_owned(),
    }
}
