//! How jobs come in: `enqueue`, and `promote` for those that waited for their time.
//!
//! All batches that wait are inserted by one statement. Then a second one looks for their ids among the jobs that have
//! ended: an insert waits for whoever is just moving a job of that id there, and only a later statement sees what they
//! did. Unique keys are taken before their jobs are inserted.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use model::{JobId, Limits, NewJob, QueueName, State, UniqueKey, UniqueScope, When};
use store::{EnqueueAnswer, EnqueueBatch, Enqueued, Promoted, decode_answer, encode_answer};
use tokio_postgres::error::SqlState;

use crate::counts::Moves;
use crate::db::{Params, Tx};
use crate::error::Trouble;
use crate::lane::{Merge, Verb};
use crate::row::{self, Id};

/// Arrays that are empty stand for all NULL. Of the answer, `due` is how soon a scheduled job is due.
const INSERT: &str = "
    WITH clock AS MATERIALIZED (SELECT WALL_NOW AS wall),
    entered AS (
        INSERT INTO tenure.jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload,
                                 content_type, heartbeat_us, timeout_us, retry, unique_key, unique_retained, traceparent)
        SELECT n.id, CASE WHEN n.run_at > clock.wall OR n.after > 0 THEN 0 ELSE 1 END, n.queue, coalesce(n.priority, 0),
            coalesce(n.run_at, clock.wall + coalesce(n.after, 0)),
            coalesce(n.max_attempts, (SELECT q.max_attempts FROM tenure.queues q WHERE q.no = n.queue), $17),
            coalesce(n.max_lost, $18), clock.wall, n.kind, n.payload, n.content_type, n.heartbeat_us, n.timeout_us,
            n.retry, n.unique_key, coalesce(n.unique_retained, false), n.traceparent
        FROM clock CROSS JOIN unnest($1::uuid[], $2::integer[], $3::smallint[], $4::bigint[], $5::bigint[],
            $6::integer[], $7::integer[], $8::text[], $9::bytea[], $10::text[], $11::bigint[], $12::bigint[],
            $13::text[], $14::text[], $15::boolean[], $16::text[])
            AS n (id, queue, priority, run_at, after, max_attempts, max_lost, kind, payload, content_type,
                  heartbeat_us, timeout_us, retry, unique_key, unique_retained, traceparent)
        ON CONFLICT (id) DO NOTHING
        RETURNING id, queue, state, run_at),
    counted AS (
        INSERT INTO tenure.counts (queue, scheduled, available)
        SELECT queue, count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1) FROM entered GROUP BY queue)
    SELECT id, CASE state WHEN 0 THEN run_at - (SELECT wall FROM clock) END AS due FROM entered";

/// Fails if a job of this id has ended, so that it can be sent together with the commit.
const NONE_ENDED: &str = "
    SELECT 1 / CASE WHEN EXISTS (SELECT FROM unnest($1::uuid[]) AS n (id) JOIN tenure.ended e
                                       ON e.id = ANY (ARRAY[n.id]))
               THEN 0 ELSE 1 END";

const EXISTING: &str = "
    SELECT n.id FROM unnest($1::uuid[]) AS n (id)
    WHERE EXISTS (SELECT FROM tenure.jobs j WHERE j.id = ANY (ARRAY[n.id]))
       OR EXISTS (SELECT FROM tenure.ended e WHERE e.id = ANY (ARRAY[n.id]))";

/// In a fixed order, so that two that take the same keys wait for each other in one direction only.
const TAKE_KEYS: &str = "
    INSERT INTO tenure.unique_keys (queue, unique_key, job)
    SELECT queue, unique_key, job FROM unnest($1::integer[], $2::text[], $3::uuid[]) AS n (queue, unique_key, job)
    ORDER BY queue, unique_key
    ON CONFLICT DO NOTHING
    RETURNING job";

const KEY_OWNERS: &str = "
    SELECT n.job, k.job FROM unnest($1::integer[], $2::text[], $3::uuid[]) AS n (queue, unique_key, job)
    JOIN tenure.unique_keys k
        ON k.queue = ANY (ARRAY[n.queue]) AND k.unique_key = ANY (ARRAY[n.unique_key])";

const FIRST_ANSWERS: &str = "SELECT id, answer FROM tenure.requests WHERE id = ANY ($1::text[])";

