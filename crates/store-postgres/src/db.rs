//! A connection, its prepared statements, and the transaction that a verb runs in. All SQL of the verbs goes through
//! [`Tx`], so that time is filled in and the mutation check can rewrite it.
//!
//! Statements are planned when there may be nothing in the tables yet, and used when there is much. So that every row that
//! is named is looked up by its id even then, statements say `j.id = ANY (ARRAY[r.id])`, which unlike a plain `=` cannot
//! be turned round into a walk through the whole index, and `IS NOT DISTINCT FROM` for the other guards, which no index of
//! jobs in one state serves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future;
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::error::Trouble;
use crate::queues::QueueNames;
use crate::time::{self, Now, StoreClock};
use crate::{
    cancel, claim, complete, counts, enqueue, finish, probe, purge, queues, read, reap, redrive, registries,
    renew, search, succeed, vacuum, workers,
};

/// Every statement of a verb, or the parts of those that are put together.
const ALL_STATEMENTS: &[&[&str]] = &[
    cancel::STATEMENTS,
    claim::STATEMENTS,
    complete::STATEMENTS,
    counts::STATEMENTS,
    enqueue::STATEMENTS,
    finish::STATEMENTS,
    probe::STATEMENTS,
    purge::STATEMENTS,
    queues::STATEMENTS,
    read::STATEMENTS,
    reap::STATEMENTS,
    redrive::STATEMENTS,
    registries::STATEMENTS,
    renew::STATEMENTS,
    search::STATEMENTS,
    succeed::STATEMENTS,
    vacuum::STATEMENTS,
    workers::STATEMENTS,
];

/// What all connections of one store share.
pub(crate) struct Shared {
    pub(crate) clock: StoreClock,
    pub(crate) mutations: Mutations,
    pub(crate) queues: QueueNames,
}

/// One connection. Dropping it closes the connection, whatever is under way.
pub(crate) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    /// By the address of the text, which is as good as the text for constants, and quicker.
    statements: Mutex<HashMap<(usize, usize), Statement>>,
    shared: Arc<Shared>,
}

impl Session {
    /// Takes over a connection and the task that moves its bytes.
    pub(crate) fn new(client: Client, driver: JoinHandle<()>, shared: Arc<Shared>) -> Self {
        Session { client, driver, statements: Mutex::default(), shared }
    }

