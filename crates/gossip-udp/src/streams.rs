//! Exchanges over streams: connects, asks, waits; accepts, hands on, answers. One exchange a connection, everything in time.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use swim::{Request, Response, Ticket};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::codec::exchange;
use crate::frames::{self, Direction, End, MESSAGE_BYTES_MAX, StreamError};
use crate::seal::Sealer;

/// A request that came over a stream. Dropping `reply` hangs up.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) ticket: Ticket,
    pub(crate) addr: SocketAddr,
    pub(crate) request: Request,
    pub(crate) reply: oneshot::Sender<Response>,
}

/// Asks the node at `addr`.
pub(crate) async fn ask(
    sealer: &Sealer,
    addr: SocketAddr,
    request: Request,
    time: Duration,
) -> Result<Response, StreamError> {
    let exchange = async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let session = frames::greet(&mut stream, End::Asking).await?;
        let mut message = Vec::new();
        exchange::encode_request(&request, &mut message);
        frames::write(&mut stream, sealer, &session, Direction::Request, &message).await?;
        let answer = frames::read(&mut stream, sealer, &session, Direction::Response).await;
        Ok(exchange::decode_response(&answer.map_err(perhaps_hung_up)?)?)
    };
    timeout(time, exchange).await.unwrap_or(Err(StreamError::TimedOut))
}

/// Answers on a stream that somebody opened. What is not a sealed request in half the time is not waited for: strangers hold
/// our connections no longer than they must.
pub(crate) async fn answer(
    sealer: &Sealer,
    mut stream: TcpStream,
    (ticket, addr): (Ticket, SocketAddr),
    asked: mpsc::Sender<Asked>,
    time: Duration,
) -> Result<(), StreamError> {
    let receive = async {
        stream.set_nodelay(true)?;
        let session = frames::greet(&mut stream, End::Answering).await?;
        let message = frames::read(&mut stream, sealer, &session, Direction::Request).await?;
        Ok((session, exchange::decode_request(&message)?))
    };
    let (session, request) = timeout(time / 2, receive).await.unwrap_or(Err(StreamError::TimedOut))?;
    let respond = async {
        let (reply, response) = oneshot::channel();
        asked.send(Asked { ticket, addr, request, reply }).await.map_err(|_| StreamError::Unanswered)?;
        let response = response.await.map_err(|_| StreamError::Unanswered)?;
        let message = spelled(&response);
        frames::write(&mut stream, sealer, &session, Direction::Response, &message).await
    };
    timeout(time, respond).await.unwrap_or(Err(StreamError::TimedOut))
}

/// Whoever cannot open our request hangs up on us, and says nothing.
fn perhaps_hung_up(error: StreamError) -> StreamError {
    match error {
        StreamError::Io(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) =>
        {
            StreamError::HungUp
        }
        error => error,
    }
}

/// A view that is too large for one exchange cannot be told; the asker looks for somebody else.
fn spelled(response: &Response) -> Vec<u8> {
    let mut message = Vec::new();
    exchange::encode_response(response, &mut message);
    if message.len() > MESSAGE_BYTES_MAX {
        tracing::warn!(bytes = message.len(), "response too long for a stream");
        message.clear();
        exchange::encode_response(&Response::Busy, &mut message);
    }
    message
}