/// Fails if someone else has answered the same request meanwhile.
const REMEMBER: &str = "
    INSERT INTO tenure.requests (id, answered_at, answer)
    SELECT id, WALL_NOW, answer FROM unnest($1::text[], $2::bytea[]) AS n (id, answer)";

const PROMOTE: &str = "
    WITH due AS MATERIALIZED (
        SELECT id FROM tenure.jobs WHERE state = 0 AND run_at <= WALL_NOW
        ORDER BY run_at, id LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE tenure.jobs j SET state = 1 FROM due WHERE j.id = ANY (ARRAY[due.id]) AND j.state IS NOT DISTINCT FROM 0
    RETURNING j.id, j.run_at, j.queue";

pub(crate) const STATEMENTS: &[&str] =
    &[INSERT, NONE_ENDED, EXISTING, TAKE_KEYS, KEY_OWNERS, FIRST_ANSWERS, REMEMBER, PROMOTE];

/// See [`store::JobStore::enqueue`].
pub(crate) struct Enqueue(pub(crate) EnqueueBatch);

impl Merge for Enqueue {
    type Answer = EnqueueAnswer;

    fn jobs(&self) -> usize {
        self.0.jobs.len()
    }

    async fn run<'a>(group: &'a [Self], tx: &'a Tx<'a>) -> Result<Vec<EnqueueAnswer>, Trouble> {
        match enqueue(group, tx, Suspicion::OfKeyedJobs).await {
            // A job with one of these ids has ended. Now find out which.
            Err(trouble) if trouble.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                tx.restart().await?;
                enqueue(group, tx, Suspicion::OfAllJobs).await
            }
            Err(trouble) if trouble.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                Err(Trouble::Again("the same request was answered meanwhile"))
            }
            done => done,
        }
    }
}

/// Which jobs are looked for before they are inserted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    /// Those that would take a unique key, which they must not if they are there already.
    OfKeyedJobs,
    OfAllJobs,
}

/// What became of one job.
#[derive(Clone, Copy)]
enum Fate {
    New {
        due: Option<Duration>,
    },
    /// This job was there already.
    Duplicate(JobId),
}

