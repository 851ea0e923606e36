//! How jobs that are done move to their own table: by one guarded statement, and the guard alone decides.

use std::collections::HashMap;
use std::time::Duration;

use model::Outcome;
use store::Finished;

use crate::db::Tx;
use crate::error::Trouble;
use crate::finish::Said;
use crate::row::{self, Id};

/// $1 jobs in the order of their ids, $2 their fences, $3 holders, $4 which of them has the job (none: all have the first),
/// $5 results in a row, $6 where each ends (none: all are empty). A job's place in $1 says what else is about it: without a
/// join each row is found by one walk through the index. What is said of them is put together, since a row of an answer
/// costs more than a place in an array. What several steps read of those that are done comes first: a row is taken apart only
/// as far as it is needed.
const COMPLETE: &str = "
    WITH clock AS MATERIALIZED (SELECT WALL_NOW AS wall),
    done AS (
        DELETE FROM tenure.jobs j
        WHERE j.id = ANY ($1::uuid[])
          AND (j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint,
              CASE WHEN cardinality($4::integer[]) = 0 THEN ($3::text[])[1]
                   ELSE ($3::text[])[($4::integer[])[width_bucket(j.id, $1)]] END,
              ($2::bigint[])[width_bucket(j.id, $1)])
        RETURNING j.queue, (CASE WHEN j.cancel_requested THEN 4 ELSE 3 END)::smallint AS next,
            width_bucket(j.id, $1) AS place, j.started_at, j.unique_key, j.unique_retained, j.id, j.fence, j.run_at,
            j.enqueued_at, j.heartbeat_us, j.timeout_us, j.attempt, j.max_attempts, j.lost, j.max_lost, j.priority,
            j.cancel_requested, j.retry, j.kind, j.content_type, j.traceparent, j.last_error, j.progress, j.checkpoint,
            j.payload),
    freed AS (
        DELETE FROM tenure.unique_keys k USING done
        WHERE done.unique_key IS NOT NULL AND NOT done.unique_retained
          AND k.queue = ANY (ARRAY[done.queue]) AND k.unique_key = done.unique_key AND k.job = done.id),
    sums AS MATERIALIZED (
        SELECT queue, next, count(*) AS jobs, array_agg(place) AS places, array_agg(started_at) AS starts
        FROM done GROUP BY queue, next),
    counted AS (
        INSERT INTO tenure.counts (queue, running, completed, cancelled)
        SELECT queue, -jobs, CASE WHEN next = 3 THEN jobs ELSE 0 END, CASE WHEN next = 4 THEN jobs ELSE 0 END FROM sums),
    kept AS (
        INSERT INTO tenure.ended (id, fence, reported_fence, run_at, enqueued_at, started_at, finished_at, heartbeat_us,
            timeout_us, queue, attempt, max_attempts, lost, max_lost, state, priority, cancel_requested, unique_retained,
            unique_key, retry, kind, content_type, traceparent, last_error, progress, checkpoint, payload, result)
        SELECT id, fence, fence, run_at, enqueued_at, started_at, (SELECT wall FROM clock), heartbeat_us, timeout_us, queue,
            attempt, max_attempts, lost, max_lost, next, priority, cancel_requested, unique_retained, unique_key, retry,
            kind, content_type, traceparent, last_error, progress, checkpoint, payload,
            coalesce(substring($5::bytea FROM coalesce(($6::integer[])[place - 1], 0) + 1
                FOR ($6::integer[])[place] - coalesce(($6::integer[])[place - 1], 0)), ''::bytea)
        FROM done)
    SELECT queue, next, places, starts, (SELECT wall FROM clock) FROM sums";

pub(crate) const STATEMENTS: &[&str] = &[COMPLETE];

/// Ends attempts of different jobs that are all done, and answers those whose holds stand. They are in the order of their ids.
pub(crate) async fn complete(
    tx: &Tx<'_>,
    said: &[Said<'_>],
    places: &[usize],
    answers: &mut [Option<Finished>],
) -> Result<(), Trouble> {
    let holds = places.iter().map(|place| said[*place].report.hold);
    let (ids, fences): (Vec<Id>, Vec<i64>) = holds.map(|hold| (Id(hold.job), hold.fence.get())).unzip();
    let (holders, held_by) = holder_places(said, places);
    let (results, ends) = results(said, places);
    for row in tx.query(COMPLETE, &[&ids, &fences, &holders, &held_by, &results, &ends]).await? {
        let (queue, state) = (tx.queues().name(tx, row.try_get(0)?).await?, row::state(&row, 1)?);
        let (done, starts): (Vec<i32>, Vec<Option<i64>>) = (row.try_get(2)?, row.try_get(3)?);
        let now: i64 = row.try_get(4)?;
        for (place, start) in done.into_iter().zip(starts) {
            let ran = start.map_or(0, |start| (now - start).max(0));
            let place = usize::try_from(place - 1).ok().and_then(|place| places.get(place));
            let place =
                place.ok_or_else(|| Trouble::Damaged("a job was ended that nobody named".to_owned()))?;
            let ran = Duration::from_millis(ran as u64);
            answers[*place] = Some(Finished::Done { state, queue: queue.clone(), due_in: None, ran });
        }
    }
    Ok(())
}

/// The holders of these jobs, each once, and where each job's is among them, from 1. No places if there is one holder only.
fn holder_places<'a>(said: &[Said<'a>], places: &[usize]) -> (Vec<&'a str>, Vec<i32>) {
    let mut place_of: HashMap<&str, i32> = HashMap::new();
    let mut holders: Vec<&str> = Vec::new();
    let mut held_by = Vec::with_capacity(places.len());
    for Said { holder, .. } in places.iter().map(|place| said[*place]) {
        // Mostly all are of one worker.
        let place = match holders.last() {
            Some(last) if *last == holder.as_str() => holders.len() as i32,
            _ => *place_of.entry(holder.as_str()).or_insert_with(|| {
                holders.push(holder.as_str());
                holders.len() as i32
            }),
        };
        held_by.push(place);
    }
    if holders.len() == 1 { (holders, Vec::new()) } else { (holders, held_by) }
}

