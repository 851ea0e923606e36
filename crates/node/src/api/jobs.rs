//! Producers and people: enqueue, look, cancel, retry, watch.

use lease::registry::Input;
use model::{ErrorKind, Invalid, JobId, NewJob, QueueName, State};
use rpc::{ApiError, convert, wire};
use store::{Cancelled, EnqueueAnswer, EnqueueBatch, Enqueued, News, Page, Redriven, Selection};

use super::{Answer, Api, Moves};
use crate::watch::{Subscription, Wanted};

/// Jobs on one page of a list, and how many a caller may ask for.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1000;
/// Bytes after which a page ends, so that it fits a message.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Jobs moved by one statement of a re-drive by filter; the call repeats it until none is left.
const REDRIVE_BATCH: usize = 1000;
/// Jobs one re-drive call may move before it answers.
const REDRIVE_MAX: usize = 100_000;
/// Ids one call may name.
const IDS_MAX: usize = 10_000;

/// What came of jobs that were added.
pub(super) struct Added {
    answer: EnqueueAnswer,
    /// Where they went.
    queues: Vec<QueueName>,
}

impl Api {
    pub(crate) async fn enqueue(&self, request: wire::EnqueueRequest) -> Answer<wire::EnqueueResponse> {
        let request_id = convert::optional(&request.request_id, model::RequestId::new)?;
        let jobs = self.read_jobs(request.jobs)?;
        if let Some(lowest) = convert::optional(&request.lowest_unacknowledged, str::parse)? {
            self.acknowledge_ends(Vec::new(), Some(lowest)).await?;
        }
        let count = jobs.len();
        let added = self.add(EnqueueBatch { request_id, jobs }).await;
        let added = added.inspect_err(|error| {
            if error.kind == ErrorKind::Throttled {
                self.note_no_room(count, error);
            }
        });
        let Added { answer, queues } = added?;
        let unserved = queues.iter().filter(|queue| self.workers_for(queue) == Some(0));
        let enqueued = |job: &Enqueued| wire::Enqueued { id: job.id.to_string(), duplicate: job.duplicate };
        Ok(wire::EnqueueResponse {
            jobs: answer.jobs.iter().map(enqueued).collect(),
            repeated: answer.repeated,
            unserved_queues: unserved.map(ToString::to_string).collect(),
            generation: self.generation,
        })
    }

    /// Adds these jobs, all or none, and tells everyone whom that concerns.
    pub(super) async fn add(&self, batch: EnqueueBatch) -> Answer<Added> {
        let mut queues: Vec<QueueName> = batch.jobs.iter().map(|job| job.queue.clone()).collect();
        queues.sort();
        queues.dedup();
        let new = self.admit_queues(&queues).await?;
        let answer = self.store.enqueue(batch).await.inspect_err(|_| self.known_queues.release(&new))?;
        let inserted = answer.jobs.iter().filter(|job| !job.duplicate && !answer.repeated);
        self.metrics.enqueued.inc_by(inserted.clone().count() as u64);
        // What was heard of a volatile job before it came decides how it begins.
        let states: &[State] = if answer.ended.is_empty() {
            &[State::Scheduled, State::Available, State::Running]
        } else {
            &State::ALL
        };
        let watched = self.watched_ids(inserted.map(|job| job.id), states);
        // A repeat may follow a call whose answer, and whose signal, got lost.
        let any_repeat = answer.repeated || answer.jobs.iter().any(|job| job.duplicate);
        self.wake(if any_repeat { queues.clone() } else { answer.ready.clone() }).await;
        if let Some(in_) = answer.next_run_in {
            self.run_due(in_).await;
        }
        self.announce(watched).await;
        Ok(Added { answer, queues })
    }

