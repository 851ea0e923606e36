//! Calling jobs off.

use std::collections::{BTreeSet, HashMap};

use model::{Fence, Hold, JobId, State, WorkerKey};
use store::Cancelled;

use crate::counts::Moves;
use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row::{self, Id};

/// Jobs that have not ended, locked in the order they are named in.
const LOOK: &str = "
    SELECT j.id, j.state, j.queue, j.fence, j.holder
    FROM unnest($1::uuid[]) AS named (id) JOIN tenure.jobs j ON j.id = ANY (ARRAY[named.id])
    FOR UPDATE OF j";

/// The states of jobs wherever they are, all at the same moment.
const ELSEWHERE: &str = "
    SELECT id, state FROM tenure.jobs WHERE id = ANY ($1)
    UNION ALL
    SELECT id, state FROM tenure.ended WHERE id = ANY ($1)";

const CANCEL_WAITING: &str = "
    WITH gone AS (
        DELETE FROM tenure.jobs WHERE id = ANY ($1) AND state IN (0, 1) RETURNING *
    ), freed AS (
        DELETE FROM tenure.unique_keys u USING gone
        WHERE u.queue = ANY (ARRAY[gone.queue]) AND u.unique_key = gone.unique_key
          AND u.job = gone.id AND NOT gone.unique_retained
    )
    INSERT INTO tenure.ended (id, fence, reported_fence, run_at, enqueued_at, started_at, finished_at, heartbeat_us,
        timeout_us, queue, attempt, max_attempts, lost, max_lost, state, priority, cancel_requested, unique_retained,
        unique_key, retry, kind, content_type, traceparent, last_error, progress, checkpoint, payload)
    SELECT id, fence, reported_fence, run_at, enqueued_at, started_at, WALL_NOW, heartbeat_us,
        timeout_us, queue, attempt, max_attempts, lost, max_lost, 4, priority, cancel_requested, unique_retained,
        unique_key, retry, kind, content_type, traceparent, last_error, progress, checkpoint, payload
    FROM gone";

const ASK_RUNNING: &str = "
    UPDATE tenure.jobs SET cancel_requested = true WHERE id = ANY ($1) AND state IS NOT DISTINCT FROM 2";

pub(crate) const STATEMENTS: &[&str] = &[LOOK, ELSEWHERE, CANCEL_WAITING, ASK_RUNNING];

/// See [`store::JobStore::cancel`].
pub(crate) struct Cancel(pub(crate) Vec<JobId>);

impl Verb for Cancel {
    type Answer = Vec<Cancelled>;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<Cancelled>, Trouble> {
        // In the order of ids, as everyone locks jobs; each once.
        let ids: BTreeSet<JobId> = self.0.iter().copied().collect();
        let ids: Vec<_> = ids.into_iter().map(Id).collect();
        let mut locked = Vec::new();
        let mut found = HashMap::new();
        let mut moves = Moves::default();
        for row in tx.query(LOOK, &[&ids]).await? {
            let (job, state) = (row::job_id(&row, 0)?, row::state(&row, 1)?);
            let answer = match row.try_get::<_, Option<&str>>(4)? {
                Some(holder) => Cancelled::Asked {
                    hold: Hold { job, fence: Fence::new(row.try_get(3)?) },
                    holder: row::valid(WorkerKey::new(holder))?,
                },
                None => {
                    moves.shift(row.try_get(2)?, state, State::Cancelled);
                    Cancelled::Now
                }
            };
            locked.push(Id(job));
            found.insert(job, answer);
        }
        // Only these: another may have been offered again meanwhile, and was not counted here.
        if !locked.is_empty() {
            tx.execute(CANCEL_WAITING, &[&locked]).await?;
            tx.execute(ASK_RUNNING, &[&locked]).await?;
            moves.write(tx).await?;
        }
        let elsewhere: Vec<_> =
            self.0.iter().filter(|id| !found.contains_key(id)).map(|id| Id(*id)).collect();
        if !elsewhere.is_empty() {
            for row in tx.query(ELSEWHERE, &[&elsewhere]).await? {
                let state = row::state(&row, 1)?;
                if !state.is_terminal() {
                    return Err(Trouble::Again("a job was offered again while it was called off"));
                }
                found.insert(row::job_id(&row, 0)?, Cancelled::AlreadyEnded(state));
            }
        }
        let answers = self.0.iter().map(|id| match found.get_mut(id) {
            Some(Cancelled::Now) => {
                // Named twice, it had ended the second time.
                found.insert(*id, Cancelled::AlreadyEnded(State::Cancelled));
                Cancelled::Now
            }
            Some(answer) => answer.clone(),
            None => Cancelled::Unknown,
        });
        Ok(answers.collect())
    }
}
