//! How jobs come in: `enqueue`, and `promote` for those that waited for their time.
//!
//! All batches that wait are inserted by one statement, in the hope that nothing of it is there already: if something is,
//! everything is undone, looked for, and inserted without it. Then a second statement looks for their ids among the jobs
//! that have ended: an insert waits for whoever is just moving a job of that id there, and only a later statement sees what
//! they did. Unique keys are taken before their jobs are inserted.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use model::{JobId, Limits, NewJob, QueueName, State, UniqueKey, UniqueScope, WallTime, When};
use store::{EnqueueAnswer, EnqueueBatch, Enqueued, Promoted, decode_answer, encode_answer};
use tokio_postgres::error::SqlState;

use crate::counts::Moves;
use crate::db::{Params, Tx};
use crate::error::Trouble;
use crate::lane::{Merge, Verb};
use crate::probe;
use crate::row::{self, Id};

/// $1 the queues, $18 and $19 what jobs have that do not say otherwise, $20 to $23 how many jobs are for which queue and
/// time. Arrays that are empty stand for all NULL; a place is that of the job's queue in $1, and NULL is the first. Fails if
/// a job of this id waits or runs. Answers the time.
const INSERT: &str = "
    WITH clock AS MATERIALIZED (SELECT WALL_NOW AS wall),
    named AS MATERIALIZED (
        SELECT array_agg(coalesce(q.max_attempts, $18) ORDER BY n.place) AS max_attempts
        FROM unnest($1::integer[]) WITH ORDINALITY AS n (queue, place)
            LEFT JOIN tenure.queues q ON q.no = ANY (ARRAY[n.queue])),
    entered AS (
        INSERT INTO tenure.jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload,
                                 content_type, heartbeat_us, timeout_us, retry, unique_key, unique_retained, traceparent)
        SELECT n.id, CASE WHEN n.run_at > clock.wall OR n.after > 0 THEN 0 ELSE 1 END, ($1::integer[])[coalesce(n.place, 1)],
            coalesce(n.priority, 0), coalesce(n.run_at, clock.wall + coalesce(n.after, 0)),
            coalesce(n.max_attempts, named.max_attempts[coalesce(n.place, 1)]), coalesce(n.max_lost, $19), clock.wall, n.kind,
            n.payload, n.content_type, n.heartbeat_us, n.timeout_us, n.retry, n.unique_key, coalesce(n.unique_retained, false),
            n.traceparent
        FROM clock CROSS JOIN named CROSS JOIN unnest($2::uuid[], $3::integer[], $4::smallint[], $5::bigint[], $6::bigint[],
            $7::integer[], $8::integer[], $9::text[], $10::bytea[], $11::text[], $12::bigint[], $13::bigint[],
            $14::text[], $15::text[], $16::boolean[], $17::text[])
            AS n (id, place, priority, run_at, after, max_attempts, max_lost, kind, payload, content_type,
                  heartbeat_us, timeout_us, retry, unique_key, unique_retained, traceparent)),
    counted AS (
        INSERT INTO tenure.counts (queue, scheduled, available)
        SELECT n.queue, coalesce(sum(n.jobs) FILTER (WHERE n.is_later), 0),
            coalesce(sum(n.jobs) FILTER (WHERE NOT n.is_later), 0)
        FROM (
            SELECT queue, jobs, coalesce(run_at > clock.wall OR after > 0, false) AS is_later
            FROM clock CROSS JOIN unnest($20::integer[], $21::bigint[], $22::bigint[], $23::integer[])
                AS n (queue, run_at, after, jobs)) AS n
        GROUP BY n.queue)
    SELECT wall FROM clock";

/// Fails if a job of these ids has ended, so that it can be sent together with the commit. $2 and $3 are the first and the
/// last of them: mostly all are younger than whatever has ended, and then they need not be looked for one by one.
pub(crate) const NONE_ENDED: &str = "
    SELECT 1 / CASE WHEN NOT EXISTS (SELECT FROM tenure.ended e WHERE e.id BETWEEN $2 AND $3) THEN 1
                    WHEN NOT EXISTS (SELECT FROM unnest($1::uuid[]) AS n (id) JOIN tenure.ended e
                                         ON e.id = ANY (ARRAY[n.id])) THEN 1
                    ELSE 0 END";

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
pub(crate) const REMEMBER: &str = "
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
pub(crate) struct Enqueue {
    batch: EnqueueBatch,
    /// Nothing is enqueued, but it is proved that something could be. See [`store::JobStore::check`].
    is_probe: bool,
}