    /// Reads what a call may carry.
    pub(super) fn read_jobs(&self, jobs: Vec<wire::NewJob>) -> Answer<Vec<NewJob>> {
        let limits = &self.config.limits;
        if jobs.len() > limits.batch_jobs_max {
            return Err(ApiError::invalid(format!(
                "{} jobs in one call are too many; send at most {} at a time",
                jobs.len(),
                limits.batch_jobs_max
            )));
        }
        let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
        if bytes > limits.batch_bytes_max {
            return Err(ApiError::invalid(format!(
                "{bytes} bytes of payload in one call are too many; send at most {} at a time",
                limits.batch_bytes_max
            )));
        }
        let many = jobs.len() > 1;
        // In room of their own: they are a little smaller than what they are read from, and what they would leave of its room keeps
        // the memory around it in pieces, which was given back and fetched again with every call.
        let mut read = Vec::with_capacity(jobs.len());
        for (index, job) in jobs.into_iter().enumerate() {
            let job = self.read_job(job).map_err(|error| match many {
                true => ApiError::invalid(format!("job {index}: {error}")),
                false => error.into(),
            });
            read.push(job?);
        }
        Ok(read)
    }

    fn read_job(&self, job: wire::NewJob) -> Result<NewJob, Invalid> {
        let is_unnumbered = job.id.is_empty();
        let mut job = convert::new_job(job, || self.ids.fresh())?;
        job.check(&self.config.limits)?;
        if is_unnumbered && self.store.is_volatile(&job.queue) {
            job.id = self.ids.volatile();
        }
        Ok(job)
    }

    pub(crate) async fn get(&self, request: wire::GetJobRequest) -> Answer<wire::Job> {
        let id: JobId = request.id.parse()?;
        let job = self.store.get(id).await?.ok_or_else(|| unknown_job(id))?;
        let workers = self.workers_for(&job.queue);
        Ok(wire::Job { workers, ..convert::job(job) })
    }

    pub(crate) async fn list(&self, request: wire::ListJobsRequest) -> Answer<wire::ListJobsResponse> {
        let filter = convert::filter(&request.queue, &request.kind, &request.states)?;
        let limit = match request.limit {
            0 => PAGE_DEFAULT,
            limit => limit.min(PAGE_MAX),
        } as usize;
        let before = convert::optional(&request.cursor, str::parse)?;
        let retryable_only = request.states.iter().any(|word| word == "retryable")
            && !request.states.iter().any(|word| word == "scheduled");
        let page = Page { before, limit, bytes_max: PAGE_BYTES_MAX };
        let jobs = self.store.list(filter, page).await?;
        let next_cursor = match jobs.last() {
            Some(last) if page.is_full(&jobs) => last.id.to_string(),
            _ => String::new(),
        };
        let jobs = jobs
            .into_iter()
            .filter(|job| {
                !retryable_only || job.state != State::Scheduled || job.shown_state() == "retryable"
            })
            .map(convert::job)
            .collect();
        Ok(wire::ListJobsResponse { jobs, next_cursor })
    }

    pub(crate) async fn cancel(&self, request: wire::CancelRequest) -> Answer<wire::CancelResponse> {
        let ids = ids(&request.ids)?;
        if ids.is_empty() {
            return Err(ApiError::invalid("name at least one job id"));
        }
        let answers = self.store.cancel(ids.clone()).await?;
        for answer in &answers {
            match answer {
                Cancelled::Now => {
                    self.metrics.cancelled.inc();
                }
                Cancelled::Asked { hold, holder } => {
                    // A holder without a stream learns it at its next renewal or heartbeat.
                    if let Some(session) = self.sessions.of_worker(holder) {
                        session.stop(convert::stop(*hold, "cancelled"));
                    }
                    self.tell_roll(Input::Cancel { key: holder.clone(), hold: *hold }).await;
                    self.tell_others(|| News::CancelAsked { holder: holder.clone(), hold: *hold });
                }
                Cancelled::AlreadyEnded(_) | Cancelled::Unknown => {}
            }
        }
        let now = ids.iter().zip(&answers).filter(|(_, answer)| matches!(answer, Cancelled::Now));
        let watched = self.watched_ids(now.map(|(id, _)| *id), &[State::Cancelled]);
        self.announce(watched).await;
        let jobs = ids.iter().zip(&answers).map(|(id, answer)| convert::cancel_answer(*id, answer)).collect();
        Ok(wire::CancelResponse { jobs })
    }

