//! `enqueue --wait`: jobs are seen through to their end. Those of volatile queues are remembered here and submitted again when
//! the server was started anew; the store remembers the others.

use std::collections::BTreeSet;
use std::time::Duration;

use rpc::wire;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use worker::{Client, ClientError, End, SubmitOptions, Submitter};

use super::{payload, tell_unserved};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::volatile::is_full;
use crate::{duration, wait};

/// A server on which every queue is volatile says that its store is this.
const ALL_VOLATILE: &str = "volatile";

/// How long a server that may just have gone is told that the ends are known.
const ACKNOWLEDGE_WAIT: Duration = Duration::from_secs(2);

/// What this run waits for.
pub(super) struct Watched<'a> {
    client: &'a Client,
    output: &'a Output,
    volatile: Volatile,
    submitter: Option<Submitter>,
    tickets: JoinSet<Result<wire::Job, ClientError>>,
    queues: BTreeSet<String>,
}

/// Whose jobs are remembered here.
enum Volatile {
    None,
    These(BTreeSet<String>),
    All,
}

impl<'a> Watched<'a> {
    /// Asks which queues are volatile, unless the caller remembers their jobs in a way of its own.
    pub(super) async fn new(
        client: &'a Client,
        output: &'a Output,
        is_kept: bool,
    ) -> Result<Watched<'a>, ClientError> {
        let volatile = if is_kept { Volatile::on(client).await? } else { Volatile::None };
        Ok(Watched {
            client,
            output,
            volatile,
            submitter: None,
            tickets: JoinSet::new(),
            queues: BTreeSet::new(),
        })
    }

    /// Whether this job is to be remembered here.
    pub(super) fn keeps(&self, job: &wire::NewJob) -> bool {
        match &self.volatile {
            Volatile::None => false,
            Volatile::These(queues) => queues.contains(&job.queue),
            Volatile::All => true,
        }
    }

    pub(super) async fn submit(&mut self, job: wire::NewJob) -> Result<(), ClientError> {
        // All are kept in memory anyway, as their tickets are.
        let start = || self.client.submitter(SubmitOptions::default().in_flight_max(usize::MAX));
        let submitter = self.submitter.get_or_insert_with(start);
        self.queues.insert(job.queue.clone());
        let (queue, kind) = (job.queue.clone(), job.kind.clone());
        let ticket = submitter.submit(job).await?;
        self.tickets.spawn(async move { Ok(ended(ticket.await?, queue, kind)) });
        Ok(())
    }

    /// Waits for all of them and for the jobs with these ids, which the store remembers.
    pub(super) async fn wait(
        mut self,
        ids: &[String],
        limit: Option<Duration>,
        is_single: bool,
    ) -> anyhow::Result<Exit> {
        self.tell_waiting().await;
        let mut left = ids.iter().collect::<BTreeSet<_>>().len() + self.tickets.len();
        let mut tally = Ends::default();
        let (client, output, tickets) = (self.client, self.output, &mut self.tickets);
        let (told, mut ends) = mpsc::unbounded_channel();
        let stored = async {
            let told = told;
            let tell = |job| {
                // Whoever listens is below, and gone only with this.
                let _ = told.send(job);
                Ok(())
            };
            wait::for_all(client, output, ids, None, tell).await?;
            while let Some(ended) = tickets.join_next().await {
                let _ = told.send(ended??);
            }
            anyhow::Ok(())
        };
        let print = async {
            while let Some(job) = ends.recv().await {
                left -= 1;
                tally.print(output, job, is_single)?;
            }
            anyhow::Ok(())
        };
        let all = async { tokio::try_join!(stored, print).map(drop) };
        let in_time = match limit {
            None => Some(all.await),
            Some(limit) => timeout(limit, all).await.ok(),
        };
        let is_in_time = in_time.transpose()?.is_some();
        if !is_single && !output.is_json() {
            output.line(tally.summary())?;
        }
        if !is_in_time {
            let what = if left == 1 { "1 job has".to_owned() } else { format!("{left} jobs have") };
            return Err(Failure::failed(format!("{what} not ended yet; look with `tenure jobs list`")).into());
        }
        if let Some(submitter) = self.submitter {
            // So that nobody has to remember these ends for us; but whoever cannot be told now forgets them by itself.
            let _ = timeout(ACKNOWLEDGE_WAIT, submitter.close()).await;
        }
        Ok(if tally.dead + tally.cancelled > 0 { Exit::Failed } else { Exit::Done })
    }

    /// Why nothing may happen for a while.
    async fn tell_waiting(&self) {
        if self.queues.is_empty() || self.output.is_quiet() {
            return;
        }
        // The jobs are submitted, so whatever goes wrong now is not worth an error.
        let status = self.client.muster_status().await.unwrap_or_default();
        if is_full(&status) {
            self.output.note(
                "volatile queues have no room for more jobs now; those that wait come in as others end",
            );
        }
        if status.waiting {
            let end = status.at_most_ms.map(|millis| {
                format!(
                    ", for {} at the latest",
                    duration::show(Duration::from_millis(millis.unsigned_abs()))
                )
            });
            self.output.note(format_args!(
                "volatile queues wait until all workers are known{}; see `tenure muster status`",
                end.unwrap_or_default()
            ));
        }
        let mut unserved = BTreeSet::new();
        for queue in &self.queues {
            let request =
                wire::ListWorkersRequest { queue: queue.clone(), limit: 1_000, ..Default::default() };
            let workers = self.client.workers(request).await.map(|answer| answer.workers);
            if workers.is_ok_and(|workers| workers.iter().all(|worker| worker.exclusive != Some(true))) {
                unserved.insert(queue.clone());
            }
        }
        tell_unserved(self.client, self.output, &unserved).await;
    }
}

impl Volatile {
    async fn on(client: &Client) -> Result<Volatile, ClientError> {
        let stats = client.stats().await?;
        if stats.store == ALL_VOLATILE {
            return Ok(Volatile::All);
        }
        let volatile = stats.queues.into_iter().filter(|queue| queue.volatile).map(|queue| queue.name);
        Ok(Volatile::These(volatile.collect()))
    }
}

/// How jobs ended so far.
#[derive(Default)]
struct Ends {
    completed: u64,
    dead: u64,
    cancelled: u64,
}

impl Ends {
    fn print(&mut self, output: &Output, job: wire::Job, is_single: bool) -> anyhow::Result<()> {
        match job.state.as_str() {
            "completed" => self.completed += 1,
            "dead" => self.dead += 1,
            _ => self.cancelled += 1,
        }
        if output.is_json() {
            output.json(&job)?;
        } else if is_single && job.state == "completed" {
            output.bytes(&payload::printable(job.result.unwrap_or_default()))?;
        } else if is_single {
            let why = if job.last_error.is_empty() { String::new() } else { format!(": {}", job.last_error) };
            output.error(format_args!("job {} is {}{why}", job.id, job.state));
        }
        Ok(())
    }

    fn summary(&self) -> String {
        format!("{} completed, {} dead, {} cancelled", self.completed, self.dead, self.cancelled)
    }
}

/// A volatile job as `jobs show` would have shown it; when its end is known here, the server forgets it.
fn ended(end: End, queue: String, kind: String) -> wire::Job {
    wire::Job {
        id: end.id.to_string(),
        queue,
        kind,
        state: end.state.word().to_owned(),
        result: Some(end.result),
        last_error: end.error,
        attempt: end.attempt,
        ..Default::default()
    }
}
