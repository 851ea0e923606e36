//! Proving that an enqueue would be taken now: one is made, with the very statements of `enqueue`, and taken back in the same
//! transaction, so that nobody ever sees it. Its commit is a real one: the log must grow by about a hundred kilobytes and reach
//! the disk.

use bytes::Bytes;
use model::{JobId, Kind, NewJob, QueueName, State};
use rusqlite::params;

use crate::blob;
use crate::enqueue::{self, Place};
use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

/// No queue has this number, so nothing that looks for jobs of a queue finds the probe's.
const NO_QUEUE: i64 = 0;

/// What both the job and the blob of the probe carry. A disk that takes one more page is full all the same, so room for a modest
/// batch is proved.
const PROBE_BYTES: usize = 64 << 10;

const TAKE_BACK: &str = "DELETE FROM jobs WHERE id = ?1 AND queue = ?2";

const FORGET: &str = "DELETE FROM requests WHERE id = ?1";

/// What was taken back leaves pages that SQLite need not write. These it must: they stay. Blob 0 belongs to no job.
const WRITE: &str = "INSERT OR REPLACE INTO blobs (no, bytes) VALUES (0, zeroblob(?1))";

pub(crate) const STATEMENTS: &[&str] = &[TAKE_BACK, FORGET, WRITE];

/// See [`store::JobStore::check`].
pub(crate) struct Check;

impl Verb for Check {
    type Answer = ();

    fn run(&self, tx: &mut Tx<'_>) -> Result<(), Trouble> {
        let (db, now) = (tx.db, tx.now);
        // Beside the newest jobs, where an enqueue writes too. No client makes such an id: its random part is all ones.
        let id = JobId::v7(now.wall, [0xff; 10]);
        let (queue, kind) = (row::valid(QueueName::new("probe"))?, row::valid(Kind::new("probe"))?);
        let job = NewJob::new(id, queue, kind, Bytes::from(vec![0; PROBE_BYTES]));
        let place = Place { queue: NO_QUEUE, max_attempts: 1, run_at: now.wall, state: State::Available };
        let payload = enqueue::insert(db, &mut enqueue::inserting(db)?, now, &job, place)?;
        let request = format!("probe {id}");
        enqueue::remember(db, now, &request, &[])?;
        db.prepare(FORGET)?.execute([&request])?;
        if let Some(payload) = payload {
            db.prepare(TAKE_BACK)?.execute(params![id.to_bytes(), NO_QUEUE])?;
            blob::take_back(db, payload)?;
        }
        db.prepare(WRITE)?.execute([PROBE_BYTES as i64])?;
        Ok(())
    }
}
