//! Proving that an enqueue would be taken now: one is made, with the very statements of `enqueue` and on the same connection, and
//! taken back in the same transaction, so that nobody ever sees it. Its commit is a real one.
//!
//! So it waits for the same locks, needs room in the same tables, and fails with the same words.

use bytes::Bytes;
use model::{JobId, Kind, NewJob, QueueName, WallTime};

use crate::db::Tx;
use crate::enqueue::{self, NONE_ENDED, REMEMBER};
use crate::error::Trouble;
use crate::row::{self, Id};

/// No queue has this number: the job is in nobody's way, and the row of counts goes when the counts are folded.
const NO_QUEUE: i32 = 0;

/// Apart from the row, where large payloads go: room for a modest batch is proved, not only for a row that still fits somewhere.
const PROBE_BYTES: usize = 16 << 10;

const NOW: &str = "SELECT WALL_NOW";

const TAKE_BACK: &str = "
    WITH answer AS (DELETE FROM tenure.requests r WHERE r.id = ANY (ARRAY[$2::text]))
    DELETE FROM tenure.jobs j WHERE j.id = ANY (ARRAY[$1::uuid])";

pub(crate) const STATEMENTS: &[&str] = &[NOW, TAKE_BACK];

/// Enqueues a job that nobody sees.
pub(crate) async fn run(tx: &Tx<'_>) -> Result<(), Trouble> {
    // Beside the newest jobs, where an enqueue writes too. The bytes are random, or they would be packed into a few.
    let now: i64 = tx.query_one(NOW, &[]).await?.try_get(0)?;
    let id = JobId::v7(WallTime::from_millis(now), rand::random());
    let mut payload = vec![0; PROBE_BYTES];
    rand::fill(&mut payload[..]);
    let (queue, kind) = (row::valid(QueueName::new("probe"))?, row::valid(Kind::new("probe"))?);
    let job = NewJob::new(id, queue, kind, Bytes::from(payload));
    enqueue::insert(tx, &[(NO_QUEUE, &job)]).await?;
    let (id, request) = (Id(id), format!("probe {id}"));
    tx.query(NONE_ENDED, &[&vec![&id], &Some(&id), &Some(&id)]).await?;
    tx.execute(REMEMBER, &[&vec![request.as_str()], &vec![Vec::<u8>::new()]]).await?;
    tx.execute(TAKE_BACK, &[&id, &request]).await?;
    Ok(())
}
