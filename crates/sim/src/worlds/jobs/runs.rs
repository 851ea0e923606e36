//! When the processes of exclusive jobs really ran: by true time, from the start of the first of a claim to the end of its
//! last, whoever knows of it. The world's own record, for the laws.

use std::collections::BTreeMap;

use model::{Fence, Hold, JobId, WorkerKey};

use super::books::shown;
use super::laws::{process_left_behind, running_twice};
use super::outside::Outside;
use crate::time::Time;

/// All runs of exclusive jobs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Those that have not ended, and under which key they were started.
    live: BTreeMap<Hold, WorkerKey>,
    /// When the last run of a job ended.
    ended: BTreeMap<JobId, Time>,
}

impl Runs {
    /// A claim of this job of which something runs.
    pub(super) fn live_of(&self, job: JobId) -> Option<Hold> {
        self.live_under(job).next().map(|(hold, _)| *hold)
    }

    /// Whether anything of this very claim runs.
    pub(super) fn is_live(&self, hold: Hold) -> bool {
        self.live.contains_key(&hold)
    }

    /// What still runs that was started under this key.
    pub(super) fn of_key<'a>(&'a self, key: &'a WorkerKey) -> impl Iterator<Item = Hold> + 'a {
        self.live.iter().filter(move |(_, it)| *it == key).map(|(hold, _)| *hold)
    }

    /// Whatever runs, and the key it was started under.
    pub(super) fn all(&self) -> impl Iterator<Item = (Hold, WorkerKey)> + '_ {
        self.live.iter().map(|(hold, key)| (*hold, key.clone()))
    }

    /// When the last run of this job ended, if there was one.
    pub(super) fn ended_at(&self, job: JobId) -> Option<Time> {
        self.ended.get(&job).copied()
    }

    fn live_under(&self, job: JobId) -> impl Iterator<Item = (&Hold, &WorkerKey)> {
        self.live.range(Hold { job, fence: Fence::NONE }..).take_while(move |(hold, _)| hold.job == job)
    }
}

impl Outside<'_> {
    /// The first process of an exclusive claim starts.
    pub(super) fn begin_run(&mut self, hold: Hold, key: WorkerKey) {
        self.tell(|| format!("{key} runs {}", shown(hold)));
        self.judge(running_twice::check_start(hold, self.runs.live_of(hold.job)));
        self.stats.exclusive_runs += 1;
        self.runs.live.insert(hold, key);
    }

    /// The last process of an exclusive claim ends.
    pub(super) fn end_run(&mut self, hold: Hold) {
        let Some(key) = self.runs.live.remove(&hold) else { return };
        self.tell(|| format!("nothing of {} runs any more", shown(hold)));
        self.runs.ended.insert(hold.job, self.now);
        let held_until = self.books.key(&key).exclusive_until;
        self.judge(process_left_behind::check_end(hold, &key, self.now, held_until));
    }

    /// An exclusive job is handed to its next holder.
    pub(super) fn note_handover(&mut self, hold: Hold) {
        self.judge(running_twice::check_claim(hold, self.runs.live_of(hold.job)));
        if let Some(ended_at) = self.runs.ended_at(hold.job) {
            self.stats.handovers.push(self.now.since(ended_at).as_nanos() as u64);
        }
    }
}
