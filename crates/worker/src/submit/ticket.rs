//! What a submission gives to its caller, and what becomes of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use model::{ErrorKind, Invalid, JobId, State};
use rpc::{ApiError, wire};
use tokio::sync::oneshot;

use crate::error::ClientError;

/// How a volatile job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Which job.
    pub id: JobId,
    /// [`State::Completed`], [`State::Cancelled`] or [`State::Dead`].
    pub state: State,
    /// What its handler returned, if it completed.
    pub result: Bytes,
    /// What went wrong, if it did not.
    pub error: String,
    /// Which counted start of it ended so, from 1.
    pub attempt: u32,
}

impl End {
    /// Whether its handler completed it.
    pub fn is_completed(&self) -> bool {
        self.state == State::Completed
    }

    pub(super) fn read(end: wire::End) -> Result<End, Invalid> {
        let state = State::from_word(&end.state)
            .ok_or_else(|| Invalid::new(format!("state {:?} is not known to this client", end.state)))?;
        Ok(End { id: end.id.parse()?, state, result: end.result, error: end.error, attempt: end.attempt })
    }
}

/// The claim to the end of one submission: a future of it. Dropping it cancels nothing; the job runs all the same, and its end
/// is acknowledged without it.
///
/// It ends with an error only if the server refuses the submission for good, or if the submitter is gone.
#[derive(Debug)]
#[must_use = "a ticket is the only way to learn how the job ended; drop it explicitly if nobody wants to know"]
pub struct Ticket {
    id: JobId,
    end: oneshot::Receiver<Result<End, ClientError>>,
}

/// The other half of a ticket.
pub(super) type Caller = oneshot::Sender<Result<End, ClientError>>;

impl Ticket {
    pub(super) fn new(id: JobId, end: oneshot::Receiver<Result<End, ClientError>>) -> Self {
        Ticket { id, end }
    }

    /// The id under which the job was submitted, also after a restart of the server.
    pub fn id(&self) -> JobId {
        self.id
    }
}

impl Future for Ticket {
    type Output = Result<End, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.end).poll(context).map(|end| end.unwrap_or_else(|_| Err(gone())))
    }
}

fn gone() -> ClientError {
    ApiError::new(ErrorKind::Unavailable, "the submitter is gone, and with it how the job ended").into()
}
