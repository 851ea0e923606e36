//! Opening a store on a database: options, connections, and what every connection is set to.

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::Clock;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Connection, Socket};

use crate::db::{Session, Shared};
use crate::error::{self, OpenError};
use crate::tls::{MakeTls, TlsStream};
use crate::url::{DatabaseUrl, HostConfig, TlsMode};
use crate::vacuum::OnVacuum;

/// How long one attempt to reach the only host may take.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long one attempt may take while there are other hosts to try.
const CONNECT_TO_EACH_WITHIN: Duration = Duration::from_secs(2);
/// How long a connection may be silent before the system asks whether the other side is still there.
pub(crate) const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// How often it asks.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The first thing on every connection, whatever role, database and URL say. Else a function or table that somebody made in a schema
/// of the path would run in place of the one we mean, with our rights: `public.unnest(uuid[])` is a better match than what
/// PostgreSQL itself has (CVE-2018-1058).
const TRUST_NOBODYS_SCHEMA: &str = "SET search_path = pg_catalog, pg_temp";

/// What all our connections run with. What is acknowledged is on disk, whatever the server is set to. A transaction of ours
/// that hears nothing more from us (our machine froze) gives its locks back before another server wants them.
const SETTINGS: &str = "
    SET idle_in_transaction_session_timeout = '3s';
    SET default_transaction_isolation = 'read committed';
    SET client_min_messages = 'warning';
    SET jit = off;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';";

/// Statements are planned once and then used on tables of any size, so plans that are only good for small tables are ruled
/// out; and those that lock rows in another order than that of their ids.
const PLAN_ONCE: &str = "
    SET plan_cache_mode = 'force_generic_plan';
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_indexonlyscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;";

const PLAN_EACH_TIME: &str = "SET plan_cache_mode = 'force_custom_plan';";

/// When statements are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planning {
    /// Once, for tables of any size.
    Once,
    /// Each time, for what is asked and what is there.
    EachTime,
}

/// How a lane's connection is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Habits {
    pub(crate) planning: Planning,
    /// How long a transaction may take, from its first statement to its commit. After it the connection is given up: only
    /// so does a caller of a database that hangs get an answer.
    pub(crate) answer_within: Duration,
    /// How long a statement waits for what somebody else has locked: another server, which lets go in no time or is frozen,
    /// or an application's transaction, which may stay open for long.
    pub(crate) lock_within: Duration,
}

impl Habits {
    /// Longer than the database takes to find a deadlock, since that can be tried again at once.
    pub(crate) const USUAL: Habits = Habits {
        planning: Planning::Once,
        answer_within: crate::link::ANSWER_WITHIN,
        lock_within: Duration::from_millis(1_500),
    };
    /// For what may have to wait for an application's transaction, while many others wait behind it.
    pub(crate) const AMONG_APPLICATIONS: Habits =
        Habits { lock_within: Duration::from_millis(500), ..Habits::USUAL };
    /// For what is worth nothing if it comes late.
    pub(crate) const PROMPT: Habits = Habits { answer_within: Duration::from_secs(2), ..Habits::USUAL };
    /// For what is never the same.
    pub(crate) const SEARCHING: Habits = Habits { planning: Planning::EachTime, ..Habits::USUAL };

    fn settings(self) -> String {
        let planning = match self.planning {
            Planning::Once => PLAN_ONCE,
            Planning::EachTime => PLAN_EACH_TIME,
        };
        // A statement ends before we give up waiting for it.
        let statement = self.answer_within.mul_f64(0.9).as_millis();
        let lock = self.lock_within.as_millis();
        format!("SET statement_timeout = {statement}; SET lock_timeout = {lock};{SETTINGS}{planning}")
    }
}

/// Told after each commit: how long the transaction took and how many requests it carried.
pub type OnCommit = Arc<dyn Fn(Duration, usize) + Send + Sync>;

