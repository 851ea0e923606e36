//! How many jobs each queue has in each state.
//!
//! Each transaction appends what it changed, one row for each queue, so that nobody waits for anybody. Now and then the
//! rows are added up into one for each queue, a bounded number in one transaction however many there are.

use model::State;

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;

const MOVE: &str = "
    INSERT INTO tenure.counts (queue, scheduled, available, running, completed, cancelled, dead)
    SELECT * FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                         $7::bigint[])";

/// $1 how many rows. Only one at a time: a second one would wait for the rows of the first, to find them gone. What one turn
/// leaves of each queue is folded again by the next, so a turn takes several rows for each queue. Answers whether it took all
/// it may, so that there may be more.
const FOLD: &str = "
    WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(7453010000000002) AS yes),
    turn AS MATERIALIZED (SELECT greatest($1, 8 * count(*)) AS rows FROM tenure.queues),
    chunk AS MATERIALIZED (
        SELECT ctid AS place FROM tenure.counts WHERE (SELECT yes FROM alone) LIMIT (SELECT rows FROM turn)),
    changes AS (
        DELETE FROM tenure.counts WHERE ctid = ANY (ARRAY(SELECT place FROM chunk))
        RETURNING queue, scheduled, available, running, completed, cancelled, dead),
    sums AS (
        INSERT INTO tenure.counts (queue, scheduled, available, running, completed, cancelled, dead)
        SELECT queue, sum(scheduled), sum(available), sum(running), sum(completed), sum(cancelled), sum(dead)
        FROM changes WHERE queue <> 0 GROUP BY queue)
    SELECT (SELECT count(*) FROM chunk) >= (SELECT rows FROM turn)";

/// Rows that one turn takes, at least.
const FOLDED_AT_ONCE: i64 = 50_000;

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

/// Adds up some of what was appended, unless someone else is at it. Answers whether there may be more.
pub(crate) struct Fold;

impl Verb for Fold {
    type Answer = bool;
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<bool, Trouble> {
        Ok(tx.query_one(FOLD, &[&FOLDED_AT_ONCE]).await?.try_get(0)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pg_cluster::Cluster;

    use super::*;
    use crate::db::{Mutations, Shared};
    use crate::lane::Lane;
    use crate::link::Link;
    use crate::open::{Connector, Habits};
    use crate::queues::QueueNames;
    use crate::time::StoreClock;

    #[tokio::test]
    async fn counts_are_folded_in_turns_and_add_up_to_the_same() {
        let cluster = Cluster::shared();
        let url = cluster.fresh_database();
        crate::migrate(&url, false).await.unwrap();
        let connector = Arc::new(Connector::open(&url).unwrap());
        let client = connector.connect_plain().await.unwrap();
        let fill = "
            INSERT INTO tenure.queues (name) SELECT 'q' || n FROM generate_series(1, 50) AS n;
            INSERT INTO tenure.counts (queue, available, dead)
            SELECT n % 50 + 1, 1, n FROM generate_series(1, 200000) AS n;
            INSERT INTO tenure.counts (queue) VALUES (0)";
        client.batch_execute(fill).await.unwrap();
        let counted = async || {
            let sums = "SELECT count(*), sum(available)::bigint, sum(dead)::bigint FROM tenure.counts";
            let row = client.query_one(sums, &[]).await.unwrap();
            (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2))
        };
        let (rows, available, dead) = counted().await;
        let shared = Shared {
            clock: StoreClock::Database,
            mutations: Mutations::default(),
            queues: QueueNames::default(),
        };
        let (lane, _task) = Lane::start(Link::new(connector, Arc::new(shared), Habits::USUAL, None));
        let (mut turns, mut before) = (0, rows);
        loop {
            let is_more = lane.run(Fold).await.unwrap();
            let (rows, available_now, dead_now) = counted().await;
            assert_eq!((available_now, dead_now), (available, dead), "folding changes no sum");
            assert!(before - rows <= FOLDED_AT_ONCE, "one turn is short, whatever there is");
            (turns, before) = (turns + 1, rows);
            if !is_more {
                break;
            }
        }
        assert_eq!(
            (turns, before),
            (5, 50),
            "one row for each queue, and none for what proves that we can write"
        );
    }
}
