//! The connection: opens the stream, keeps it open, and tells the session what comes out of it.
//!
//! It knows nothing of jobs. When a stream ends, for whatever reason, it waits a little and opens another one, on the
//! next server if there are several. Where there is another server to go to, the present one is watched, and left when
//! it is frozen. One link lives as long as its key and its place: the session replaces it when either changes.

use std::sync::Arc;
use std::time::Duration;

use lease::message::Generation;
use model::Clock;
use rpc::wire;
use tokio::sync::mpsc;
use tokio::time;
use tonic::Streaming;

use crate::backoff::Backoff;
use crate::client::Client;
use crate::home::Home;
use crate::server::Server;
use crate::watch::Watch;

/// Frames that wait for the network; when there are more, what is said next is gathered into one larger frame.
const FRAMES_OUT_MAX: usize = 2;
/// Frames that wait for the session; when there are more, the server is held back by flow control.
const EVENTS_IN_MAX: usize = 16;
/// How long a server may take to open the stream and welcome us before the next one is tried: a quarter of the lease,
/// within these bounds.
const WELCOME_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// See [`WELCOME_TIMEOUT_MIN`].
const WELCOME_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// Pauses between two tries to connect that fit in a lease, at least.
const PAUSES_PER_LEASE: u32 = 5;

/// What the link tells the session.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The server welcomed us; frames go in here.
    Up { server: String, generation: Generation, frames: mpsc::Sender<wire::WorkerFrame> },
    /// The server said something.
    Frame(Box<wire::ServerFrame>),
    /// The stream is gone.
    Down { why: String },
    /// No stream could be opened.
    Failed { why: String },
}

/// What every link of a worker needs.
#[derive(Clone)]
pub(crate) struct LinkTerms {
    /// Knows the servers, and the lease in which everything must fit that takes long.
    pub(crate) home: Arc<Home>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Why a link is made.
pub(crate) enum Opening {
    /// The worker starts.
    First,
    /// Another link was dropped. This address, if there is one, is tried before all others.
    Again { address: Option<String> },
}

/// Starts a link. It ends when the receiver is dropped.
pub(crate) fn spawn(terms: LinkTerms, hello: wire::Hello, opening: Opening) -> mpsc::Receiver<LinkEvent> {
    let (events, received) = mpsc::channel(EVENTS_IN_MAX);
    tokio::spawn(async move {
        let closed = events.clone();
        tokio::select! {
            () = closed.closed() => {}
            _ = keep_open(terms, hello, opening, events) => {}
        }
    });
    received
}

/// Nobody listens any more.
struct Closed;

async fn keep_open(
    terms: LinkTerms,
    hello: wire::Hello,
    opening: Opening,
    events: mpsc::Sender<LinkEvent>,
) -> Result<Closed, mpsc::error::SendError<LinkEvent>> {
    let mut backoff = Backoff::default();
    let mut sent_to = None;
    if let Opening::Again { address } = opening {
        // Two servers that send us to each other must not have us run to and fro as fast as we can.
        time::sleep(backoff.next(rand::random())).await;
        sent_to = address.and_then(|address| terms.at(&address));
    }
    loop {
        // An address we were sent to is tried once; after that the list counts again.
        let guest = sent_to.take();
        let client = guest.as_ref().unwrap_or(&terms.home.client);
        match open(client, hello.clone(), terms.welcome_timeout()).await {
            Ok(Opened { server, generation, frames, welcome, stream }) => {
                let url = server.url.clone();
                events.send(LinkEvent::Up { server: url, generation, frames }).await?;
                let watch = (guest.is_some() || terms.home.client.servers().count() > 1)
                    .then(|| Watch::new(server, Arc::clone(&terms.home), Arc::clone(&terms.clock)));
                let why = forward(welcome, stream, watch, &events, &mut backoff).await?;
                events.send(LinkEvent::Down { why }).await?;
            }
            Err(why) => events.send(LinkEvent::Failed { why }).await?,
        }
        client.prefer_another();
        // A server that is back gives its workers one lease to come back, so the pauses must be much shorter.
        time::sleep(backoff.next(rand::random()).min(terms.home.lease() / PAUSES_PER_LEASE)).await;
    }
}

impl LinkTerms {
    fn at(&self, address: &str) -> Option<Client> {
        self.home
            .client
            .at(address)
            .inspect_err(|error| tracing::warn!(address, %error, "we were sent to no usable address"))
            .ok()
    }

