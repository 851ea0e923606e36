//! A server to talk to, and two ways to talk to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use clock::SystemClock;
use model::{Clock, Instant, RegistryId, WallTime};
use node::{Node, NodeConfig, Past};
use serde_json::Value;
use store::{JobStore, ServerInfo};
use store_sqlite::{OpenError, SqliteOptions, SqliteStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::Client;

/// The machine's clocks, with a wall clock that can be stepped.
#[derive(Default)]
pub(crate) struct SteppedClock {
    wall_offset_ms: AtomicI64,
}

impl SteppedClock {
    pub(crate) fn step_wall(&self, millis: i64) {
        self.wall_offset_ms.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for SteppedClock {
    fn monotonic(&self) -> Instant {
        SystemClock.monotonic()
    }

    fn wall(&self) -> WallTime {
        WallTime::from_millis(SystemClock.wall().as_millis() + self.wall_offset_ms.load(Ordering::SeqCst))
    }
}

/// A server on a free port with a fresh SQLite store.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) clock: Arc<SteppedClock>,
    address: SocketAddr,
    shutdown: CancellationToken,
    running: JoinHandle<std::io::Result<()>>,
    data: Arc<tempfile::TempDir>,
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::start_with(NodeConfig::default()).await
    }

    pub(crate) async fn start_with(config: NodeConfig) -> Server {
        Server::open(config, Arc::new(tempfile::tempdir().expect("a temporary directory"))).await
    }

    /// Stops this server and starts another one on its data.
    pub(crate) async fn restart_with(self, config: NodeConfig) -> Server {
        let data = Arc::clone(&self.data);
        self.stop().await;
        Server::open(config, data).await
    }

    /// A server on a store of the test's own.
    pub(crate) async fn start_on(config: NodeConfig, store: Arc<dyn JobStore>) -> Server {
        let data = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        Server::run(config, store, Arc::new(SteppedClock::default()), data).await
    }

    /// A server that comes back after its death, on a store that others use too; and the registry of its last life.
    pub(crate) async fn start_again_on(config: NodeConfig, store: Arc<dyn JobStore>) -> (Server, RegistryId) {
        let data = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let info = ServerInfo { name: config.name.clone(), address: format!("http://{address}") };
        let last = store.found(info).await.expect("a registry");
        let past = Past { last: Some(last), ..Past::default() };
        let clock = Arc::new(SteppedClock::default());
        (Server::run_at(config, store, clock, data, listener, past), last)
    }

    async fn open(config: NodeConfig, data: Arc<tempfile::TempDir>) -> Server {
        let clock = Arc::new(SteppedClock::default());
        let store = loop {
            match SqliteStore::open(SqliteOptions::new(data.path()), clock.clone()) {
                Ok(store) => break store,
                // The last tasks of the server before are still putting it down.
                Err(OpenError::InUse { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("the store does not open: {error}"),
            }
        };
        Server::run(config, Arc::new(store), clock, data).await
    }

    async fn run(
        config: NodeConfig,
        store: Arc<dyn JobStore>,
        clock: Arc<SteppedClock>,
        data: Arc<tempfile::TempDir>,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Server::run_at(config, store, clock, data, listener, Past::default())
    }

    fn run_at(
        config: NodeConfig,
        store: Arc<dyn JobStore>,
        clock: Arc<SteppedClock>,
        data: Arc<tempfile::TempDir>,
        listener: TcpListener,
        past: Past,
    ) -> Server {
        let address = listener.local_addr().expect("a bound listener has an address");
        let config = NodeConfig { address: format!("http://{address}"), ..config };
        let config = config.check().expect("the settings are valid");
        let node = Node { config, past, ..Node::new(store, clock.clone()) };
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(node::run(node, listener, shutdown.clone()));
        let client = Client::connect(&format!("http://{address}")).expect("a valid address");
        Server { client, clock, address, shutdown, running, data }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One HTTP/1.1 call, as plain as `curl` makes it: the status and the JSON body.
    pub(crate) async fn http(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, text) = self.http_text(method, path, body).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn http_text(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        // A body that is refused half-way is not read to its end, so the write may fail; the answer tells.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).expect("answers are text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        (status, if chunked { unchunk(body) } else { body.to_owned() })
    }

    /// A figure from `/metrics`, summed over labels that contain `label`.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> f64 {
        let (status, text) = self.http_text("GET", "/metrics", "").await;
        assert_eq!(status, 200, "{text}");
        let wanted = |line: &&str| !line.starts_with('#') && line.starts_with(name) && line.contains(label);
        text.lines().filter(wanted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Tells the server to stop, without waiting for it.
    pub(crate) fn begin_stop(&self) {
        self.shutdown.cancel();
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.expect("the server does not panic").expect("the server ends well");
    }
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