impl Enqueue {
    pub(crate) fn of(batch: EnqueueBatch) -> Self {
        Enqueue { batch, is_probe: false }
    }

    pub(crate) fn probe() -> Self {
        Enqueue { batch: EnqueueBatch::default(), is_probe: true }
    }
}

impl Merge for Enqueue {
    type Answer = EnqueueAnswer;

    fn jobs(&self) -> usize {
        self.batch.jobs.len()
    }

    fn bytes(&self) -> usize {
        self.batch.jobs.iter().map(|job| job.payload.len()).sum()
    }

    async fn run<'a>(group: &'a [Self], tx: &'a Tx<'a>) -> Result<Vec<EnqueueAnswer>, Trouble> {
        match enqueue(group, tx, Suspicion::OfKeyedJobs).await {
            // A job with one of these ids is there or has ended, or one of the requests was answered meanwhile. Now look first.
            Err(trouble) if is_duplicate(&trouble) => {
                tx.restart().await?;
                match enqueue(group, tx, Suspicion::OfAllJobs).await {
                    Err(trouble) if is_duplicate(&trouble) => {
                        Err(Trouble::Again("the same job or request came in otherwise meanwhile"))
                    }
                    done => done,
                }
            }
            done => done,
        }
    }
}

/// Whether the database refused something because it has it already.
fn is_duplicate(trouble: &Trouble) -> bool {
    let code = trouble.code();
    code == Some(&SqlState::UNIQUE_VIOLATION) || code == Some(&SqlState::DIVISION_BY_ZERO)
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
    if group.iter().any(|request| request.is_probe) {
        probe::run(tx).await?;
    }
    let repeats = Repeats::find(group, tx).await?;
    let jobs: Vec<&NewJob> = repeats.fresh(group).flat_map(|batch| &batch.jobs).collect();
    let fates = enter(tx, &jobs, suspicion).await?;
    let mut entered = jobs.iter().zip(&fates);
    let mut answers: Vec<EnqueueAnswer> =
        repeats.fresh(group).map(|batch| answer(entered.by_ref().take(batch.jobs.len()))).collect();
    let new = jobs.iter().zip(&fates).filter(|(_, fate)| matches!(fate, Fate::New { .. }));
    let new: Vec<Id> = new.map(|(job, _)| Id(job.id)).collect();
    let (first, last) = (new.iter().min(), new.iter().max());
    let asked = repeats.fresh(group).zip(&answers).filter_map(|(batch, answer)| {
        batch.request_id.as_ref().map(|request| (request.as_str(), encode_answer(&answer.jobs)))
    });
    let (requests, kept): (Vec<&str>, Vec<Vec<u8>>) = asked.unzip();
    let none_ended: (&'static str, Params<'_>) = (NONE_ENDED, &[&new, &first, &last]);
    let remember: (&'static str, Params<'_>) = (REMEMBER, &[&requests, &kept]);
    let mut last = Vec::new();
    last.extend((!new.is_empty()).then_some(none_ended));
    last.extend((!requests.is_empty()).then_some(remember));
    if !last.is_empty() {
        tx.query_all_and_commit(&last).await?;
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
        for (place, Enqueue { batch, .. }) in group.iter().enumerate() {
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
        group.iter().zip(is_fresh).filter(|(_, is_fresh)| *is_fresh).map(|(Enqueue { batch, .. }, _)| batch)
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
    let mut seen: HashSet<JobId> = HashSet::with_capacity(jobs.len());
    let is_first: Vec<bool> = jobs.iter().map(|job| seen.insert(job.id)).collect();
    let mut candidates: Vec<&NewJob> =
        jobs.iter().zip(&is_first).filter(|(_, is_first)| **is_first).map(|(job, _)| *job).collect();
    // Those that are not inserted, with the job that stands for each.
    let mut owners: HashMap<JobId, JobId> = HashMap::new();

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
            owners.insert(id, id);
        }
        candidates.retain(|job| !owners.contains_key(&job.id));
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
        take_keys(tx, &mut placed, &mut owners).await?;
    }
    let now = insert(tx, &placed).await?;
    let fate = |(job, is_first): (&&NewJob, &bool)| match owners.get(&job.id) {
        Some(owner) => Fate::Duplicate(*owner),
        None if !is_first => Fate::Duplicate(job.id),
        None => Fate::New { due: now.and_then(|now| due(job.when, now)) },
    };
    Ok(jobs.iter().zip(&is_first).map(fate).collect())
}

