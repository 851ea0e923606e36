//! Sending jobs in batches, and counting what became of them.

use std::collections::BTreeSet;
use std::fmt;

use indicatif::{ProgressBar, ProgressStyle};
use rpc::wire;
use worker::Client;

use crate::output::Output;

/// Jobs in one call: enough to make a commit worth its fsync, few enough to answer at once.
const BATCH_JOBS_MAX: usize = 1_000;
/// Bytes of payload in one call, half of what servers take by default. A larger job goes alone.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// What became of all jobs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Jobs the server has because of this run or of an earlier one.
    pub(super) accepted: u64,
    /// Of those, jobs whose id or unique key was taken.
    pub(super) duplicates: u64,
    /// Of those, jobs whose request id was used before.
    pub(super) repeated: u64,
    /// Queues without a connected worker.
    pub(super) unserved: BTreeSet<String>,
    /// All ids, if they are needed afterwards.
    pub(super) ids: Vec<String>,
}

/// Sends batches one after the other.
pub(super) struct Batches<'a> {
    client: &'a Client,
    request_id: Option<String>,
    batch: Vec<wire::NewJob>,
    bytes: usize,
    sent: u64,
    tally: Tally,
    keep_ids: bool,
    progress: ProgressBar,
}

impl<'a> Batches<'a> {
    pub(super) fn new(
        client: &'a Client,
        output: &Output,
        request_id: Option<String>,
        total: Option<u64>,
    ) -> Self {
        let progress = match total {
            Some(total) if total > BATCH_JOBS_MAX as u64 && output.shows_progress() => bar(total),
            _ => ProgressBar::hidden(),
        };
        Batches {
            client,
            request_id,
            batch: Vec::new(),
            bytes: 0,
            sent: 0,
            tally: Tally::default(),
            keep_ids: false,
            progress,
        }
    }

    /// Keeps all ids for later, which costs memory.
    pub(super) fn keep_ids(&mut self) {
        self.keep_ids = true;
    }

    /// Adds a job, and sends what came before it if that is enough for a call. What was sent before an error stays enqueued and
    /// counted.
    pub(super) async fn push(
        &mut self,
        job: wire::NewJob,
        answered: &mut impl FnMut(&[wire::Enqueued]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let is_full = self.batch.len() == BATCH_JOBS_MAX || self.bytes + job.payload.len() > BATCH_BYTES_MAX;
        if is_full {
            self.send(answered).await?;
        }
        self.bytes += job.payload.len();
        self.batch.push(job);
        Ok(())
    }

    /// Sends what was added and not sent yet.
    pub(super) async fn send(
        &mut self,
        answered: &mut impl FnMut(&[wire::Enqueued]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        let jobs = std::mem::take(&mut self.batch);
        let request = wire::EnqueueRequest { request_id: self.next_request_id(), jobs, ..Default::default() };
        let response = self.client.enqueue(request).await?;
        let count = response.jobs.len() as u64;
        self.tally.accepted += count;
        self.tally.repeated += if response.repeated { count } else { 0 };
        if !response.repeated {
            self.tally.duplicates += response.jobs.iter().filter(|job| job.duplicate).count() as u64;
        }
        self.tally.unserved.extend(response.unserved_queues);
        self.progress.inc(count);
        answered(&response.jobs)?;
        if self.keep_ids {
            self.tally.ids.extend(response.jobs.into_iter().map(|job| job.id));
        }
        Ok(())
    }

    /// The request id of the next batch. The same input is cut into the same batches, so a repeated run repeats them.
    fn next_request_id(&mut self) -> String {
        let number = self.sent;
        self.sent += 1;
        match &self.request_id {
            None => String::new(),
            Some(id) if number == 0 => id.clone(),
            Some(id) => format!("{id}#{number}"),
        }
    }

    pub(super) fn finish(self) -> Tally {
        self.progress.finish_and_clear();
        self.tally
    }
}

impl Tally {
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// What a failed run says about its better part.
    pub(super) fn so_far(&self) -> String {
        format!("after {} had been enqueued", jobs(self.accepted))
    }

    /// What a run over many jobs says at its end.
    pub(super) fn summary(&self) -> impl fmt::Display {
        let mut text = format!("enqueued {}", jobs(self.accepted - self.duplicates - self.repeated));
        if self.duplicates > 0 {
            text.push_str(&format!(", {} there already", self.duplicates));
        }
        if self.repeated > 0 {
            text.push_str(&format!(", {} enqueued by an earlier run", self.repeated));
        }
        text
    }
}

fn jobs(count: u64) -> String {
    format!("{count} {}", if count == 1 { "job" } else { "jobs" })
}

fn bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} jobs, {eta} left");
    ProgressBar::new(total).with_style(style.expect("the template is valid"))
}
