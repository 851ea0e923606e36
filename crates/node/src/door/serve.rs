//! The port: accepts connections, speaks HTTP/1 and HTTP/2 on each, and ends them in good order.

use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::connection::{Connection, Patience, Wish};
use super::entrance::Entrance;
use super::metrics::DoorMetrics;
use super::places::{Full, Limits, Place, Places};
use super::socket::Socket;
use super::streams::Streams;
use crate::api::Api;
use crate::config::DoorConfig;

/// Calls on one connection at the same time.
const STREAMS_MAX: u32 = 1_000;
/// Large enough that a full batch is on its way without waiting for the other side.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// A peer that is silent this long is asked; one that does not answer is gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client gets this long to say anything, and to send the headers of an HTTP/1 request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A pause after a failed accept (out of descriptors, say), so that trouble does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections are looked at this often, or more often where that matters.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// A connection that is to end, and that nobody uses, waits this long for its client to agree.
const AGREE_TIMEOUT: Duration = Duration::from_secs(1);
/// Refused connections are logged no more often than this.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// Serves until `shutdown`, then tells workers goodbye, lets others have them, and waits for open requests.
pub(crate) async fn serve(
    api: Arc<Api>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let mut door = Door::new(&api);
    let open = TaskTracker::new();
    let mut looks = tokio::time::interval(door.look_interval());
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            _ = looks.tick() => door.look(),
            accepted = door.accept(&listener) => {
                if let Some((stream, place)) = door.place(accepted) {
                    open.spawn(door.serve(stream, place));
                }
            }
        }
    }
    api.closing.cancel();
    for session in api.sessions.all() {
        session.dismiss();
    }
    door.places.end_all();
    open.close();
    // No session is accepted any more. Workers must not wait for others to have our connections closed, so whoever takes them
    // over hears of it now.
    let drained = async {
        let drained = timeout(api.config.drain_grace, open.wait());
        tokio::join!(drained, api.resign()).0
    };
    tokio::pin!(drained);
    loop {
        // Whoever asks now still hears that we are alive, and not ready.
        tokio::select! {
            biased;
            in_time = &mut drained => {
                if in_time.is_err() {
                    warn!("some connections were still open when the grace was over");
                }
                return Ok(());
            }
            _ = looks.tick() => door.look(),
            accepted = door.accept(&listener) => {
                if let Some((stream, place)) = door.place(accepted) {
                    tokio::spawn(door.serve(stream, place));
                }
            }
        }
    }
}

/// How connections are taken and served.
struct Door {
    builder: Arc<auto::Builder<Streams>>,
    entrance: Arc<Entrance>,
    places: Arc<Places>,
    patience: Patience,
    metrics: DoorMetrics,
    /// When a refused connection was logged last.
    complained: Option<Instant>,
}

impl Door {
    fn new(api: &Arc<Api>) -> Self {
        let mut builder = auto::Builder::new(Streams);
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT);
        let DoorConfig { connections_max, connections_per_address, .. } = api.config.door;
        Door {
            builder: Arc::new(builder),
            entrance: Arc::new(Entrance::new(api)),
            places: Places::new(Limits { all: connections_max, per_address: connections_per_address }),
            patience: Patience {
                idle: api.config.door.idle_timeout,
                stalled: api.config.door.stalled_timeout,
            },
            metrics: api.metrics.door.clone(),
            complained: None,
        }
    }

    fn look_interval(&self) -> Duration {
        let Patience { idle, stalled } = self.patience;
        (idle.min(stalled) / 4).clamp(Duration::from_millis(1), LOOK_INTERVAL)
    }

    fn look(&self) {
        let cut = self.places.look(std::time::Instant::now(), self.patience);
        self.metrics.connections_cut.inc_by(cut);
        self.metrics.connections.set(self.places.count() as i64);
        self.metrics.inflight_bytes.set(self.entrance.inflight_bytes() as i64);
    }

    async fn accept(&self, listener: &TcpListener) -> (TcpStream, IpAddr) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return (stream, peer.ip()),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    self.places.shed();
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A place for the connection; without one it is closed.
    fn place(&mut self, (stream, address): (TcpStream, IpAddr)) -> Option<(TcpStream, Place)> {
        let why = match self.places.take(address) {
            Ok(place) => return Some((stream, place)),
            Err(Full::Address) => "this address has as many as one may have (--connections-per-address)",
            Err(Full::Server) => "the server has as many as it takes",
        };
        self.metrics.connections_refused.inc();
        let now = Instant::now();
        if self.complained.is_none_or(|last| now.duration_since(last) >= COMPLAINT_INTERVAL) {
            warn!(%address, why, "connection refused");
            self.complained = Some(now);
        }
        None
    }

    /// Serves one connection to its end.
    fn serve(&self, stream: TcpStream, place: Place) -> impl Future<Output = ()> + Send + use<> {
        let _ = stream.set_nodelay(true);
        let (builder, entrance) = (Arc::clone(&self.builder), Arc::clone(&self.entrance));
        async move {
            let state = Arc::clone(place.connection());
            let mut first = [0];
            // Whoever connects and says nothing must not keep a place for long.
            let spoke = tokio::select! {
                spoke = timeout(HEADER_TIMEOUT, stream.peek(&mut first)) => spoke.is_ok(),
                () = state.asked(Wish::End) => false,
            };
            if !spoke {
                return;
            }
            let socket = TokioIo::new(Socket::new(stream, Arc::clone(&state)));
            let served = Arc::clone(&state);
            let service = service_fn(move |request| {
                let (entrance, connection) = (Arc::clone(&entrance), Arc::clone(&served));
                async move { entrance.answer(&connection, request).await }
            });
            let mut connection = pin!(builder.serve_connection(socket, service));
            let ended = tokio::select! {
                biased;
                ended = connection.as_mut() => ended,
                () = state.asked(Wish::End) => {
                    connection.as_mut().graceful_shutdown();
                    wind_up(connection, &state).await
                }
            };
            if let Err(error) = ended {
                debug!(error, "connection ended");
            }
            drop(place);
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Waits for the end of a connection that takes no calls any more: until all are answered, and a little for its client.
async fn wind_up(
    mut connection: Pin<&mut impl Future<Output = Result<(), BoxError>>>,
    state: &Connection,
) -> Result<(), BoxError> {
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = state.asked(Wish::Cut) => return Ok(()),
            () = sleep(AGREE_TIMEOUT) => {
                if !state.is_open() {
                    return Ok(());
                }
            }
        }
    }
}