async fn enqueue(
    group: &[Enqueue],
    tx: &Tx<'_>,
    suspicion: Suspicion,
) -> Result<Vec<EnqueueAnswer>, Trouble> {
    let repeats = Repeats::find(group, tx).await?;
    let jobs: Vec<&NewJob> = repeats.fresh(group).flat_map(|batch| &batch.jobs).collect();
    let fates = enter(tx, &jobs, suspicion).await?;
    let mut entered = jobs.iter().zip(&fates);
    let mut answers: Vec<EnqueueAnswer> =
        repeats.fresh(group).map(|batch| answer(entered.by_ref().take(batch.jobs.len()))).collect();
    let new: Vec<Id> = jobs
        .iter()
        .zip(&fates)
        .filter(|(_, fate)| matches!(fate, Fate::New { .. }))
        .map(|(job, _)| Id(job.id))
        .collect();
    let asked = repeats.fresh(group).zip(&answers).filter_map(|(batch, answer)| {
        batch.request_id.as_ref().map(|request| (request.as_str(), encode_answer(&answer.jobs)))
    });
    let (requests, kept): (Vec<&str>, Vec<Vec<u8>>) = asked.unzip();
    match (new.is_empty() || suspicion == Suspicion::OfAllJobs, requests.is_empty()) {
        (true, true) => {}
        (true, false) => drop(tx.query_all_and_commit(&[(REMEMBER, &[&requests, &kept])]).await?),
        (false, true) => drop(tx.query_all_and_commit(&[(NONE_ENDED, &[&new])]).await?),
        (false, false) => {
            let last: [(&str, Params<'_>); 2] = [(NONE_ENDED, &[&new]), (REMEMBER, &[&requests, &kept])];
            tx.query_all_and_commit(&last).await?;
        }
    }
    // Those that were answered before are put in between again.
    let mut fresh = answers.drain(..);
    Ok(repeats.answer_all(group, &mut fresh))
}

/// Requests that were answered before, or are in the group twice.
struct Repeats {
    /// For each request of the group.
    answers: Vec<Repeat>,
}

enum Repeat {
    No,
    /// Answered so before.
    Before(Vec<Enqueued>),
    /// As the request at this place of the group.
    Like(usize),
}

impl Repeats {
    async fn find(group: &[Enqueue], tx: &Tx<'_>) -> Result<Self, Trouble> {
        let mut first: HashMap<&str, usize> = HashMap::new();
        let mut answers = Vec::with_capacity(group.len());
        for (place, Enqueue(batch)) in group.iter().enumerate() {
            answers.push(match batch.request_id.as_ref().map(|id| first.entry(id.as_str())) {
                Some(Entry::Occupied(same)) => Repeat::Like(*same.get()),
                Some(Entry::Vacant(entry)) => {
                    entry.insert(place);
                    Repeat::No
                }
                None => Repeat::No,
            });
        }
        if !first.is_empty() {
            let ids: Vec<&str> = first.keys().copied().collect();
            for row in tx.query(FIRST_ANSWERS, &[&ids]).await? {
                let place = first[row.try_get::<_, &str>(0)?];
                answers[place] = Repeat::Before(decode_answer(row.try_get(1)?));
            }
        }
        Ok(Repeats { answers })
    }

    fn fresh<'g>(&'g self, group: &'g [Enqueue]) -> impl Iterator<Item = &'g EnqueueBatch> {
        let is_fresh = self.answers.iter().map(|repeat| matches!(repeat, Repeat::No));
        group.iter().zip(is_fresh).filter(|(_, is_fresh)| *is_fresh).map(|(Enqueue(batch), _)| batch)
    }

    fn answer_all(
        &self,
        group: &[Enqueue],
        fresh: &mut impl Iterator<Item = EnqueueAnswer>,
    ) -> Vec<EnqueueAnswer> {
        let repeated = |jobs| EnqueueAnswer { jobs, repeated: true, ..EnqueueAnswer::default() };
        let mut all: Vec<EnqueueAnswer> = Vec::with_capacity(group.len());
        for repeat in &self.answers {
            all.push(match repeat {
                Repeat::No => fresh.next().expect("every fresh request has an answer"),
                Repeat::Before(jobs) => repeated(jobs.clone()),
                Repeat::Like(place) => repeated(all[*place].jobs.clone()),
            });
        }
        all
    }
}

fn answer<'a>(entered: impl Iterator<Item = (&'a &'a NewJob, &'a Fate)>) -> EnqueueAnswer {
    let mut answer = EnqueueAnswer::default();
    let mut ready = BTreeSet::new();
    for (job, fate) in entered {
        let (id, duplicate) = match *fate {
            Fate::Duplicate(id) => (id, true),
            Fate::New { due: Some(due) } => {
                answer.next_run_in = Some(answer.next_run_in.map_or(due, |earlier| earlier.min(due)));
                (job.id, false)
            }
            Fate::New { due: None } => {
                note(&mut ready, &job.queue);
                (job.id, false)
            }
        };
        answer.jobs.push(Enqueued { id, duplicate });
    }
    answer.ready = ready.into_iter().collect();
    answer
}