/// How to open the store.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Which database: `postgresql://user:password@host:port/database`, several hosts separated by commas, and
    /// parameters such as `?sslmode=verify-full&sslrootcert=FILE`. Of several hosts the one that accepts writes is used.
    pub url: String,
    /// Run the steps of the schema that are missing. Without it they are an error.
    pub migrate: bool,
    /// How long to keep trying to connect, if the database does not answer yet, before that is an error.
    pub patience: Duration,
    /// Told after each commit.
    pub on_commit: Option<OnCommit>,
    /// Told after each time that the jobs' table was vacuumed.
    pub on_vacuum: Option<OnVacuum>,
    /// Where time comes from, instead of from the database. For tests.
    #[doc(hidden)]
    pub clock: Option<Arc<dyn Clock>>,
}

impl PostgresOptions {
    /// This database, brought to the schema of this program.
    pub fn new(url: impl Into<String>) -> Self {
        PostgresOptions {
            url: url.into(),
            migrate: true,
            patience: Duration::ZERO,
            on_commit: None,
            on_vacuum: None,
            clock: None,
        }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the URL: it holds a password.
        f.debug_struct("PostgresOptions")
            .field("migrate", &self.migrate)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// The version of the database's server, as it writes it itself.
pub async fn server_version(url: &str) -> Result<String, OpenError> {
    let client = Connector::open(url)?.connect_plain().await?;
    let row = client.query_one("SELECT current_setting('server_version')", &[]).await;
    row.and_then(|row| row.try_get(0)).map_err(|error| refused(&error))
}

/// Makes connections that accept writes.
pub(crate) struct Connector {
    url: DatabaseUrl,
    tls: MakeTls,
    /// The place of the host that was reached last; it is tried first.
    last_reached: AtomicUsize,
}

/// The bytes of one connection under way.
pub(crate) type Driver = Connection<Socket, TlsStream<Socket>>;

impl Connector {
    /// Understands the URL and reads the certificates it names.
    pub(crate) fn open(url: &str) -> Result<Self, OpenError> {
        let url: DatabaseUrl = url.parse()?;
        let tls = MakeTls::new(url.tls, url.root_certificates.as_deref())?;
        Ok(Connector { url, tls, last_reached: AtomicUsize::new(0) })
    }

    /// A connection to the first host that accepts writes, or why none does. The host that was good last time comes first.
    pub(crate) async fn reach(&self) -> Result<(Client, Driver), String> {
        self.reach_within(CONNECT_WITHIN).await
    }

    async fn reach_within(&self, limit: Duration) -> Result<(Client, Driver), String> {
        let hosts = &self.url.hosts;
        let limit = if hosts.len() > 1 { limit.min(CONNECT_TO_EACH_WITHIN) } else { limit };
        let first = self.last_reached.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        for place in (first..hosts.len()).chain(0..first) {
            let host = &hosts[place];
            let reached = timeout(limit, self.reach_host(host)).await;
            match reached.unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))) {
                Ok(reached) => {
                    self.last_reached.store(place, Ordering::Relaxed);
                    return Ok(reached);
                }
                Err(reason) => reasons.push(format!("{}: {reason}", host.name)),
            }
        }
        Err(reasons.join("; "))
    }

    async fn reach_host(&self, host: &HostConfig) -> Result<(Client, Driver), String> {
        let mut config = host.config.clone();
        config.ssl_mode(match self.url.tls {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        });
        let reached = match config.connect(self.tls.clone()).await {
            // Preferred is not required: a server whose TLS does not work for us is used without.
            Err(error) if self.url.tls == TlsMode::Prefer && is_about_tls(&error) => {
                config.ssl_mode(SslMode::Disable);
                config.connect(self.tls.clone()).await
            }
            reached => reached,
        };
        let (client, mut driver) = reached.map_err(|error| describe(&error))?;
        let set = {
            let mut setting = pin!(client.batch_execute(TRUST_NOBODYS_SCHEMA));
            // The driver ends before its client only if the connection is lost.
            tokio::select! {
                biased;
                set = &mut setting => set,
                ended = &mut driver => match ended {
                    Err(error) => Err(error),
                    Ok(()) => setting.await,
                },
            }
        };
        set.map_err(|error| describe(&error))?;
        Ok((client, driver))
    }

    /// A connection for a lane, set as all of ours are.
    pub(crate) async fn connect(&self, shared: &Arc<Shared>, habits: Habits) -> Result<Session, String> {
        let limit = CONNECT_WITHIN.min(habits.answer_within);
        let (client, driver) = self.reach_within(limit).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(error = error::text(&error), "a connection to the database ended");
            }
        });
        let session = Session::new(client, driver, shared.clone());
        let settled = timeout(limit, session.set(&habits.settings())).await;
        settled.map_err(|_| format!("no answer within {limit:?}"))?.map_err(|trouble| trouble.to_string())?;
        shared.queues.forget();
        Ok(session)
    }

    /// A connection with nothing set but where names are looked for, for the schema and for questions.
    pub(crate) async fn connect_plain(&self) -> Result<Client, OpenError> {
        let (client, driver) = self.reach().await.map_err(OpenError::Unreachable)?;
        // Ends with its client.
        tokio::spawn(driver);
        Ok(client)
    }
}

