//! The port: accepts connections, speaks HTTP/1 and HTTP/2 on each, and ends them in good order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::entrance::Entrance;
use super::streams::Streams;
use crate::api::Api;

/// Open connections at most; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 10_000;
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

/// Serves until `shutdown`, then tells workers goodbye, lets others have them, and waits for open requests.
pub(crate) async fn serve(
    api: Arc<Api>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> io::Result<()> {
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
    let door = Door {
        builder: Arc::new(builder),
        entrance: Arc::new(Entrance::new(&api)),
        slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        closing: api.closing.clone(),
    };
    let graceful = GracefulShutdown::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            (stream, slot) = door.accept(&listener) => {
                door.serve(stream, slot, Some(graceful.watcher()));
            }
        }
    }
    api.closing.cancel();
    for session in api.sessions.all() {
        session.dismiss();
    }
    // No session is accepted any more. Workers must not wait for others to have our connections closed, so whoever takes them
    // over hears of it now.
    let drained = async {
        let drained = tokio::time::timeout(api.config.drain_grace, graceful.shutdown());
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
            (stream, slot) = door.accept(&listener) => door.serve(stream, slot, None),
        }
    }
}

/// How connections are taken and served.
struct Door {
    builder: Arc<auto::Builder<Streams>>,
    entrance: Arc<Entrance>,
    slots: Arc<Semaphore>,
    closing: CancellationToken,
}

impl Door {
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, OwnedSemaphorePermit) {
        let slot = Arc::clone(&self.slots).acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return (stream, slot),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection in a task of its own, to its end or, if it is watched, until it can be ended well.
    fn serve(&self, stream: TcpStream, slot: OwnedSemaphorePermit, watcher: Option<Watcher>) {
        let _ = stream.set_nodelay(true);
        let (builder, entrance, closing) =
            (Arc::clone(&self.builder), Arc::clone(&self.entrance), self.closing.clone());
        tokio::spawn(async move {
            let mut first = [0];
            // Whoever connects and says nothing must not keep a place for long.
            let spoke = tokio::select! {
                spoke = tokio::time::timeout(HEADER_TIMEOUT, stream.peek(&mut first)) => spoke.is_ok(),
                () = closing.cancelled(), if watcher.is_some() => false,
            };
            if !spoke {
                return;
            }
            let service = service_fn(|request| {
                let entrance = Arc::clone(&entrance);
                async move { entrance.answer(request).await }
            });
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            let ended = match watcher {
                Some(watcher) => watcher.watch(connection).await,
                None => connection.await,
            };
            if let Err(error) = ended {
                debug!(error, "connection ended");
            }
            drop(slot);
        });
    }
}