/// Inserts those that are not there, and whose unique keys are free; one fate for each, in order.
async fn enter(tx: &Tx<'_>, jobs: &[&NewJob], suspicion: Suspicion) -> Result<Vec<Fate>, Trouble> {
    // A job that is named twice is one job.
    let mut fates: HashMap<JobId, Fate> = HashMap::with_capacity(jobs.len());
    let mut seen: HashSet<JobId> = HashSet::with_capacity(jobs.len());
    let mut candidates: Vec<&NewJob> = jobs.iter().copied().filter(|job| seen.insert(job.id)).collect();

    let unknown: BTreeSet<&QueueName> =
        candidates.iter().map(|job| &job.queue).filter(|queue| tx.queues().number(queue).is_none()).collect();
    let mut numbers = HashMap::new();
    if !unknown.is_empty() {
        let unknown: Vec<QueueName> = unknown.into_iter().cloned().collect();
        numbers = tx.queues().look_up(tx, &unknown).await?;
    }
    let number = |numbers: &HashMap<QueueName, i32>, queue: &QueueName| {
        numbers.get(queue).copied().or_else(|| tx.queues().number(queue))
    };
    // A duplicate takes no unique key, and does not create the queue it names.
    let is_suspect = |job: &NewJob| {
        suspicion == Suspicion::OfAllJobs
            || job.unique_key.is_some()
            || number(&numbers, &job.queue).is_none()
    };
    let suspects: Vec<Id> = candidates.iter().filter(|job| is_suspect(job)).map(|job| Id(job.id)).collect();
    if !suspects.is_empty() {
        for row in tx.query(EXISTING, &[&suspects]).await? {
            let id = row::job_id(&row, 0)?;
            fates.insert(id, Fate::Duplicate(id));
        }
        candidates.retain(|job| !fates.contains_key(&job.id));
    }
    let missing: BTreeSet<&QueueName> =
        candidates.iter().map(|job| &job.queue).filter(|queue| number(&numbers, queue).is_none()).collect();
    if !missing.is_empty() {
        let missing: Vec<QueueName> = missing.into_iter().cloned().collect();
        tx.queues().create(tx, &missing).await?;
        numbers.extend(tx.queues().look_up(tx, &missing).await?);
    }
    let mut placed = Vec::with_capacity(candidates.len());
    for job in candidates {
        let queue = number(&numbers, &job.queue).ok_or(Trouble::Again("a queue that was there is gone"))?;
        placed.push((queue, job));
    }
    if placed.iter().any(|(_, job)| job.unique_key.is_some()) {
        take_keys(tx, &mut placed, &mut fates).await?;
    }
    insert(tx, &placed, &mut fates).await?;
    let mut first: HashSet<JobId> = HashSet::with_capacity(jobs.len());
    let fate_of = |job: &&NewJob| match fates[&job.id] {
        Fate::New { .. } if !first.insert(job.id) => Fate::Duplicate(job.id),
        fate => fate,
    };
    Ok(jobs.iter().map(fate_of).collect())
}

