//! Opening a store on a database: options, connections, and what every connection is set to.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::Clock;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Connection, Socket};

use crate::db::{Session, Shared};
use crate::error::{self, OpenError};
use crate::tls::{MakeTls, TlsStream};
use crate::url::{DatabaseUrl, HostConfig, TlsMode};

/// How long one attempt to reach one host may take.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection may be silent before the system asks whether the other side is still there.
pub(crate) const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// How often it asks.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// What all our connections run with. What is acknowledged is on disk, whatever the server is set to. A statement ends before we give up waiting for it, and a transaction of ours that
/// hears nothing more from us (our machine froze) gives its locks back.
const SETTINGS: &str = "
    SET statement_timeout = '9s';
    SET idle_in_transaction_session_timeout = '15s';
    SET default_transaction_isolation = 'read committed';
    SET client_min_messages = 'warning';
    SET jit = off;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';";

/// Statements are planned once and then used on tables of any size, so plans that are only good for small tables are ruled
/// out.
const PLAN_ONCE: &str = "
    SET plan_cache_mode = 'force_generic_plan';
    SET enable_seqscan = off;
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
}

/// The bytes of one connection under way.
pub(crate) type Driver = Connection<Socket, TlsStream<Socket>>;

impl Connector {
    /// Understands the URL and reads the certificates it names.
    pub(crate) fn open(url: &str) -> Result<Self, OpenError> {
        let url: DatabaseUrl = url.parse()?;
        let tls = MakeTls::new(url.tls, url.root_certificates.as_deref())?;
        Ok(Connector { url, tls })
    }

    /// A connection to the first host that accepts writes, or why none does.
    pub(crate) async fn reach(&self) -> Result<(Client, Driver), String> {
        let mut reasons = Vec::new();
        for host in &self.url.hosts {
            let reached = timeout(CONNECT_WITHIN, self.reach_host(host)).await;
            match reached.unwrap_or_else(|_| Err(format!("no answer within {CONNECT_WITHIN:?}"))) {
                Ok(reached) => return Ok(reached),
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
        match config.connect(self.tls.clone()).await {
            // Preferred is not required: a server whose TLS does not work for us is used without.
            Err(error) if self.url.tls == TlsMode::Prefer && is_about_tls(&error) => {
                config.ssl_mode(SslMode::Disable);
                config.connect(self.tls.clone()).await.map_err(|error| describe(&error))
            }
            reached => reached.map_err(|error| describe(&error)),
        }
    }

    /// A connection for a lane, set as all of ours are.
    pub(crate) async fn connect(&self, shared: &Arc<Shared>, planning: Planning) -> Result<Session, String> {
        let (client, driver) = self.reach().await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(error = error::text(&error), "a connection to the database ended");
            }
        });
        let session = Session::new(client, driver, shared.clone());
        let settings = match planning {
            Planning::Once => format!("{SETTINGS}{PLAN_ONCE}"),
            Planning::EachTime => format!("{SETTINGS}{PLAN_EACH_TIME}"),
        };
        let settled = timeout(CONNECT_WITHIN, session.set(&settings)).await;
        settled
            .map_err(|_| format!("no answer within {CONNECT_WITHIN:?}"))?
            .map_err(|trouble| trouble.to_string())?;
        shared.queues.forget();
        Ok(session)
    }

    /// A connection with nothing set, for the schema and for questions.
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
