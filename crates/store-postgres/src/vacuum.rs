//! Cleaning up behind the jobs: the store vacuums its table itself, as soon as there is much to clean up.
//!
//! Each job that runs leaves two dead rows, and until they are removed every claim walks past those of all jobs that were
//! claimed before it: a few nanoseconds for each, which after millions of jobs are longer than all else that a claim does.
//! The database looks for tables to vacuum once a minute, and by then there are millions. Done at every hundred thousand it
//! takes a tenth of a second, and the room is used again before the table grows.
//!
//! It has a connection of its own for as long as it takes, waits for nobody, and nobody waits for it. If several servers
//! find that it is time, one does it and the others go on.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client};

use crate::db::Tx;
use crate::error::{self, Trouble};
use crate::lane::{Lane, Verb};
use crate::link::{ANSWER_WITHIN, jittered};
use crate::open::{Connector, Driver};

/// How many jobs this store has ended before it asks for dead rows again. Other stores ask for theirs.
const LOOK_AFTER_JOBS: u64 = 10_000;
/// How often it asks, at most: the database itself counts no faster.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Fewer dead rows than this are not worth the work.
const DEAD_ROWS_MIN: u64 = 100_000;
/// Nor is less than this part of the rows that stay, since their entries in the indexes are all looked at.
const PART_OF_ROWS: u64 = 5;
/// How long an answer is waited for. After it the database is left alone with what it does.
const VACUUM_WITHIN: Duration = Duration::from_secs(600);

/// What the database believes is in the table; both are 0 if it keeps no statistics.
const COUNT_ROWS: &str = "
    SELECT pg_stat_get_live_tuples('tenure.jobs'::regclass), pg_stat_get_dead_tuples('tenure.jobs'::regclass)";

/// A role may be given a limit, which would always end it half-way.
const SETTINGS: &str = "SET statement_timeout = 0; SET client_min_messages = 'warning'";

/// Always with its indexes, since they are what claims walk through; and no page is given back, which would need all others
/// to wait, and the table grows again at once.
const VACUUM: &str = "VACUUM (SKIP_LOCKED, INDEX_CLEANUP on, TRUNCATE off, PARALLEL 0) tenure.jobs";

pub(crate) const STATEMENTS: &[&str] = &[COUNT_ROWS];

/// Told after each time that the jobs' table was vacuumed by this store: how long it took.
pub type OnVacuum = Arc<dyn Fn(Duration) + Send + Sync>;

/// How many rows are in the table of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    live: u64,
    dead: u64,
}

/// Counts what leaves dead rows behind, so that nobody asks for them while there can be none.
#[derive(Debug, Default)]
pub(crate) struct Litter {
    jobs: AtomicU64,
    is_much: Notify,
}

impl Litter {
    /// So many jobs have ended.
    pub(crate) fn left_by(&self, jobs: usize) {
        let before = self.jobs.fetch_add(jobs as u64, Ordering::Relaxed);
        if before / LOOK_AFTER_JOBS != (before + jobs as u64) / LOOK_AFTER_JOBS {
            self.is_much.notify_one();
        }
    }
}

/// Decides when it is time.
#[derive(Debug, Default)]
struct Pace {
    /// Dead rows that the last time has left: somebody still sees them, or somebody else was at it. Trying again at once
    /// would leave the same.
    left: u64,
}

impl Pace {
    /// Whether so much has come since the last time that it is worth the work. What was left counts as what stays: while a
    /// transaction of somebody's keeps all dead rows from being removed, the pauses grow with them.
    fn is_due(&mut self, rows: Rows) -> bool {
        self.left = self.left.min(rows.dead);
        rows.dead - self.left >= DEAD_ROWS_MIN.max((rows.live + self.left) / PART_OF_ROWS)
    }

    /// It was tried, and this is there now.
    fn tried(&mut self, rows: Rows) {
        self.left = rows.dead;
    }
}

/// Asks how many rows there are.
struct CountRows;

impl Verb for CountRows {
    type Answer = Rows;
    const READS: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Rows, Trouble> {
        let row = tx.query_one(COUNT_ROWS, &[]).await?;
        let count = |place| Ok::<_, Trouble>(row.try_get::<_, i64>(place)?.max(0) as u64);
        Ok(Rows { live: count(0)?, dead: count(1)? })
    }
}

/// What came of trying.
#[derive(Debug, PartialEq, Eq)]
enum Tried {
    Done,
    /// Somebody else is just doing it, or has locked the table.
    Busy,
    /// The database has left it undone, or has something to say about it.
    Warned(String),
}

/// Vacuums whenever it is time, for ever. What fails is tried again when next there is much to do.
pub(crate) async fn keep_vacuuming(
    connector: Arc<Connector>,
    read: Lane,
    litter: Arc<Litter>,
    on_vacuum: Option<OnVacuum>,
) {
    let mut pace = Pace::default();
    let mut said = String::new();
    // Whoever was here before us may have left something.
    litter.is_much.notify_one();
    loop {
        litter.is_much.notified().await;
        sleep(jittered(LOOK_EVERY)).await;
        // If it fails the lane has said so.
        let Ok(rows) = read.run(CountRows).await else { continue };
        if !pace.is_due(rows) {
            continue;
        }
        let begun = Instant::now();
        let warning = match vacuum(&connector).await {
            Ok(Tried::Done) => {
                let took = begun.elapsed();
                tracing::debug!(dead = rows.dead, ?took, "vacuumed the jobs");
                if let Some(on_vacuum) = &on_vacuum {
                    on_vacuum(took);
                }
                None
            }
            Ok(Tried::Busy) => None,
            Ok(Tried::Warned(warning)) => Some(warning),
            Err(reason) => Some(reason),
        };
        // The same is said once.
        if let Some(warning) = warning.filter(|warning| *warning != said) {
            tracing::warn!(reason = %warning, "cannot vacuum tenure.jobs; claims get slower until the database does it");
            said = warning;
        }
        if let Ok(rows) = read.run(CountRows).await {
            pace.tried(rows);
        }
    }
}

