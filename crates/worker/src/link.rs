//! The connection: opens one stream, keeps it open, and tells the session what comes out of it.
//!
//! It knows nothing of jobs. A link is one try at one place, and ends with its stream or when the session drops it; where
//! and when the next one is made is for the session and its [`Route`](crate::route::Route) to say, so that what an old link
//! still has to tell confuses nobody. Where there is another server to go to, the present one is watched, and left when it
//! is frozen.

use std::sync::Arc;
use std::time::Duration;

use lease::message::Generation;
use model::Clock;
use rpc::wire;
use tokio::sync::mpsc;
use tokio::time;
use tonic::Streaming;

use crate::home::Home;
use crate::route::Stop;
use crate::server::Server;
use crate::watch::Watch;

/// Frames that wait for the network; when there are more, what is said next is gathered into one larger frame.
const FRAMES_OUT_MAX: usize = 2;
/// Frames that wait for the session; when there are more, the server is held back by flow control. Were there many, the jobs of
/// all would be started before one of them runs, and what a job needs would have left the processor's caches by then.
const EVENTS_IN_MAX: usize = 1;
/// How long a server may take to open the stream and welcome us before the next one is tried: a quarter of the lease,
/// within these bounds.
const WELCOME_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// See [`WELCOME_TIMEOUT_MIN`]; one that failed before gets no more than that.
const WELCOME_TIMEOUT_MAX: Duration = Duration::from_secs(10);

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

/// Starts a link to this place. It ends with its stream, or when the receiver is dropped.
pub(crate) fn spawn(terms: LinkTerms, stop: Stop, hello: wire::Hello) -> mpsc::Receiver<LinkEvent> {
    let (events, received) = mpsc::channel(EVENTS_IN_MAX);
    tokio::spawn(async move {
        let closed = events.clone();
        tokio::select! {
            () = closed.closed() => {}
            // An error says that nobody listens any more.
            _ = visit(terms, stop, hello, events) => {}
        }
    });
    received
}

async fn visit(
    terms: LinkTerms,
    stop: Stop,
    hello: wire::Hello,
    events: mpsc::Sender<LinkEvent>,
) -> Result<(), mpsc::error::SendError<LinkEvent>> {
    time::sleep(stop.pause).await;
    let Opened { server, generation, frames, welcome, stream } = match terms.open(&stop, hello).await {
        Ok(opened) => opened,
        Err(why) => return events.send(LinkEvent::Failed { why }).await,
    };
    terms.home.client.prefer(&server.url);
    events.send(LinkEvent::Up { server: server.url.clone(), generation, frames }).await?;
    let watch =
        stop.has_alternatives.then(|| Watch::new(server, Arc::clone(&terms.home), Arc::clone(&terms.clock)));
    let why = forward(welcome, stream, watch, &events).await?;
    events.send(LinkEvent::Down { why }).await
}

impl LinkTerms {
    async fn open(&self, stop: &Stop, hello: wire::Hello) -> Result<Opened, String> {
        let server = self.home.client.server(&stop.url).map_err(|error| error.to_string())?;
        let max = if stop.is_suspect { WELCOME_TIMEOUT_MIN } else { WELCOME_TIMEOUT_MAX };
        let timeout = (self.home.lease() / 4).clamp(WELCOME_TIMEOUT_MIN, max);
        let opened = time::timeout(timeout, try_open(server, hello)).await;
        opened.unwrap_or_else(|_| Err(format!("no welcome from {} within {timeout:?}", stop.url)))
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

async fn try_open(server: Server, hello: wire::Hello) -> Result<Opened, String> {
    let (frames, outbound) = mpsc::channel(FRAMES_OUT_MAX);
    // The hello waits in the channel before the call is made: a server may answer the call only after it.
    let hello = wire::WorkerFrame { hello: Some(hello), ..wire::WorkerFrame::default() };
    frames.try_send(hello).map_err(|_| "the channel for frames is closed".to_owned())?;
    let mut stream = server.open_session(outbound).await.map_err(|error| error.to_string())?;
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
            Ok(Some(frame)) => frame,
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
