//! The connection: opens the stream, keeps it open, and tells the session what comes out of it.
//!
//! It knows nothing of jobs. When a stream ends, for whatever reason, it waits a little and opens another one, on the
//! next server if there are several.

use std::time::Duration;

use rpc::wire;
use tokio::sync::mpsc;
use tokio::time;
use tonic::Streaming;

use crate::backoff::Backoff;
use crate::client::Client;

/// Frames that wait for the network; when there are more, what is said next is gathered into one larger frame.
const FRAMES_OUT_MAX: usize = 2;
/// Frames that wait for the session; when there are more, the server is held back by flow control.
const EVENTS_IN_MAX: usize = 16;
/// How long a server may take to open the stream and welcome us before the next one is tried.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// What the link tells the session.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The server welcomed us; frames go in here.
    Up { server: String, frames: mpsc::Sender<wire::WorkerFrame> },
    /// The server said something.
    Frame(wire::ServerFrame),
    /// The stream is gone.
    Down { why: String },
    /// No stream could be opened.
    Failed { why: String },
}

/// Starts a link. It ends when the receiver is dropped.
pub(crate) fn spawn(client: Client, hello: wire::Hello) -> mpsc::Receiver<LinkEvent> {
    let (events, received) = mpsc::channel(EVENTS_IN_MAX);
    tokio::spawn(async move {
        let closed = events.clone();
        tokio::select! {
            () = closed.closed() => {}
            _ = keep_open(client, hello, events) => {}
        }
    });
    received
}

/// Nobody listens any more.
struct Closed;

async fn keep_open(
    client: Client,
    hello: wire::Hello,
    events: mpsc::Sender<LinkEvent>,
) -> Result<Closed, mpsc::error::SendError<LinkEvent>> {
    let mut backoff = Backoff::default();
    loop {
        let attempt = time::timeout(WELCOME_TIMEOUT, open(&client, hello.clone())).await;
        match attempt.unwrap_or_else(|_| Err(format!("no welcome within {WELCOME_TIMEOUT:?}"))) {
            Ok(Opened { server, frames, welcome, stream }) => {
                events.send(LinkEvent::Up { server, frames }).await?;
                let why = forward(welcome, stream, &events, &mut backoff).await?;
                events.send(LinkEvent::Down { why }).await?;
            }
            Err(why) => events.send(LinkEvent::Failed { why }).await?,
        }
        client.prefer_another();
        time::sleep(backoff.next(rand::random())).await;
    }
}

struct Opened {
    server: String,
    frames: mpsc::Sender<wire::WorkerFrame>,
    /// The first frame; it carries the welcome and perhaps more.
    welcome: wire::ServerFrame,
    stream: Streaming<wire::ServerFrame>,
}

async fn open(client: &Client, hello: wire::Hello) -> Result<Opened, String> {
    let (frames, outbound) = mpsc::channel(FRAMES_OUT_MAX);
    // The hello waits in the channel before the call is made: a server may answer the call only after it.
    let hello = wire::WorkerFrame { hello: Some(hello), ..wire::WorkerFrame::default() };
    frames.try_send(hello).map_err(|_| "the channel for frames is closed".to_owned())?;
    let (server, mut stream) = client.open_session(outbound).await.map_err(|error| error.to_string())?;
    match stream.message().await {
        Ok(Some(welcome)) => Ok(Opened { server, frames, welcome, stream }),
        Ok(None) => Err(format!("{server} closed the stream without a welcome")),
        Err(status) => Err(format!("{server} refused the session: {}", status.message())),
    }
}

/// Passes frames on until the stream ends; says why it ended.
async fn forward(
    welcome: wire::ServerFrame,
    mut stream: Streaming<wire::ServerFrame>,
    events: &mpsc::Sender<LinkEvent>,
    backoff: &mut Backoff,
) -> Result<String, mpsc::error::SendError<LinkEvent>> {
    let mut frame = welcome;
    loop {
        let is_goodbye = frame.goodbye;
        events.send(LinkEvent::Frame(frame)).await?;
        if is_goodbye {
            return Ok("the server is going away".to_owned());
        }
        frame = match stream.message().await {
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