    pub(crate) async fn retry(&self, request: wire::RetryRequest) -> Answer<wire::RetryResponse> {
        let wanted = ids(&request.ids)?;
        let answers = if wanted.is_empty() {
            let mut filter = convert::filter(&request.queue, &request.kind, &request.states)?;
            if filter.queue.is_none() && filter.kind.is_none() && filter.states.is_empty() {
                return Err(ApiError::invalid("name job ids, a queue, a kind or a state (dead, cancelled)"));
            }
            if filter.states.is_empty() {
                filter.states = vec![State::Dead];
            }
            if let Some(state) =
                filter.states.iter().find(|state| !matches!(state, State::Dead | State::Cancelled))
            {
                return Err(ApiError::invalid(format!(
                    "{} jobs cannot be retried; only dead or cancelled ones",
                    state.word()
                )));
            }
            let mut answers = Vec::new();
            let mut after = None;
            while answers.len() < REDRIVE_MAX {
                let selection = Selection::Filter { filter: filter.clone(), after };
                let batch = self.store.redrive(selection, REDRIVE_BATCH).await?;
                after = batch.last().map(|(id, _)| *id);
                let full = batch.len() == REDRIVE_BATCH;
                // At once and not at the end: a long call must not keep its first jobs waiting.
                self.note_redriven(&batch).await;
                answers.extend(batch);
                if !full {
                    break;
                }
            }
            answers
        } else {
            let limit = wanted.len();
            let answers = self.store.redrive(Selection::Ids(wanted), limit).await?;
            self.note_redriven(&answers).await;
            answers
        };
        Ok(wire::RetryResponse {
            jobs: answers.iter().map(|(id, answer)| convert::retry_answer(*id, answer)).collect(),
        })
    }

    async fn note_redriven(&self, answers: &[(JobId, Redriven)]) {
        let moved = answers.iter().filter_map(|(id, answer)| match answer {
            Redriven::Again(queue) => Some((*id, queue)),
            _ => None,
        });
        let moves = Moves::of(moved.clone().map(|(_, queue)| (State::Available, queue, None)));
        let watched = self.watched_ids(moved.map(|(id, _)| id), &[State::Available]);
        self.wake_after(moves).await;
        self.announce(watched).await;
    }

    /// Begins to watch; also answers the present state of the jobs that are named.
    pub(crate) async fn watch(
        &self,
        request: wire::WatchRequest,
    ) -> Answer<(Wanted, Subscription, Vec<wire::JobEvent>)> {
        let filter = convert::filter(&request.queue, &request.kind, &request.states)?;
        let ids = ids(&request.ids)?;
        // Before looking, so that no change falls between the two.
        let subscription = self.watchers.subscribe(ids.clone(), &filter.states);
        let mut present = Vec::new();
        for id in &ids {
            let job = self.store.get(*id).await?.ok_or_else(|| unknown_job(*id))?;
            present.push(self.event_of(job));
        }
        let wanted = Wanted { ids: ids.into_iter().collect(), filter, states: request.states };
        present.retain(|event| wanted.matches(event));
        Ok((wanted, subscription, present))
    }

    pub(crate) async fn stats(&self) -> Answer<wire::StatsResponse> {
        let queues = self.queues().await?.queues;
        Ok(wire::StatsResponse {
            queues,
            workers: self.sessions.count(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store: self.config.store.clone(),
        })
    }
}

pub(crate) fn unknown_job(id: JobId) -> ApiError {
    ApiError::not_found(format!(
        "there is no job {id}; finished jobs are removed when their retention is over"
    ))
}

pub(super) fn ids(texts: &[String]) -> Answer<Vec<JobId>> {
    if texts.len() > IDS_MAX {
        return Err(ApiError::invalid(format!(
            "{} ids in one call are too many; send at most {IDS_MAX}",
            texts.len()
        )));
    }
    Ok(texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
}
