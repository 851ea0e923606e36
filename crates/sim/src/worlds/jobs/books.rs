//! The world's own books: what really happened to every job and key, kept beside the store and the machines and
//! compared with them by the laws. Nothing in the world acts on them.

use std::collections::{BTreeMap, BTreeSet};

use model::{Fence, Hold, HolderEnd, JobId, RegistryId, State, WorkerKey};

use crate::time::Time;

/// What is known of everything.
#[derive(Debug, Default)]
pub(super) struct Books {
    jobs: BTreeMap<JobId, JobBook>,
    keys: BTreeMap<WorkerKey, KeyBook>,
    registries: BTreeMap<RegistryId, RegistryBook>,
    started: BTreeSet<Hold>,
    open: usize,
}

/// One job.
#[derive(Debug)]
pub(super) struct JobBook {
    /// `None` until the store has it.
    pub(super) state: Option<State>,
    /// The client was told that the store has it.
    pub(super) is_acknowledged: bool,
    /// Of its latest claim.
    pub(super) fence: Fence,
    /// While it is running.
    pub(super) holder: Option<WorkerKey>,
    /// At most one copy of it may run.
    pub(super) is_exclusive: bool,
}

/// One registry that the store has.
#[derive(Debug)]
pub(super) struct RegistryBook {
    /// Whose it is, in which life.
    pub(super) server: usize,
    pub(super) life: u32,
    pub(super) founded_at: Time,
    /// When its server last lived and had it.
    pub(super) tended_at: Time,
}

/// One worker key.
#[derive(Debug)]
pub(super) struct KeyBook {
    /// Whose it is.
    pub(super) worker: usize,
    /// Which life of that process.
    pub(super) life: u32,
    /// Who judges it, by what the store has done, once it is enlisted.
    pub(super) registry: Option<RegistryId>,
    /// Its end, once that is durable.
    pub(super) end: Option<HolderEnd>,
    /// When its worker last heard that its heartbeat was taken.
    pub(super) answered_at: Option<Time>,
    /// Until when its worker believes in its lease by an answer of its owner.
    pub(super) held_until: Option<Time>,
    /// Until when its worker may run exclusive jobs.
    pub(super) exclusive_until: Option<Time>,
    /// When its process died.
    pub(super) died_at: Option<Time>,
}

impl Books {
    /// Somebody is about to enqueue a job.
    pub(super) fn draft(&mut self, id: JobId) {
        let book = JobBook {
            state: None,
            is_acknowledged: false,
            fence: Fence::NONE,
            holder: None,
            is_exclusive: false,
        };
        self.jobs.insert(id, book);
    }

    /// The job is in this state now.
    pub(super) fn moved(&mut self, id: JobId, state: State) {
        let job = self.jobs.get_mut(&id).expect("only drafted jobs are enqueued");
        let was_open = job.state.is_some_and(|state| !state.is_terminal());
        self.open = self.open + usize::from(!state.is_terminal()) - usize::from(was_open);
        job.state = Some(state);
        if state != State::Running {
            job.holder = None;
        }
    }

    /// The client heard that the store has it.
    pub(super) fn acknowledged(&mut self, id: JobId) {
        self.jobs.get_mut(&id).expect("only drafted jobs are enqueued").is_acknowledged = true;
    }

    /// A claim succeeded.
    pub(super) fn claimed(&mut self, hold: Hold, holder: &WorkerKey, is_exclusive: bool) {
        self.moved(hold.job, State::Running);
        let job = self.jobs.get_mut(&hold.job).expect("it was just found");
        job.fence = hold.fence;
        job.is_exclusive = is_exclusive;
        job.holder = Some(holder.clone());
    }

    /// A hold went from one key to another.
    pub(super) fn succeeded(&mut self, id: JobId, successor: &WorkerKey) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.holder = Some(successor.clone());
        }
    }

    /// A worker drew a key.
    pub(super) fn drew_key(&mut self, key: &WorkerKey, worker: usize, life: u32) {
        let book = KeyBook {
            worker,
            life,
            registry: None,
            end: None,
            answered_at: None,
            held_until: None,
            exclusive_until: None,
            died_at: None,
        };
        self.keys.insert(key.clone(), book);
    }

    /// The key's own book, to be changed.
    pub(super) fn key_mut(&mut self, key: &WorkerKey) -> &mut KeyBook {
        self.keys.get_mut(key).expect("keys are drawn before they are used")
    }

    /// A server founded a registry.
    pub(super) fn founded(&mut self, id: RegistryId, server: usize, life: u32, now: Time) {
        self.registries.insert(id, RegistryBook { server, life, founded_at: now, tended_at: now });
    }

    /// A registry was taken over: the workers whose keys moved.
    pub(super) fn taken_over(&mut self, from: RegistryId, by: RegistryId) -> Vec<usize> {
        self.registries.remove(&from);
        let moved = self.keys.values_mut().filter(|book| book.registry == Some(from));
        let moved = moved.map(|book| {
            book.registry = Some(by);
            book.worker
        });
        moved.collect()
    }

    /// Who judges this key, unless it is over: then there is nothing left to judge.
    pub(super) fn owner_of(&self, key: &WorkerKey) -> Option<RegistryId> {
        let book = self.key(key);
        book.registry.filter(|_| book.end.is_none())
    }

    /// Whether this registry may act for the key: it is there, or nowhere yet.
    pub(super) fn is_owner(&self, registry: RegistryId, key: &WorkerKey) -> bool {
        self.key(key).registry.is_none_or(|owner| owner == registry)
    }

    /// A registry, while the store has it.
    pub(super) fn registry(&self, id: RegistryId) -> Option<&RegistryBook> {
        self.registries.get(&id)
    }

    /// All registries that the store has.
    pub(super) fn registries_mut(&mut self) -> impl Iterator<Item = (RegistryId, &mut RegistryBook)> {
        self.registries.iter_mut().map(|(id, book)| (*id, book))
    }

    /// A handler starts under this claim; false if one was started under it before.
    pub(super) fn started(&mut self, hold: Hold) -> bool {
        self.started.insert(hold)
    }

    /// A job.
    pub(super) fn job(&self, id: JobId) -> &JobBook {
        &self.jobs[&id]
    }

    /// A key.
    pub(super) fn key(&self, key: &WorkerKey) -> &KeyBook {
        &self.keys[key]
    }

    /// All jobs, in the order they were drafted.
    pub(super) fn jobs(&self) -> impl Iterator<Item = (JobId, &JobBook)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }

    /// How many jobs the store has that have not ended.
    pub(super) fn open(&self) -> usize {
        self.open
    }
}

impl JobBook {
    /// Whether this very claim by this holder is the one that stands.
    pub(super) fn is_held(&self, hold: Hold, holder: &WorkerKey) -> bool {
        self.state == Some(State::Running) && self.fence == hold.fence && self.holder.as_ref() == Some(holder)
    }
}

/// A job's number, for people.
pub(super) fn number(id: JobId) -> u64 {
    let bytes = id.to_bytes();
    u64::from_be_bytes(bytes[8..].try_into().expect("half of sixteen bytes"))
}

/// The job with this number.
pub(super) fn job_id(number: u64) -> JobId {
    JobId::from_bytes(u128::from(number).to_be_bytes())
}

/// A claim, for people.
pub(super) fn shown(hold: Hold) -> String {
    format!("job {} fence {}", number(hold.job), hold.fence)
}