/// What a refusal of the database means on opening.
pub(crate) fn refused(error: &tokio_postgres::Error) -> OpenError {
    OpenError::Refused(error::explain(error).unwrap_or_else(|| error::text(error)))
}

/// Why a host cannot be used, in words.
fn describe(error: &tokio_postgres::Error) -> String {
    use std::error::Error;
    if let Some(explained) = error::explain(error) {
        return explained;
    }
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        // The driver's way of saying that it asked and the server answered "read only".
        Some(io::ErrorKind::PermissionDenied) if error.as_db_error().is_none() => {
            "it is read-only, as a standby is; name its primary in the URL, or all its hosts".to_owned()
        }
        _ => error::text(error),
    }
}

fn is_about_tls(error: &tokio_postgres::Error) -> bool {
    error.to_string().contains("TLS")
}

#[cfg(test)]
mod tests {
    use pg_cluster::Cluster;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;
    use crate::db::Mutations;
    use crate::queues::QueueNames;
    use crate::time::StoreClock;

    #[tokio::test]
    async fn transaction_of_ours_that_hears_nothing_more_lets_go_of_its_locks() {
        let cluster = Cluster::shared();
        let url = cluster.fresh_database();
        crate::migrate(&url, false).await.unwrap();
        let connector = Connector::open(&url).unwrap();
        let shared = Arc::new(Shared {
            clock: StoreClock::Database,
            mutations: Mutations::default(),
            queues: QueueNames::default(),
        });
        let frozen = connector.connect(&shared, Habits::USUAL).await.unwrap();
        frozen.set("BEGIN; LOCK TABLE tenure.registries").await.unwrap();
        let other = connector.connect_plain().await.unwrap();
        other.batch_execute("SET lock_timeout = '8s'; BEGIN; LOCK TABLE tenure.registries").await.unwrap();
    }

    #[tokio::test]
    async fn host_that_was_good_last_time_is_tried_first() {
        // Takes connections and never answers, as a host whose disk hangs.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let cluster = Cluster::shared();
        let good = cluster.port();
        let url = format!("postgresql://{}@127.0.0.1:{port},127.0.0.1:{good}/postgres", cluster.login());
        let connector = Arc::new(Connector::open(&url).unwrap());
        let mut reaching = JoinSet::new();
        let begun = std::time::Instant::now();
        reaching.spawn({
            let connector = connector.clone();
            async move { connector.reach().await.map(drop) }
        });
        let held = silent.accept().await.unwrap();
        reaching.join_next().await.unwrap().unwrap().unwrap();
        assert!(begun.elapsed() < CONNECT_WITHIN, "the other host is not waited for so long");
        drop(connector.reach().await.unwrap());
        let asked_again = std::pin::pin!(silent.accept());
        assert!(futures_util::FutureExt::now_or_never(asked_again).is_none(), "it was asked again");
        drop(held);
    }
}
