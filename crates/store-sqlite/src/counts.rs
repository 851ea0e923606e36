//! How many jobs each queue has in each state: counted as they move, written once per transaction.

use model::State;
use rusqlite::params;

use crate::db::Db;
use crate::error::Trouble;

const MOVE: &str = "
    UPDATE queues
    SET scheduled = scheduled + ?2, available = available + ?3, running = running + ?4,
        completed = completed + ?5, cancelled = cancelled + ?6, dead = dead + ?7
    WHERE no = ?1";

pub(crate) const STATEMENTS: &[&str] = &[MOVE];

/// The moves of one transaction.
#[derive(Default)]
pub(crate) struct Moves {
    /// By queue number. Few queues move in one transaction, and mostly the one that moved last.
    by_queue: Vec<(i64, [i64; 6])>,
}

impl Moves {
    /// A job came into the queue.
    pub(crate) fn enter(&mut self, queue: i64, to: State) {
        self.of(queue)[to as usize] += 1;
    }

    /// A job changed its state.
    pub(crate) fn shift(&mut self, queue: i64, from: State, to: State) {
        let counts = self.of(queue);
        counts[from as usize] -= 1;
        counts[to as usize] += 1;
    }

    /// A job was removed.
    pub(crate) fn leave(&mut self, queue: i64, from: State) {
        self.of(queue)[from as usize] -= 1;
    }

    /// Writes the moves into the transaction they belong to.
    pub(crate) fn write(&mut self, db: &Db) -> Result<(), Trouble> {
        let mut update = db.prepare(MOVE)?;
        for (queue, [scheduled, available, running, completed, cancelled, dead]) in self.by_queue.drain(..) {
            update.execute(params![queue, scheduled, available, running, completed, cancelled, dead])?;
        }
        Ok(())
    }

    fn of(&mut self, queue: i64) -> &mut [i64; 6] {
        let place = match self.by_queue.iter().rposition(|(no, _)| *no == queue) {
            Some(place) => place,
            None => {
                self.by_queue.push((queue, [0; 6]));
                self.by_queue.len() - 1
            }
        };
        &mut self.by_queue[place].1
    }
}
