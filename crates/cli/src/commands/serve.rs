//! `tenure serve`: a server on this machine, until it is told to stop.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use clock::SystemClock;
use model::Clock;
use node::{Faults, Metrics, Node, Past};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use serde::Serialize;
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::config::{ServeFlags, Settings, StoreKind};
use crate::connect::SERVER_DEFAULT;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::{self, Signals};
use crate::{cluster, logging, past, stderr, storage};

const EXAMPLES: &str = "\
Examples:
  tenure serve
  tenure serve --listen 127.0.0.1:0 --data /var/lib/tenure --lease 30s
  tenure serve --store memory --log-format json
  tenure serve --database-url postgresql://tenure@db/jobs --advertise http://10.0.0.5:7117
  tenure serve --volatile-only
  TENURE_LISTEN=10.0.0.5:7117 tenure serve --insecure
  tenure serve --node-id 2 --join 10.0.0.5:7118 --cluster-key-file cluster.key

Settings come from flags, then TENURE_… environment variables, then tenure.toml (in the data
directory or by --config; its keys are the names of the flags, durations are text; those about
the cluster under [cluster]), then defaults.

With --node-id the server is a member of a cluster: it listens for other nodes on the port after
that of the API (UDP and TCP), and `tenure nodes` shows who is there. Keys for that may also come
from TENURE_CLUSTER_KEY. Each node needs a data directory of its own.

Volatile queues (all of them with --volatile-only, or those that `tenure queues set --volatile`
names) keep nothing on disk: clients remember what they submitted, workers what they run. After a
start they wait until all workers have reported, or for the longest lease and a second; `tenure
muster status` says why. When their jobs take --volatile-memory, clients wait until some have
ended. With --volatile-only the data directory is not made; only a node of a cluster keeps its
epoch there.

The first line on stdout has the address; with --json it is {\"url\":…,\"data\":…,\"pid\":…,
\"gossip\":…}.
SIGTERM or Ctrl-C drains; a second one ends at once.";

/// Run a server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: ServeFlags,
}

/// What `--json` prints once the server listens.
#[derive(Serialize)]
struct Listening<'a> {
    url: &'a str,
    data: Option<&'a Path>,
    pid: u32,
    /// Where other nodes reach this one, in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    gossip: Option<SocketAddr>,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let mut settings = Settings::resolve(args.flags)?;
    // Whatever a server writes is for its own user: jobs, who it was, its epoch. The directory may be open to others.
    umask(Mode::RWXG | Mode::RWXO);
    logging::start(settings.log, output);
    stderr::start_thread().context("cannot start a thread")?;
    for warning in &settings.warnings {
        warn!("{warning}");
    }
    // What was acknowledged is in the store, so a server may end at any time.
    let shutdown = Signals::catch().context("cannot catch signals")?.drain_on_first(signals::end_process);
    let _too_large = signals::survive_file_size_limit().context("cannot catch signals")?;
    raise_file_limit();

    // The port first: a second server on the same port and data is told about the port, and the store stays untouched.
    let listener =
        TcpListener::bind(settings.listen).await.map_err(|error| cannot_listen(settings.listen, &error))?;
    let url = url_of(listener.local_addr().context("cannot read the address of the listener")?);
    let cluster = match &settings.cluster {
        Some(cluster) => Some(cluster::open(cluster, &settings.data).await?),
        None => None,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Metrics::new().with_dropped_log_lines(stderr::dropped);
    let store = tokio::select! {
        store = storage::open(&settings, Arc::clone(&clock), &metrics) => store?,
        // Nothing was promised to anybody yet.
        () = shutdown.cancelled() => return Err(Failure::failed("interrupted while the store was being opened").into()),
    };
    if !settings.fsync {
        warn!("commits are not forced to disk; a power cut loses acknowledged jobs");
    }
    info!(url, store = settings.node.store, "listening, {}", place(&settings));
    announce(output, &settings, &url, cluster.as_ref().map(|cluster| cluster.address));
    if settings.node.address.is_empty() {
        settings.node.address.clone_from(&url);
    }

    let faults = Faults::parse(&settings.faults)?;
    let past = match settings.store {
        StoreKind::Postgres => past::of(&settings.data, &settings.database_url),
        StoreKind::Sqlite | StoreKind::Memory | StoreKind::Volatile => Past::default(),
    };
    let config = settings.node;
    let node = Node { config, store: Arc::clone(&store), clock, metrics, faults, past, cluster };
    node::run(node, listener, shutdown).await.context("the server stopped")?;
    drop(store);
    info!("stopped");
    Ok(Exit::Done)
}

/// Says where the server is and what to try next. A server does not care whether anyone listens to that.
fn announce(output: &Output, settings: &Settings, url: &str, gossip: Option<SocketAddr>) {
    let data = (settings.store == StoreKind::Sqlite).then_some(settings.data.as_path());
    let _ = if output.is_json() {
        output.json(&Listening { url, data, pid: std::process::id(), gossip })
    } else {
        output.text(&greeting(url, &place(settings), output.is_quiet()))
    };
}

/// Where the jobs are.
fn place(settings: &Settings) -> String {
    match settings.store {
        StoreKind::Sqlite => format!("data in {}", settings.data.display()),
        StoreKind::Memory => "data in memory, gone when it stops".to_owned(),
        StoreKind::Postgres => "data in PostgreSQL".to_owned(),
        StoreKind::Volatile => "nothing on disk".to_owned(),
    }
}

fn greeting(url: &str, place: &str, brief: bool) -> String {
    let first = format!("tenure is listening on {url} ({place})\n");
    if brief {
        return first;
    }
    let server = if url == SERVER_DEFAULT { String::new() } else { format!(" --server {url}") };
    format!(
        "{first}try, in two other terminals:\n  tenure worker{server} --queue hello -- cat\n  \
         tenure enqueue{server} hello '{{\"name\":\"you\"}}' --wait\n"
    )
}

/// The address a client on this machine would use.
fn url_of(address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}: another program uses this port; stop it, or choose another with --listen"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot listen on {address}: this user may not use this port; choose one above 1023 with --listen"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("cannot listen on {address}: this machine does not have this address; see --listen")
        }
        _ => format!("cannot listen on {address}: {error}"),
    };
    Failure::failed(why)
}

/// Each connection takes a descriptor, and the soft limit is often 1024.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, limit = limit.current, "cannot raise the limit of open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_stable_and_the_hints_name_the_server() {
        let text = greeting(SERVER_DEFAULT, "data in ./tenure-data", false);
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("tenure is listening on http://127.0.0.1:7117 (data in ./tenure-data)")
        );
        assert!(text.contains("  tenure worker --queue hello -- cat\n"));
        assert!(text.contains("  tenure enqueue hello '{\"name\":\"you\"}' --wait\n"));
        let text = greeting("http://127.0.0.1:9", "data in memory", false);
        assert!(text.contains("tenure worker --server http://127.0.0.1:9 --queue hello -- cat"));
        assert_eq!(greeting("http://127.0.0.1:9", "data in memory", true).lines().count(), 1);
    }

    #[test]
    fn an_unspecified_address_is_shown_as_one_that_can_be_called() {
        assert_eq!(url_of("0.0.0.0:7117".parse().unwrap()), "http://127.0.0.1:7117");
        assert_eq!(url_of("[::1]:7117".parse().unwrap()), "http://[::1]:7117");
    }
}
