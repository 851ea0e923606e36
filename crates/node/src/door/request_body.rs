//! The body of a request on its way in: within its time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// What a handler reads a request from.
pub(crate) struct RequestBody {
    body: Incoming,
    /// How long all of it may take; none for streams, and for bodies that are timed by whoever reads them.
    patience: Option<Duration>,
    /// Made when the body is waited for, which most never are.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, patience: Option<Duration>) -> Self {
        RequestBody { body, patience, deadline: None }
    }

    /// Ready when the time is over.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        let Some(patience) = self.patience else {
            return Poll::Pending;
        };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        deadline.as_mut().poll(cx).map(|()| patience)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let patience = ready!(self.poll_late(cx));
        let late = Status::deadline_exceeded(format!("the message did not arrive within {patience:?}"));
        Poll::Ready(Some(Err(late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
