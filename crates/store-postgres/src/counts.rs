//! How many jobs each queue has in each state.
//!
//! Each transaction appends what it changed, one row for each queue, so that nobody waits for anybody. Now and then the
//! rows are added up into one for each queue.

use model::State;

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;

const MOVE: &str = "
    INSERT INTO tenure.counts (queue, scheduled, available, running, completed, cancelled, dead)
    SELECT * FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                         $7::bigint[])";

/// Only one at a time: a second one would wait for the rows of the first, to find them gone.
const FOLD: &str = "
    WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(7453010000000002) AS yes),
    changes AS (
        DELETE FROM tenure.counts WHERE (SELECT yes FROM alone)
        RETURNING queue, scheduled, available, running, completed, cancelled, dead)
    INSERT INTO tenure.counts (queue, scheduled, available, running, completed, cancelled, dead)
    SELECT queue, sum(scheduled), sum(available), sum(running), sum(completed), sum(cancelled), sum(dead)
    FROM changes GROUP BY queue";

pub(crate) const STATEMENTS: &[&str] = &[MOVE, FOLD];

/// The moves of one transaction.
#[derive(Default)]
pub(crate) struct Moves {
    /// By queue number. Few queues move in one transaction, and mostly the one that moved last.
    by_queue: Vec<(i32, [i64; 6])>,
}

impl Moves {
    /// A job changed its state.
    pub(crate) fn shift(&mut self, queue: i32, from: State, to: State) {
        let counts = self.of(queue);
        counts[from as usize] -= 1;
        counts[to as usize] += 1;
    }

    /// This many jobs were removed.
    pub(crate) fn leave(&mut self, queue: i32, from: State, jobs: i64) {
        self.of(queue)[from as usize] -= jobs;
    }

    /// Writes the moves into the transaction they belong to.
    pub(crate) async fn write(self, tx: &Tx<'_>) -> Result<(), Trouble> {
        let moved: Vec<_> =
            self.by_queue.into_iter().filter(|(_, counts)| counts.iter().any(|count| *count != 0)).collect();
        if moved.is_empty() {
            return Ok(());
        }
        let queues: Vec<i32> = moved.iter().map(|(queue, _)| *queue).collect();
        let of =
            |state: State| -> Vec<i64> { moved.iter().map(|(_, counts)| counts[state as usize]).collect() };
        let [scheduled, available, running, completed, cancelled, dead] = State::ALL.map(of);
        tx.execute(MOVE, &[&queues, &scheduled, &available, &running, &completed, &cancelled, &dead]).await?;
        Ok(())
    }

    fn of(&mut self, queue: i32) -> &mut [i64; 6] {
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

/// Adds up what was appended, unless someone else is at it.
pub(crate) struct Fold;

impl Verb for Fold {
    type Answer = ();

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<(), Trouble> {
        tx.execute(FOLD, &[]).await?;
        Ok(())
    }
}