/// Takes the unique keys of jobs that are about to be inserted; those whose key is another's are left out.
async fn take_keys(
    tx: &Tx<'_>,
    placed: &mut Vec<(i32, &NewJob)>,
    fates: &mut HashMap<JobId, Fate>,
) -> Result<(), Trouble> {
    let mut leaders: HashMap<(i32, &UniqueKey), JobId> = HashMap::new();
    let (mut queues, mut keys, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    let mut followers = Vec::new();
    for (queue, job) in placed.iter() {
        let Some(key) = &job.unique_key else { continue };
        match leaders.entry((*queue, key)) {
            Entry::Occupied(leader) => followers.push((job.id, *leader.get())),
            Entry::Vacant(entry) => {
                entry.insert(job.id);
                queues.push(*queue);
                keys.push(key.as_str());
                ids.push(Id(job.id));
            }
        }
    }
    let taken = tx.query(TAKE_KEYS, &[&queues, &keys, &ids]).await?;
    if taken.len() < ids.len() {
        let taken: HashSet<JobId> =
            taken.iter().map(|row| row::job_id(row, 0)).collect::<Result<_, Trouble>>()?;
        let mut owners = HashMap::new();
        for row in tx.query(KEY_OWNERS, &[&queues, &keys, &ids]).await? {
            owners.insert(row::job_id(&row, 0)?, row::job_id(&row, 1)?);
        }
        for Id(job) in ids.iter().filter(|Id(job)| !taken.contains(job)) {
            let owner = owners.get(job).ok_or(Trouble::Again("a unique key was freed meanwhile"))?;
            fates.insert(*job, Fate::Duplicate(*owner));
        }
    }
    for (job, leader) in followers {
        let owner = match fates.get(&leader) {
            Some(Fate::Duplicate(owner)) => *owner,
            _ => leader,
        };
        fates.insert(job, Fate::Duplicate(owner));
    }
    placed.retain(|(_, job)| !fates.contains_key(&job.id));
    Ok(())
}

async fn insert(
    tx: &Tx<'_>,
    placed: &[(i32, &NewJob)],
    fates: &mut HashMap<JobId, Fate>,
) -> Result<(), Trouble> {
    if placed.is_empty() {
        return Ok(());
    }
    /// One value for each job, or none at all if no job has one.
    fn column<'j, T>(
        placed: &[(i32, &'j NewJob)],
        value: impl Fn(&'j NewJob) -> Option<T>,
    ) -> Vec<Option<T>> {
        let values: Vec<Option<T>> = placed.iter().map(|(_, job)| value(job)).collect();
        if values.iter().all(Option::is_none) { Vec::new() } else { values }
    }
    let ids: Vec<Id> = placed.iter().map(|(_, job)| Id(job.id)).collect();
    let queues: Vec<i32> = placed.iter().map(|(queue, _)| *queue).collect();
    let kinds: Vec<&str> = placed.iter().map(|(_, job)| job.kind.as_str()).collect();
    let payloads: Vec<&[u8]> = placed.iter().map(|(_, job)| job.payload.as_ref()).collect();
    let priorities = column(placed, |job| (job.priority != 0).then_some(job.priority));
    let dates = column(placed, |job| match job.when {
        // A past date is kept, so that jobs that should have run earlier are claimed earlier.
        When::At(date) => Some(date.as_millis()),
        When::Now | When::After(_) => None,
    });
    let delays = column(placed, |job| match job.when {
        When::After(delay) => Some(row::millis(delay)),
        When::Now | When::At(_) => None,
    });
    let max_attempts = column(placed, |job| job.max_attempts.map(|number| number as i32));
    let max_lost = column(placed, |job| job.max_lost.map(|number| number as i32));
    let content_types = column(placed, |job| {
        (job.content_type != NewJob::CONTENT_TYPE_DEFAULT).then(|| row::storable(&job.content_type))
    });
    let heartbeats = column(placed, |job| job.heartbeat_timeout.map(row::micros));
    let timeouts = column(placed, |job| job.timeout.map(row::micros));
    let retries = column(placed, |job| job.retry.map(|policy| policy.to_string()));
    let keys = column(placed, |job| job.unique_key.as_ref().map(UniqueKey::as_str));
    let retained = column(placed, |job| (job.unique_scope == UniqueScope::Retained).then_some(true));
    let traces = column(placed, |job| job.traceparent.as_deref().map(row::storable));
    let (attempts_default, lost_default) = (Limits::ATTEMPTS_DEFAULT as i32, Limits::LOST_DEFAULT as i32);
    let entered = tx
        .query(
            INSERT,
            &[
                &ids,
                &queues,
                &priorities,
                &dates,
                &delays,
                &max_attempts,
                &max_lost,
                &kinds,
                &payloads,
                &content_types,
                &heartbeats,
                &timeouts,
                &retries,
                &keys,
                &retained,
                &traces,
                &attempts_default,
                &lost_default,
            ],
        )
        .await?;
    for row in &entered {
        let due: Option<i64> = row.try_get(1)?;
        let due = due.map(|millis| Duration::from_millis(millis.max(0) as u64));
        fates.insert(row::job_id(row, 0)?, Fate::New { due });
    }
    if entered.len() < placed.len() {
        for (_, job) in placed {
            if let Entry::Vacant(fate) = fates.entry(job.id) {
                if job.unique_key.is_some() {
                    return Err(Trouble::Again("a job that took a unique key came in otherwise meanwhile"));
                }
                fate.insert(Fate::Duplicate(job.id));
            }
        }
    }
    Ok(())
}

fn note(ready: &mut BTreeSet<QueueName>, queue: &QueueName) {
    if !ready.contains(queue) {
        ready.insert(queue.clone());
    }
}

/// See [`store::JobStore::promote`].
pub(crate) struct Promote {
    pub(crate) limit: usize,
}

impl Verb for Promote {
    type Answer = Promoted;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Promoted, Trouble> {
        let rows = tx.query(PROMOTE, &[&row::limit(self.limit)]).await?;
        let mut moves = Moves::default();
        let mut due: Vec<(i64, JobId)> = Vec::with_capacity(rows.len());
        let mut ready = BTreeSet::new();
        for row in &rows {
            let queue = row.try_get(2)?;
            moves.shift(queue, State::Scheduled, State::Available);
            note(&mut ready, &tx.queues().name(tx, queue).await?);
            due.push((row.try_get(1)?, row::job_id(row, 0)?));
        }
        moves.write(tx).await?;
        // An update returns its rows in whatever order it met them.
        due.sort_unstable();
        Ok(Promoted { jobs: due.into_iter().map(|(_, id)| id).collect(), ready: ready.into_iter().collect() })
    }
}
