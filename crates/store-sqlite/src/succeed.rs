//! How a worker goes on under a new key.

use std::collections::HashSet;
use std::fmt::Write;

use model::{Fence, Hold, HolderEnd, WorkerKey};
use rusqlite::params;

use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

/// Both are enlisted: among those who live, only they are in a registry. ?1 former, ?2 successor, ?3 wall clock, ?4 how it
/// ended.
const END_FORMER: &str = "
    UPDATE holders SET retired_at = ?3, ended = ?4
    WHERE no = ?1 AND retired_at IS NULL AND ?1 <> ?2
      AND EXISTS (
        SELECT 1 FROM holders s
        WHERE s.no = ?2 AND s.registry = holders.registry AND s.retired_at IS NULL)";

/// ?1 the holds, ?2 former, ?3 successor.
const MOVE: &str = "
    UPDATE jobs SET holder = ?3, adopted = 0
    WHERE no IN (
        SELECT j.no FROM json_each(?1) named CROSS JOIN jobs j ON j.id = unhex(named.value ->> 0)
        WHERE j.state = 2 AND j.holder = ?2 AND j.fence = named.value ->> 1)";

/// Asked of the rows, so that a repeat answers as the first time. ?1 the holds, ?2 former, ?3 successor, ?4 how the
/// former ended.
const MOVED: &str = "
    SELECT j.id, j.fence FROM json_each(?1) named CROSS JOIN jobs j ON j.id = unhex(named.value ->> 0)
    WHERE j.state = 2 AND j.holder = ?3
      AND EXISTS (SELECT 1 FROM holders h WHERE h.no = ?2 AND h.ended = ?4)";

pub(crate) const STATEMENTS: &[&str] = &[END_FORMER, MOVE, MOVED];

/// See [`store::JobStore::succeed`].
pub(crate) struct Succeed {
    pub(crate) former: WorkerKey,
    pub(crate) successor: WorkerKey,
    pub(crate) holds: Vec<Hold>,
}

impl Verb for Succeed {
    type Answer = Vec<bool>;

    fn jobs(&self) -> usize {
        self.holds.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<bool>, Trouble> {
        let (db, now) = (tx.db, tx.now.wall.as_millis());
        let end = HolderEnd::Succeeded as u8;
        let former = tx.books.holder_no(db, &self.former)?;
        let successor = tx.books.holder_no(db, &self.successor)?;
        let named = json(&self.holds);
        if db.prepare(END_FORMER)?.execute(params![former, successor, now, end])? == 1 {
            db.prepare(MOVE)?.execute(params![named, former, successor])?;
        }
        let mut moved = HashSet::new();
        let mut select = db.prepare(MOVED)?;
        let mut rows = select.query(params![named, former, successor, end])?;
        while let Some(row) = rows.next()? {
            moved.insert(Hold { job: row::job_id(row, 0)?, fence: Fence::new(row.get(1)?) });
        }
        Ok(self.holds.iter().map(|hold| moved.contains(hold)).collect())
    }
}

/// The holds as `[["id in hex", fence], …]`.
fn json(holds: &[Hold]) -> String {
    let mut text = String::from("[");
    for hold in holds {
        let comma = if text.len() > 1 { "," } else { "" };
        let id = hold.job.to_u128();
        write!(text, "{comma}[\"{id:032x}\",{}]", hold.fence).expect("writing to a string does not fail");
    }
    text.push(']');
    text
}