    /// Runs statements without parameters.
    pub(crate) async fn set(&self, sql: &str) -> Result<(), Trouble> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&mut self) {
        // The task was neither aborted nor can it panic in a way that matters: either way the connection is gone.
        let _ = (&mut self.driver).await;
    }

    /// Whether the connection is known to be lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed() || self.driver.is_finished()
    }

    /// A transaction that begins with its first statement.
    pub(crate) fn transaction(&self) -> Tx<'_> {
        self.tx(UNTOUCHED, BEGIN)
    }

    /// A transaction that hardly waits for what others have locked.
    pub(crate) fn hurried(&self) -> Tx<'_> {
        self.tx(UNTOUCHED, BEGIN_HURRIED)
    }

    /// Statements that are each a transaction of their own.
    pub(crate) fn separate(&self) -> Tx<'_> {
        self.tx(SEPARATE, BEGIN)
    }

    fn tx(&self, state: u8, begin: &'static str) -> Tx<'_> {
        Tx {
            session: self,
            begin,
            now: self.shared.clock.now(),
            state: AtomicU8::new(state),
            created_queues: AtomicBool::new(false),
        }
    }

    /// The statement, prepared once per connection. With a given clock the text differs each time that it tells time.
    async fn prepare(&self, sql: &'static str, now: Option<Now>) -> Result<Statement, Trouble> {
        let key = (sql.as_ptr().addr(), sql.len());
        let kept = now.is_none() || !time::tells_time(sql);
        if kept && let Some(statement) = self.kept().get(&key) {
            return Ok(statement.clone());
        }
        let text = time::fill_in(&self.shared.mutations.apply(sql), now);
        let statement = self.client.prepare(&text).await?;
        if kept {
            self.kept().insert(key, statement.clone());
        }
        Ok(statement)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<(usize, usize), Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

const BEGIN: &str = "BEGIN";
const BEGIN_HURRIED: &str = "BEGIN; SET LOCAL lock_timeout = 100";

/// No statement was sent yet.
const UNTOUCHED: u8 = 0;
/// Begun, not ended.
const OPEN: u8 = 1;
/// Committed, or rolled back because a statement failed.
const ENDED: u8 = 2;
/// Each statement is a transaction of its own.
const SEPARATE: u8 = 3;

/// A transaction under way.
pub(crate) struct Tx<'a> {
    session: &'a Session,
    begin: &'static str,
    now: Option<Now>,
    state: AtomicU8,
    created_queues: AtomicBool,
}

/// What a statement is given.
pub(crate) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

impl Tx<'_> {
    /// All rows of the answer.
    pub(crate) async fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Trouble> {
        let statement = self.session.prepare(sql, self.now).await?;
        let client = &self.session.client;
        if !self.begins() {
            return Ok(client.query(&statement, params).await?);
        }
        // Both leave together: no answer is needed in between.
        let (begun, rows) =
            future::join(client.batch_execute(self.begin), client.query(&statement, params)).await;
        begun?;
        Ok(rows?)
    }

    /// The only row of the answer.
    pub(crate) async fn query_one(&self, sql: &'static str, params: Params<'_>) -> Result<Row, Trouble> {
        let row = self.query_opt(sql, params).await?;
        row.ok_or_else(|| Trouble::Damaged(format!("a statement answered nothing: {sql}")))
    }

    /// The only row of the answer, if it has one.
    pub(crate) async fn query_opt(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Option<Row>, Trouble> {
        let mut rows = self.query(sql, params).await?;
        if rows.len() > 1 {
            return Err(Trouble::Damaged(format!("a statement answered several rows: {sql}")));
        }
        Ok(rows.pop())
    }

    /// How many rows were touched.
    pub(crate) async fn execute(&self, sql: &'static str, params: Params<'_>) -> Result<u64, Trouble> {
        let statement = self.session.prepare(sql, self.now).await?;
        let client = &self.session.client;
        if !self.begins() {
            return Ok(client.execute(&statement, params).await?);
        }
        let (begun, touched) =
            future::join(client.batch_execute(self.begin), client.execute(&statement, params)).await;
        begun?;
        Ok(touched?)
    }

    /// The last statements of the transaction, sent together with its commit. If one fails, all is rolled back; also if one
    /// cannot even be sent, which the database would never know.
    pub(crate) async fn query_all_and_commit(
        &self,
        statements: &[(&'static str, Params<'_>)],
    ) -> Result<Vec<Vec<Row>>, Trouble> {
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, _) in statements {
            prepared.push(self.session.prepare(sql, self.now).await?);
        }
        let client = &self.session.client;
        let begins = self.begins();
        let begin = async { if begins { client.batch_execute(self.begin).await } else { Ok(()) } };
        let all_sent = AtomicBool::new(true);
        let queries = prepared.iter().zip(statements).map(|(statement, (_, params))| async {
            let rows = client.query(statement, params).await;
            if rows.as_ref().is_err_and(|error| error.as_db_error().is_none()) {
                all_sent.store(false, Ordering::Relaxed);
            }
            rows
        });
        // Each part is sent when it is first polled, in this order.
        let commit = async {
            if !all_sent.load(Ordering::Relaxed) {
                return Ok(false);
            }
            client.batch_execute("COMMIT").await.map(|()| true)
        };
        let (begun, rows, committed) = future::join3(begin, future::join_all(queries), commit).await;
        if !matches!(committed, Ok(false)) {
            // After a failure the commit was a rollback.
            self.state.store(ENDED, Ordering::Relaxed);
        }
        begun?;
        let rows = rows.into_iter().collect::<Result<_, _>>()?;
        committed?;
        Ok(rows)
    }

    /// What all verbs know about queues.
    pub(crate) fn queues(&self) -> &QueueNames {
        &self.session.shared.queues
    }

    /// Says that queues were created, so that what is read from now on may not be committed.
    pub(crate) fn note_created_queues(&self) {
        self.created_queues.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_created_queues(&self) -> bool {
        self.created_queues.load(Ordering::Relaxed)
    }

    /// Commits what is open.
    pub(crate) async fn commit(&self) -> Result<(), Trouble> {
        if self.state.load(Ordering::Relaxed) == OPEN {
            self.session.client.batch_execute("COMMIT").await?;
            self.state.store(ENDED, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Starts over, in a new transaction, after one that was rolled back.
    pub(crate) async fn restart(&self) -> Result<(), Trouble> {
        self.roll_back().await?;
        self.state.store(UNTOUCHED, Ordering::Relaxed);
        self.created_queues.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Rolls back what is open.
    pub(crate) async fn roll_back(&self) -> Result<(), Trouble> {
        if self.state.load(Ordering::Relaxed) == OPEN {
            self.session.client.batch_execute("ROLLBACK").await?;
            self.state.store(ENDED, Ordering::Relaxed);
        }
        Ok(())
    }

    /// True for the first statement of a transaction.
    fn begins(&self) -> bool {
        let before = self.state.compare_exchange(UNTOUCHED, OPEN, Ordering::Relaxed, Ordering::Relaxed);
        assert_ne!(before, Err(ENDED), "a transaction that has ended is not used again");
        before.is_ok()
    }
}

/// Replacements in the text of statements. Empty outside the mutation check.
#[derive(Clone, Default)]
pub(crate) struct Mutations(Vec<(String, String)>);

impl Mutations {
    /// Panics if a fragment occurs in no statement: the mutation would then prove nothing.
    pub(crate) fn new(replacements: &[(&str, &str)]) -> Self {
        for (from, _) in replacements {
            let occurs = ALL_STATEMENTS.iter().flat_map(|file| file.iter()).any(|sql| sql.contains(from));
            assert!(occurs, "no statement contains {from:?}");
        }
        Mutations(replacements.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect())
    }

    fn apply(&self, sql: &str) -> String {
        self.0.iter().fold(sql.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

#[cfg(test)]
mod tests {
    use pg_cluster::Cluster;
    use tokio_postgres::SimpleQueryMessage;

    use super::*;
    use crate::open::{Connector, Habits};
    use crate::row;

    /// The plan, line by line, that all executions of a statement share.
    async fn plan(client: &Client, sql: &str) -> Vec<String> {
        let text = time::fill_in(sql, None);
        let parameters = client.prepare(&text).await.unwrap_or_else(|error| panic!("{error:?}: {sql}"));
        let nulls = vec!["NULL"; parameters.params().len()].join(", ");
        let nulls = if nulls.is_empty() { nulls } else { format!("({nulls})") };
        let explain = format!("PREPARE it AS {text}; EXPLAIN EXECUTE it{nulls}; DEALLOCATE it");
        let answer = client.simple_query(&explain).await.unwrap_or_else(|error| panic!("{error:?}: {sql}"));
        let lines = answer.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        lines.collect()
    }

    /// Steps that go through a whole table or index, out of order, or look for an id among the jobs in one state.
    fn scans(plan: &[String]) -> Vec<&String> {
        let mut table = "";
        let mut scans = Vec::new();
        for (place, line) in plan.iter().enumerate() {
            let scanned = line.split_once("Scan").and_then(|(_, rest)| rest.split_once(" on "));
            if let Some((_, rest)) = scanned {
                table = rest.split(' ').next().unwrap_or_default();
            }
            let next = plan.get(place + 1).map_or("", String::as_str);
            // A bitmap is gone through in the order of the table, and rows would be locked in that order.
            let is_whole = line.contains("Seq Scan")
                || line.contains("Bitmap Heap Scan")
                || (line.contains("_pkey") && !next.contains("Index Cond:"));
            let is_filter = line.trim_start().starts_with("Filter:");
            let is_sought =
                table != "unique_keys" && is_filter && (line.contains("id = ") || line.contains("= id"));
            if ["jobs", "ended", "unique_keys"].contains(&table) && (is_whole || is_sought) {
                scans.push(line);
            }
        }
        scans
    }

    async fn session(cluster: &Cluster) -> Session {
        let url = cluster.fresh_database();
        crate::migrate(&url, false).await.unwrap();
        let shared = Arc::new(Shared {
            clock: StoreClock::Database,
            mutations: Mutations::default(),
            queues: QueueNames::default(),
        });
        Connector::open(&url).unwrap().connect(&shared, Habits::USUAL).await.unwrap()
    }

    #[tokio::test]
    async fn nothing_is_committed_if_one_statement_could_not_be_sent() {
        let cluster = Cluster::shared();
        let session = session(&cluster).await;
        let add = "INSERT INTO tenure.counts (queue) VALUES ($1)";
        let tx = session.transaction();
        let done = tx.query_all_and_commit(&[(add, &[&1i32]), (add, &[&"no number"]), (add, &[&2i32])]).await;
        assert!(done.is_err());
        tx.roll_back().await.unwrap();
        let count = "SELECT count(*) FROM tenure.counts";
        let row = session.separate().query_one(count, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 0);
        session.transaction().query_all_and_commit(&[(add, &[&1i32])]).await.unwrap();
        let row = session.separate().query_one(count, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 1, "the connection is as good as before");
    }

    #[tokio::test]
    async fn no_plan_goes_through_a_table_whatever_is_in_it_at_the_time() {
        let cluster = Cluster::shared();
        let session = session(&cluster).await;
        // The search lane plans its statements anew each time, and may go through tables.
        let files = ALL_STATEMENTS.iter().filter(|file| file.as_ptr() != search::STATEMENTS.as_ptr());
        let statements: Vec<String> =
            files.flat_map(|file| file.iter()).map(|sql| row::with_columns(sql)).collect();
        let fill = "
            INSERT INTO tenure.jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload)
            SELECT gen_random_uuid(), n % 2, n % 3, 0, n, 5, 5, 0, 'k', '' FROM generate_series(1, 20000) AS n;
            INSERT INTO tenure.holders (key, nonce, registry, grant_us, name) VALUES ('w', 1, 1, 1, 'w');
            ANALYZE";
        let mut bad: Vec<String> = Vec::new();
        for filling in ["", fill, "DELETE FROM tenure.jobs; VACUUM ANALYZE"] {
            for sql in filling.split(';').filter(|sql| !sql.trim().is_empty()) {
                session.set(sql).await.unwrap();
            }
            for sql in &statements {
                let plan = plan(&session.client, sql).await;
                if !scans(&plan).is_empty() {
                    bad.push(format!("after {filling:?}:\n{}\n{sql}", plan.join("\n")));
                }
            }
        }
        assert!(bad.is_empty(), "{} plans:\n{}", bad.len(), bad.join("\n\n"));
    }
}
