//! One server: its address, the channel to it, and how to tell its answers from the network's silence.

use std::error::Error as _;
use std::time::Duration;

use rpc::ApiError;
use rpc::wire;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

use crate::client::work;
use crate::error::ClientError;

/// How long opening a connection may take where there is no other server to turn to.
pub(crate) const CONNECT_TIMEOUT_ALONE: Duration = Duration::from_secs(3);
/// How long it may take before the next server is tried.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// gRPC metadata in which a server that is not in charge of a worker names the one that is.
const OWNER_KEY: &str = "tenure-owner";
/// Flow control windows: large enough that a frame of a thousand jobs never waits for a window update.
const WINDOW_BYTES: u32 = 4 << 20;
/// A silent connection is probed this often, so that a frozen server is noticed within two of these.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// A probe that is not answered for this long ends the connection.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A server's address and the channel to it, which connects on first use and reconnects by itself.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) channel: Channel,
}

/// Why a call got no answer.
pub(crate) enum Silence {
    /// The connection never opened: the call certainly did not happen.
    NeverOpened(String),
    /// The connection broke: the call may have happened.
    Broke(String),
}

impl Server {
    /// The server at this address; connects on first use, within this time.
    pub(crate) fn new(url: &str, connect_timeout: Duration) -> Result<Server, ClientError> {
        let url = match url.split_once("://") {
            None => format!("http://{url}"),
            Some(("http", _)) => url.to_owned(),
            Some((scheme, _)) => {
                return Err(ApiError::invalid(format!(
                    "server {url:?} has the scheme {scheme}; use http://"
                ))
                .into());
            }
        };
        let url = url.trim_end_matches('/').to_owned();
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| {
            ApiError::invalid(format!("server {url:?} is not an address such as http://127.0.0.1:7117"))
        })?;
        let channel = endpoint
            .connect_timeout(connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE_INTERVAL))
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .connect_lazy();
        Ok(Server { url, channel })
    }

    /// Opens a worker's stream.
    pub(crate) async fn open_session(
        &self,
        frames: mpsc::Receiver<wire::WorkerFrame>,
    ) -> Result<Streaming<wire::ServerFrame>, ClientError> {
        let opened = work(self.channel.clone()).session(ReceiverStream::new(frames)).await;
        opened.map(Response::into_inner).map_err(|status| client_error(&self.url, status))
    }

    /// Whether it is alive: an error that it made itself is an answer, too.
    pub(crate) async fn answers_probe(&self) -> bool {
        match work(self.channel.clone()).probe(wire::ProbeRequest {}).await {
            Ok(_) => true,
            Err(status) => silence(&status).is_none(),
        }
    }
}

/// The error for a call that is not tried again.
pub(crate) fn client_error(server: &str, status: Status) -> ClientError {
    match silence(&status) {
        Some(Silence::NeverOpened(why) | Silence::Broke(why)) => {
            ClientError::Unreachable { server: server.to_owned(), why }
        }
        None => ClientError::Api(status.into()),
    }
}

/// Whom a server names that is not in charge. Such an answer also says that nothing has happened.
pub(crate) fn owner(status: &Status) -> Option<&str> {
    status.metadata().get(OWNER_KEY)?.to_str().ok()
}

/// Did the network fail, rather than the server answer? Errors made on this side carry their cause, answers do not.
pub(crate) fn silence(status: &Status) -> Option<Silence> {
    let mut cause = status.source()?;
    let mut never_opened = false;
    loop {
        never_opened |= cause.is::<tonic::ConnectError>();
        match cause.source() {
            Some(deeper) => cause = deeper,
            None => break,
        }
    }
    let why = cause.to_string();
    Some(if never_opened { Silence::NeverOpened(why) } else { Silence::Broke(why) })
}