/// How soon a job is due that was enqueued now; `None` if it is available at once.
fn due(when: When, now: WallTime) -> Option<Duration> {
    let due = match when {
        When::Now => Duration::ZERO,
        When::At(date) => date.since(now),
        When::After(delay) => Duration::from_millis(row::millis(delay) as u64),
    };
    (!due.is_zero()).then_some(due)
}

/// Takes the unique keys of jobs that are about to be inserted; those whose key is another's are left out.
async fn take_keys(
    tx: &Tx<'_>,
    placed: &mut Vec<(i32, &NewJob)>,
    duplicates: &mut HashMap<JobId, JobId>,
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
            duplicates.insert(*job, *owner);
        }
    }
    for (job, leader) in followers {
        let owner = duplicates.get(&leader).copied().unwrap_or(leader);
        duplicates.insert(job, owner);
    }
    placed.retain(|(_, job)| !duplicates.contains_key(&job.id));
    Ok(())
}

/// Answers the time; `None` if there is nothing to insert.
pub(crate) async fn insert(tx: &Tx<'_>, placed: &[(i32, &NewJob)]) -> Result<Option<WallTime>, Trouble> {
    if placed.is_empty() {
        return Ok(None);
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
    let (queues, places) = queue_places(placed);
    let counts = Counts::of(placed);
    let kinds: Vec<&str> = placed.iter().map(|(_, job)| job.kind.as_str()).collect();
    let payloads: Vec<&[u8]> = placed.iter().map(|(_, job)| job.payload.as_ref()).collect();
    let priorities = column(placed, |job| (job.priority != 0).then_some(job.priority));
    let dates = column(placed, date);
    let delays = column(placed, delay);
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
    let row = tx
        .query_one(
            INSERT,
            &[
                &queues,
                &ids,
                &places,
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
                &counts.queues,
                &counts.dates,
                &counts.delays,
                &counts.jobs,
            ],
        )
        .await?;
    Ok(Some(row::wall_time(row.try_get(0)?)))
}

/// The queues of these jobs, each once, and where each job's is among them, from 1. No places if there is one queue only.
fn queue_places(placed: &[(i32, &NewJob)]) -> (Vec<i32>, Vec<i32>) {
    let mut place_of: HashMap<i32, i32> = HashMap::new();
    let mut queues = Vec::new();
    let place = |(queue, _): &(i32, &NewJob)| {
        *place_of.entry(*queue).or_insert_with(|| {
            queues.push(*queue);
            queues.len() as i32
        })
    };
    let places: Vec<i32> = placed.iter().map(place).collect();
    if queues.len() == 1 { (queues, Vec::new()) } else { (queues, places) }
}

/// How many jobs are for which queue and time. Which of them are scheduled is for the database to say, which has the clock.
#[derive(Default)]
struct Counts {
    queues: Vec<i32>,
    dates: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
    jobs: Vec<i32>,
}

impl Counts {
    fn of(placed: &[(i32, &NewJob)]) -> Self {
        let mut jobs: BTreeMap<(i32, Option<i64>, Option<i64>), i32> = BTreeMap::new();
        for (queue, job) in placed {
            *jobs.entry((*queue, date(job), delay(job))).or_default() += 1;
        }
        let mut counts = Counts::default();
        for ((queue, date, delay), jobs) in jobs {
            counts.queues.push(queue);
            counts.dates.push(date);
            counts.delays.push(delay);
            counts.jobs.push(jobs);
        }
        counts
    }
}

/// A past date is kept, so that jobs that should have run earlier are claimed earlier.
fn date(job: &NewJob) -> Option<i64> {
    match job.when {
        When::At(date) => Some(date.as_millis()),
        When::Now | When::After(_) => None,
    }
}

fn delay(job: &NewJob) -> Option<i64> {
    match job.when {
        When::After(delay) => Some(row::millis(delay)),
        When::Now | When::At(_) => None,
    }
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