    fn welcome_timeout(&self) -> Duration {
        (self.home.lease() / 4).clamp(WELCOME_TIMEOUT_MIN, WELCOME_TIMEOUT_MAX)
    }
}

struct Opened {
    server: Server,
    generation: Generation,
    frames: mpsc::Sender<wire::WorkerFrame>,
    /// The first frame; it carries the welcome and perhaps more.
    welcome: wire::ServerFrame,
    stream: Streaming<wire::ServerFrame>,
}

async fn open(client: &Client, hello: wire::Hello, timeout: Duration) -> Result<Opened, String> {
    let opened = time::timeout(timeout, try_open(client, hello)).await;
    opened.unwrap_or_else(|_| Err(format!("no welcome within {timeout:?}")))
}

async fn try_open(client: &Client, hello: wire::Hello) -> Result<Opened, String> {
    let (frames, outbound) = mpsc::channel(FRAMES_OUT_MAX);
    // The hello waits in the channel before the call is made: a server may answer the call only after it.
    let hello = wire::WorkerFrame { hello: Some(hello), ..wire::WorkerFrame::default() };
    frames.try_send(hello).map_err(|_| "the channel for frames is closed".to_owned())?;
    let (server, mut stream) = client.open_session(outbound).await.map_err(|error| error.to_string())?;
    let url = &server.url;
    let welcome = match stream.message().await {
        Ok(Some(welcome)) => welcome,
        Ok(None) => return Err(format!("{url} closed the stream without a welcome")),
        Err(status) => return Err(format!("{url} refused the session: {}", status.message())),
    };
    let generation = match &welcome.welcome {
        Some(welcome) => Generation(welcome.generation),
        None => return Err(format!("{url} did not welcome us")),
    };
    Ok(Opened { server, generation, frames, welcome, stream })
}

/// Passes frames on until the stream ends or its server is dead; says why it ended.
async fn forward(
    welcome: wire::ServerFrame,
    mut stream: Streaming<wire::ServerFrame>,
    mut watch: Option<Watch>,
    events: &mpsc::Sender<LinkEvent>,
    backoff: &mut Backoff,
) -> Result<String, mpsc::error::SendError<LinkEvent>> {
    let mut frame = welcome;
    loop {
        let is_goodbye = frame.goodbye;
        events.send(LinkEvent::Frame(Box::new(frame))).await?;
        if is_goodbye {
            return Ok("the server is going away".to_owned());
        }
        let message = tokio::select! {
            biased;
            message = stream.message() => message,
            () = dead(watch.as_mut()) => return Ok("the server does not answer any more".to_owned()),
        };
        frame = match message {
            Ok(Some(frame)) => {
                // Only now: a server that welcomes us and then cannot serve is not to be asked again and again.
                backoff.reset();
                frame
            }
            Ok(None) => return Ok("the server closed the stream".to_owned()),
            Err(status) => return Ok(status.message().to_owned()),
        };
    }
}

/// Returns when the server is dead; never if nobody watches it.
async fn dead(watch: Option<&mut Watch>) {
    match watch {
        Some(watch) => watch.dead().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use clock::SystemClock;
    use model::{Limits, Nonce};
    use tokio::time::Instant;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_server_that_is_away_is_tried_several_times_per_lease_however_long_it_is_away() {
        let lease = Limits::LEASE_MIN;
        // Nobody listens on the port of a listener that was closed.
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (home, _) = testing::home(&format!("http://{closed}"), lease);
        let hello =
            rpc::lease_convert::hello(&home.key(), Nonce::new(1), &lease::message::Profile::default());
        let terms = LinkTerms { home: Arc::new(home), clock: Arc::new(SystemClock) };
        let mut link = spawn(terms, hello, Opening::First);
        let start = Instant::now();
        for _ in 0..10 {
            let event = link.recv().await;
            assert!(matches!(event, Some(LinkEvent::Failed { .. })), "{event:?}");
        }
        // Pauses that grow as they like would take more than ten seconds by now.
        assert!(start.elapsed() < lease * 10, "{:?} for nine pauses", start.elapsed());
    }
}