/// Vacuums on a connection of its own, or says why not.
async fn vacuum(connector: &Connector) -> Result<Tried, String> {
    let (client, mut driver) = connector.reach().await?;
    timeout(ANSWER_WITHIN, run(&client, &mut driver, SETTINGS)).await.map_err(|_| late(ANSWER_WITHIN))??;
    timeout(VACUUM_WITHIN, run(&client, &mut driver, VACUUM)).await.map_err(|_| late(VACUUM_WITHIN))?
}

fn late(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

/// Runs a statement and hears what the database says about it.
async fn run(client: &Client, driver: &mut Driver, sql: &str) -> Result<Tried, String> {
    let mut tried = Tried::Done;
    let mut running = pin!(client.batch_execute(sql));
    loop {
        tokio::select! {
            // What is said comes before the end: it is heard first.
            biased;
            message = poll_fn(|cx| driver.poll_message(cx)) => match message {
                Some(Ok(AsyncMessage::Notice(notice))) if *notice.code() == SqlState::LOCK_NOT_AVAILABLE => {
                    tried = Tried::Busy;
                }
                Some(Ok(AsyncMessage::Notice(notice))) => tried = Tried::Warned(notice.message().to_owned()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error::text(&error)),
                None => return Err("the connection was closed".to_owned()),
            },
            done = &mut running => return done.map(|()| tried).map_err(|error| error::text(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use pg_cluster::Cluster;

    use super::*;

    fn check(left: u64, live: u64, dead: u64) -> bool {
        Pace { left }.is_due(Rows { live, dead })
    }

    #[test]
    fn it_is_time_when_much_is_dead_and_much_of_what_is_there() {
        assert!(!check(0, 0, 99_999));
        assert!(check(0, 0, 100_000));
        assert!(check(0, 500_000, 100_000));
        assert!(!check(0, 10_000_000, 1_999_999), "all the others would be looked at for it");
        assert!(check(0, 10_000_000, 2_000_000));
    }

    #[test]
    fn nobody_looks_before_much_can_be_there() {
        let litter = Litter::default();
        let is_much = || litter.is_much.notified().now_or_never().is_some();
        litter.left_by(LOOK_AFTER_JOBS as usize - 1);
        assert!(!is_much());
        litter.left_by(1);
        assert!(is_much());
        litter.left_by(1);
        assert!(!is_much(), "it was looked at");
        litter.left_by(LOOK_AFTER_JOBS as usize);
        assert!(is_much());
    }

    #[test]
    fn what_could_not_be_removed_is_not_tried_for_again_and_again() {
        assert!(!check(150_000, 0, 249_999));
        assert!(check(150_000, 0, 250_000));
        let (mut tries, mut pace) = (0, Pace::default());
        // A transaction of somebody's stays open, and nothing can be removed.
        for dead in (0..10_000_000).step_by(100_000) {
            let rows = Rows { live: 0, dead };
            if pace.is_due(rows) {
                pace.tried(rows);
                tries += 1;
            }
        }
        assert!((10..25).contains(&tries), "{tries} times");
        // It has ended, and the database was quicker than we.
        assert!(!pace.is_due(Rows { live: 0, dead: 5_000 }));
        assert!(pace.is_due(Rows { live: 0, dead: 105_000 }));
    }

    #[tokio::test]
    async fn what_the_database_says_about_it_is_heard() {
        let cluster = Cluster::shared();
        let url = cluster.fresh_database();
        crate::migrate(&url, false).await.unwrap();
        let connector = Connector::open(&url).unwrap();
        let owner = connector.connect_plain().await.unwrap();
        let times = async || {
            let times = "SELECT pg_stat_get_vacuum_count('tenure.jobs'::regclass)";
            owner.query_one(times, &[]).await.unwrap().get::<_, i64>(0)
        };
        assert_eq!(vacuum(&connector).await, Ok(Tried::Done));
        assert_eq!(times().await, 1);

        owner.batch_execute("BEGIN; LOCK TABLE tenure.jobs IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
        assert_eq!(vacuum(&connector).await, Ok(Tried::Busy), "as while another one vacuums");
        owner.batch_execute("ROLLBACK").await.unwrap();

        let name = url.rsplit('/').next().unwrap();
        let role = "CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA tenure TO stranger";
        owner.batch_execute(role).await.unwrap();
        let stranger = cluster.socket_url(name).replace("//tenure@", "//stranger@");
        let refused = vacuum(&Connector::open(&stranger).unwrap()).await;
        assert!(matches!(&refused, Ok(Tried::Warned(why)) if why.contains("jobs")), "{refused:?}");
        assert_eq!(times().await, 1, "neither was");
    }
}
