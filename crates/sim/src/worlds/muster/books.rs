//! What is true, whatever anybody believes: instances, tasks, and what runs where.

use model::{Instant, WorkerKey};
use muster::{SetId, Version};

use super::event::{Fence, Instance, Slot, Task};

/// The truth.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) instances: Vec<InstanceBook>,
    pub(super) tasks: Vec<TaskBook>,
    /// Tasks that are wanted and not done.
    pub(super) open: u32,
}

/// One instance of a worker.
#[derive(Debug)]
pub(super) struct InstanceBook {
    pub(super) key: WorkerKey,
    pub(super) slot: Slot,
    /// What it runs.
    pub(super) runs: Vec<(Task, Fence)>,
    /// The id that it keeps, or kept when it ended.
    pub(super) kept: Option<SetId>,
    /// Until when it may act, by its own clock; nothing before a scheduler has answered it.
    pub(super) hold_until: Option<Instant>,
    /// Its key is not used any more.
    pub(super) is_over: bool,
}

/// One task.
#[derive(Debug)]
pub(super) struct TaskBook {
    pub(super) client: u32,
    pub(super) is_done: bool,
    /// The highest fence that it was ever started with.
    pub(super) fence: Fence,
    /// Who runs it.
    pub(super) runner: Option<(Instance, Fence)>,
}

impl Books {
    /// A new instance, with a key that nobody has had.
    pub(super) fn begin(&mut self, slot: Slot) -> Instance {
        let instance = self.instances.len() as Instance;
        let key = WorkerKey::new(&format!("w{slot}-{instance}")).expect("a valid key");
        self.instances.push(InstanceBook {
            key,
            slot,
            runs: Vec::new(),
            kept: None,
            hold_until: None,
            is_over: false,
        });
        instance
    }

    pub(super) fn instance(&self, instance: Instance) -> &InstanceBook {
        &self.instances[instance as usize]
    }

    pub(super) fn instance_mut(&mut self, instance: Instance) -> &mut InstanceBook {
        &mut self.instances[instance as usize]
    }

    pub(super) fn task(&self, task: Task) -> &TaskBook {
        &self.tasks[task as usize]
    }

    /// A client wants something.
    pub(super) fn want(&mut self, client: u32) -> Task {
        self.tasks.push(TaskBook { client, is_done: false, fence: 0, runner: None });
        self.open += 1;
        self.tasks.len() as Task - 1
    }

    /// Its client has the result.
    pub(super) fn done(&mut self, task: Task) {
        let book = &mut self.tasks[task as usize];
        if !std::mem::replace(&mut book.is_done, true) {
            self.open -= 1;
        }
    }

    /// An instance runs a task from now on; whoever ran it already, if anybody did.
    pub(super) fn started(
        &mut self,
        instance: Instance,
        task: Task,
        fence: Fence,
    ) -> Option<(Instance, Fence)> {
        self.instances[instance as usize].runs.push((task, fence));
        self.tasks[task as usize].runner.replace((instance, fence))
    }

    /// It does not run it any more; false if it did not before.
    pub(super) fn ended(&mut self, instance: Instance, task: Task, fence: Fence) -> bool {
        let runs = &mut self.instances[instance as usize].runs;
        let Some(place) = runs.iter().position(|run| *run == (task, fence)) else { return false };
        runs.swap_remove(place);
        let runner = &mut self.tasks[task as usize].runner;
        runner.take_if(|runner| *runner == (instance, fence));
        true
    }

    /// All that it runs stops.
    pub(super) fn stop(&mut self, instance: Instance) {
        for (task, fence) in std::mem::take(&mut self.instances[instance as usize].runs) {
            self.tasks[task as usize].runner.take_if(|runner| *runner == (instance, fence));
        }
    }

    /// Every instance that runs something.
    pub(super) fn runners(&self) -> impl Iterator<Item = (Instance, Task)> + '_ {
        let tasks = self.tasks.iter().enumerate();
        tasks.filter_map(|(task, book)| book.runner.map(|(instance, _)| (instance, task as Task)))
    }

    /// The version of this generation that an instance keeps, or kept.
    pub(super) fn version_kept(&self, instance: Instance, generation: model::Generation) -> Option<Version> {
        let kept = self.instance(instance).kept?;
        (kept.generation == generation).then_some(kept.version)
    }
}

/// The instance with this key.
pub(super) fn instance_of(key: &WorkerKey) -> Instance {
    let number = key.as_str().rsplit('-').next().and_then(|text| text.parse().ok());
    number.expect("keys end in the number of their instance")
}
