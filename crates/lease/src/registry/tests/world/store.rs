//! The world's store: the rows of running jobs, and which workers are durable, and which have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Hold, HolderEnd, Nonce, WorkerKey};

use crate::registry::{Enlisted, HoldStanding, Input, Output, Restored, Retired};

/// What the store is asked.
pub(super) enum Asked {
    /// By the registry.
    Of(Output),
    /// A verdict is carried out.
    TakeBack(WorkerKey, Hold),
}

#[derive(Default)]
pub(super) struct Store {
    rows: BTreeMap<Hold, Running>,
    /// The process and the largest grant of each worker.
    known: BTreeMap<WorkerKey, (Nonce, Duration)>,
    ended: BTreeMap<WorkerKey, HolderEnd>,
}

struct Running {
    holder: WorkerKey,
    is_cancelled: bool,
    is_exclusive: bool,
}

impl Store {
    /// Claims a new job for this worker, if the store still takes it for one.
    pub(super) fn claim(&mut self, key: &WorkerKey, hold: Hold, is_exclusive: bool) -> bool {
        let is_open = !self.ended.contains_key(key);
        if is_open {
            self.rows.insert(hold, Running { holder: key.clone(), is_cancelled: false, is_exclusive });
        }
        is_open
    }

    /// Nobody has heard of these.
    pub(super) fn forget(&mut self, is_forgotten: impl Fn(Hold) -> bool) {
        self.rows.retain(|hold, _| !is_forgotten(*hold));
    }

    /// The worker reports: true if the row was its.
    pub(super) fn finish(&mut self, key: &WorkerKey, hold: Hold) -> bool {
        let is_its = self.rows.get(&hold).is_some_and(|row| row.holder == *key);
        if is_its {
            self.rows.remove(&hold);
        }
        is_its
    }

    /// Somebody cancels a running job.
    pub(super) fn cancel(&mut self, hold: Hold) {
        if let Some(row) = self.rows.get_mut(&hold) {
            row.is_cancelled = true;
        }
    }

    /// Carries out a request; a verdict needs no answer.
    pub(super) fn carry_out(&mut self, asked: &Asked) -> Option<Input> {
        let output = match asked {
            Asked::Of(output) => output,
            Asked::TakeBack(key, hold) => {
                self.rows.retain(|row, running| row != hold || running.holder != *key);
                return None;
            }
        };
        Some(match output {
            Output::Enlist { key, nonce, grant, .. } => {
                let answer = self.enlist(key, *nonce, *grant);
                Input::Enlisted { key: key.clone(), answer }
            }
            Output::Retire { key, end, .. } => {
                self.ended.entry(key.clone()).or_insert(*end);
                self.rows.retain(|_, running| running.holder != *key);
                Input::Retired { key: key.clone(), answer: Retired::Done }
            }
            Output::Succeed { former, key, holds } => {
                let moved = Some(holds.iter().map(|hold| self.move_row(former, key, *hold)).collect());
                self.ended.entry(former.clone()).or_insert(HolderEnd::Succeeded);
                Input::Succeeded { key: key.clone(), moved }
            }
            Output::Check { key, holds } => {
                let standings = Some(holds.iter().map(|hold| self.standing(key, *hold)).collect());
                Input::Checked { key: key.clone(), standings }
            }
            other => panic!("{other:?} is no request"),
        })
    }

    /// The answer when the store fails.
    pub(super) fn failure(output: Output) -> Input {
        match output {
            Output::Enlist { key, .. } => Input::Enlisted { key, answer: Enlisted::Trouble },
            Output::Retire { key, .. } => Input::Retired { key, answer: Retired::Trouble },
            Output::Succeed { key, .. } => Input::Succeeded { key, moved: None },
            Output::Check { key, .. } => Input::Checked { key, standings: None },
            other => panic!("{other:?} is no request"),
        }
    }

    /// The workers that a new life of the server is told of.
    pub(super) fn alive(&self) -> Vec<Restored> {
        let alive = self.known.iter().filter(|(key, _)| !self.ended.contains_key(*key));
        let restored = |(key, (nonce, grant)): (&WorkerKey, &(Nonce, Duration))| Restored {
            key: key.clone(),
            nonce: *nonce,
            grant: *grant,
            name: String::new(),
        };
        alive.map(restored).collect()
    }

    /// All running jobs.
    pub(super) fn running(&self) -> Vec<Hold> {
        self.rows.keys().copied().collect()
    }

    /// Those of this worker.
    pub(super) fn held_by(&self, key: &WorkerKey) -> Vec<Hold> {
        self.rows.iter().filter(|(_, running)| running.holder == *key).map(|(hold, _)| *hold).collect()
    }

    /// Who holds this job.
    pub(super) fn holder(&self, hold: Hold) -> Option<&WorkerKey> {
        self.rows.get(&hold).map(|running| &running.holder)
    }

    /// Whether at most one copy of this running job may run.
    pub(super) fn is_exclusive(&self, hold: Hold) -> bool {
        self.rows.get(&hold).is_some_and(|running| running.is_exclusive)
    }

    fn enlist(&mut self, key: &WorkerKey, nonce: Nonce, grant: Duration) -> Enlisted {
        if let Some(end) = self.ended.get(key) {
            return Enlisted::Terminal(*end);
        }
        let (_, largest) = self.known.entry(key.clone()).or_insert((nonce, grant));
        *largest = (*largest).max(grant);
        Enlisted::Known
    }

    /// True if the row is the new key's now; a repeat finds it moved already.
    fn move_row(&mut self, former: &WorkerKey, key: &WorkerKey, hold: Hold) -> bool {
        match self.rows.get_mut(&hold).filter(|running| running.holder == *former || running.holder == *key) {
            Some(running) => {
                running.holder = key.clone();
                true
            }
            None => false,
        }
    }

    fn standing(&self, key: &WorkerKey, hold: Hold) -> HoldStanding {
        match self.rows.get(&hold).filter(|running| running.holder == *key) {
            None => HoldStanding::Lost,
            Some(running) => {
                HoldStanding::Held { cancelled: running.is_cancelled, exclusive: running.is_exclusive }
            }
        }
    }
}