/// The results of these jobs in a row, and where each ends. No ends if there are only empty ones.
fn results(said: &[Said<'_>], places: &[usize]) -> (Vec<u8>, Vec<i32>) {
    let (mut results, mut ends) = (Vec::new(), Vec::with_capacity(places.len()));
    for place in places {
        if let Outcome::Completed { result } = &said[*place].report.outcome {
            results.extend_from_slice(result);
        }
        ends.push(results.len() as i32);
    }
    if results.is_empty() { (results, Vec::new()) } else { (results, ends) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use model::{Fence, Hold, JobId, Report, State, WorkerKey};
    use pg_cluster::Cluster;

    use super::*;
    use crate::db::{Mutations, Shared};
    use crate::open::{Connector, Habits};
    use crate::queues::QueueNames;
    use crate::time::StoreClock;

    /// Four jobs that run: their ids and fences are 1 to 4, held by `a`, `b`, `a`, `b`; the third is to be cancelled.
    const RUNNING: &str = "
        INSERT INTO tenure.queues (name) VALUES ('q');
        INSERT INTO tenure.jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload, fence,
                                 holder, lease_until, granted_us, started_at, cancel_requested)
        SELECT lpad(n::text, 32, '0')::uuid, 2, q.no, 0, 0, 5, 5, 0, 'k', '', n, CASE n % 2 WHEN 1 THEN 'a' ELSE 'b' END, 1, 1,
            0, n = 3
        FROM tenure.queues q, generate_series(1, 4) AS n";

    fn done(number: u8, fence: i64, result: &'static str) -> Report {
        let mut id = [0; 16];
        id[15] = number;
        let hold = Hold { job: JobId::from_bytes(id), fence: Fence::new(fence) };
        Report { hold, outcome: Outcome::Completed { result: Bytes::from_static(result.as_bytes()) } }
    }

    /// Completes these, each as who says so; answers the states they are in, and what ended with which result.
    async fn check(
        replacements: &[(&str, &str)],
        said: &[(&str, Report)],
    ) -> (Vec<Option<State>>, Vec<String>) {
        let cluster = Cluster::shared();
        let url = cluster.fresh_database();
        crate::migrate(&url, false).await.unwrap();
        let shared = Arc::new(Shared {
            clock: StoreClock::Database,
            mutations: Mutations::new(replacements),
            queues: QueueNames::default(),
        });
        let session = Connector::open(&url).unwrap().connect(&shared, Habits::USUAL).await.unwrap();
        session.set(RUNNING).await.unwrap();
        let holders: Vec<WorkerKey> = said.iter().map(|(key, _)| WorkerKey::new(key).unwrap()).collect();
        let said: Vec<Said<'_>> = holders
            .iter()
            .zip(said)
            .map(|(holder, (_, report))| Said { request: 0, holder, report })
            .collect();
        let mut answers = vec![None; said.len()];
        let tx = session.transaction();
        complete(&tx, &said, &(0..said.len()).collect::<Vec<_>>(), &mut answers).await.unwrap();
        tx.commit().await.unwrap();
        let states = answers.into_iter().map(|answer| match answer? {
            Finished::Done { state, .. } => Some(state),
            _ => None,
        });
        let ended =
            "SELECT right(id::text, 1) || ' ' || convert_from(result, 'UTF8') FROM tenure.ended ORDER BY id";
        let ended = session.separate().query(ended, &[]).await.unwrap();
        (states.collect(), ended.iter().map(|row| row.get(0)).collect())
    }

    #[tokio::test]
    async fn each_report_of_a_group_counts_for_its_own_holder_job_and_fence() {
        let said = [
            ("a", done(1, 1, "one")),
            ("a", done(2, 2, "stolen")),
            ("a", done(3, 3, "")),
            ("b", done(4, 3, "stale")),
            ("b", done(5, 5, "unknown")),
        ];
        let (completed, cancelled) = (Some(State::Completed), Some(State::Cancelled));
        let right = (vec![completed, None, cancelled, None, None], vec!["1 one".to_owned(), "3 ".to_owned()]);
        assert_eq!(check(&[], &said).await, right);
        let of_first = [("WHEN cardinality($4::integer[]) = 0", "WHEN cardinality($4::integer[]) >= 0")];
        let said = [("b", done(2, 2, "")), ("a", done(3, 3, ""))];
        let ended = ["2 ".to_owned(), "3 ".to_owned()];
        assert_eq!(check(&[], &said).await, (vec![completed, cancelled], ended.to_vec()));
        assert_eq!(check(&of_first, &said).await, (vec![completed, None], ended[..1].to_vec()));
    }

    #[tokio::test]
    async fn results_stay_with_their_jobs() {
        let said = [
            ("a", done(1, 1, "")),
            ("b", done(2, 2, "two")),
            ("a", done(3, 3, "")),
            ("b", done(4, 4, "fourth")),
        ];
        let (_, ended) = check(&[], &said).await;
        assert_eq!(ended, ["1 ", "2 two", "3 ", "4 fourth"]);
    }
}
