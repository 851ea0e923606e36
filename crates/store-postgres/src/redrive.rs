//! Offering dead and cancelled jobs again.
//!
//! The order asked for decides which of two jobs gets a unique key.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use model::{JobId, QueueName, State};
use store::Redriven;

use crate::counts::Moves;
use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row::{self, Id};

/// Jobs that have ended, locked in the order they are named in.
const LOOK: &str = "
    SELECT e.id, e.state, e.queue, q.name, e.unique_key
    FROM unnest($1::uuid[]) AS named (id)
        JOIN tenure.ended e ON e.id = ANY (ARRAY[named.id])
        JOIN tenure.queues q ON q.no = ANY (ARRAY[e.queue])
    FOR UPDATE OF e";

/// The states of jobs wherever they are, all at the same moment.
const ELSEWHERE: &str = "
    SELECT id, state FROM tenure.jobs WHERE id = ANY ($1)
    UNION ALL
    SELECT id, state FROM tenure.ended WHERE id = ANY ($1)";

/// $1 queues, $2 keys, $3 the jobs that want them. A key that is taken stays with the one who has it.
const TAKE_KEYS: &str = "
    INSERT INTO tenure.unique_keys (queue, unique_key, job)
    SELECT * FROM unnest($1::integer[], $2::text[], $3::uuid[])
    ON CONFLICT (queue, unique_key) DO NOTHING";

/// Who has these keys: $1 queues, $2 keys.
const OWNERS: &str = "
    SELECT u.job
    FROM unnest($1::integer[], $2::text[]) AS wanted (queue, unique_key)
        JOIN tenure.unique_keys u ON u.queue = ANY (ARRAY[wanted.queue]) AND u.unique_key = wanted.unique_key";

const REDRIVE: &str = "
    WITH again AS (
        DELETE FROM tenure.ended WHERE id = ANY ($1) AND state IS DISTINCT FROM 3 RETURNING *
    )
    INSERT INTO tenure.jobs (id, fence, reported_fence, run_at, enqueued_at, started_at, heartbeat_us, timeout_us, queue,
        attempt, max_attempts, lost, max_lost, state, priority, cancel_requested, unique_retained, unique_key, retry,
        kind, content_type, traceparent, last_error, progress, checkpoint, payload)
    SELECT id, fence, reported_fence, WALL_NOW, enqueued_at, started_at, heartbeat_us, timeout_us, queue,
        0, max_attempts, 0, max_lost, 1, priority, false, unique_retained, unique_key, retry,
        kind, content_type, traceparent, last_error, progress, checkpoint, payload
    FROM again
    RETURNING id";

pub(crate) const STATEMENTS: &[&str] = &[LOOK, ELSEWHERE, TAKE_KEYS, OWNERS, REDRIVE];

/// See [`store::JobStore::redrive`]. Which jobs match a filter is asked beforehand.
pub(crate) struct Redrive(pub(crate) Vec<JobId>);

impl Verb for Redrive {
    type Answer = Vec<(JobId, Redriven)>;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<(JobId, Redriven)>, Trouble> {
        // In the order of ids, as everyone locks jobs; each once.
        let ids: BTreeSet<JobId> = self.0.iter().copied().collect();
        let ids: Vec<_> = ids.into_iter().map(Id).collect();
        let mut ended = HashMap::new();
        for row in tx.query(LOOK, &[&ids]).await? {
            let queue = row::valid(QueueName::new(row.try_get(3)?))?;
            let (state, queue_no, key) = (row::state(&row, 1)?, row.try_get(2)?, row.try_get(4)?);
            ended.insert(row::job_id(&row, 0)?, Ended { state, queue_no, queue, key });
        }
        let owners = self.take_keys(tx, &ended).await?;
        let may_go =
            |id: &&JobId| ended.get(id).is_some_and(|job| job.wants().is_none() || owners.contains(id));
        let chosen: Vec<Id> = self.0.iter().filter(may_go).map(|id| Id(*id)).collect();
        let mut answers: HashMap<JobId, Redriven> =
            ended.iter().map(|(id, job)| (*id, job.refusal())).collect();
        let mut moves = Moves::default();
        for row in tx.query(REDRIVE, &[&chosen]).await? {
            let id = row::job_id(&row, 0)?;
            let again = &ended[&id];
            moves.shift(again.queue_no, again.state, State::Available);
            answers.insert(id, Redriven::Again(again.queue.clone()));
        }
        moves.write(tx).await?;
        self.look_elsewhere(tx, &mut answers).await?;
        let answers = self.0.iter().map(|id| match answers.get(id) {
            Some(Redriven::Again(queue)) => {
                let again = Redriven::Again(queue.clone());
                // Named twice, it was available the second time.
                answers.insert(*id, Redriven::NotEnded(State::Available));
                (*id, again)
            }
            Some(answer) => (*id, answer.clone()),
            None => (*id, Redriven::Unknown),
        });
        Ok(answers.collect())
    }
}

/// A job to offer again.
struct Ended {
    state: State,
    queue_no: i32,
    queue: QueueName,
    key: Option<String>,
}

impl Ended {
    fn is_redrivable(&self) -> bool {
        matches!(self.state, State::Cancelled | State::Dead)
    }

    /// Why it is not offered again, if it is not.
    fn refusal(&self) -> Redriven {
        if self.is_redrivable() { Redriven::KeyTaken } else { Redriven::NotEnded(self.state) }
    }

    /// The unique key without which it cannot be offered again.
    fn wants(&self) -> Option<(i32, &str)> {
        self.key.as_deref().filter(|_| self.is_redrivable()).map(|key| (self.queue_no, key))
    }
}

impl Redrive {
    /// Gives each key that is wanted and free to the first job that wants it. Answers who has them then.
    async fn take_keys(&self, tx: &Tx<'_>, ended: &HashMap<JobId, Ended>) -> Result<HashSet<JobId>, Trouble> {
        let mut wanted = BTreeMap::new();
        for id in &self.0 {
            if let Some(key) = ended.get(id).and_then(Ended::wants) {
                wanted.entry(key).or_insert(*id);
            }
        }
        if wanted.is_empty() {
            return Ok(HashSet::new());
        }
        let queues: Vec<i32> = wanted.keys().map(|(queue, _)| *queue).collect();
        let keys: Vec<&str> = wanted.keys().map(|(_, key)| *key).collect();
        let jobs: Vec<_> = wanted.values().map(|id| Id(*id)).collect();
        tx.execute(TAKE_KEYS, &[&queues, &keys, &jobs]).await?;
        tx.query(OWNERS, &[&queues, &keys]).await?.iter().map(|row| row::job_id(row, 0)).collect()
    }

    /// Adds the answers for jobs that have not ended.
    async fn look_elsewhere(
        &self,
        tx: &Tx<'_>,
        answers: &mut HashMap<JobId, Redriven>,
    ) -> Result<(), Trouble> {
        let elsewhere: Vec<_> =
            self.0.iter().filter(|id| !answers.contains_key(id)).map(|id| Id(*id)).collect();
        if elsewhere.is_empty() {
            return Ok(());
        }
        for row in tx.query(ELSEWHERE, &[&elsewhere]).await? {
            let state = row::state(&row, 1)?;
            if state.is_terminal() {
                return Err(Trouble::Again("a job ended while it was to be offered again"));
            }
            answers.insert(row::job_id(&row, 0)?, Redriven::NotEnded(state));
        }
        Ok(())
    }
}
