//! The body of a request on its way in: within its time, and within what all bodies may take.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use rpc::ApiError;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::budget::{FREE_BYTES, Share};
use super::guard::Kind;
use super::messages::Messages;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler reads a request from.
pub(crate) struct RequestBody {
    body: Incoming,
    kind: Kind,
    /// How long a gRPC message may take. JSON bodies are timed by whoever reads them.
    patience: Duration,
    /// Made when the body is waited for, which most never are.
    deadline: Option<Pin<Box<Sleep>>>,
    /// In a stream: where its messages end. None before the first byte.
    messages: Option<Messages>,
    /// Bytes so far; in a stream those of the message that is not complete.
    arrived: usize,
    /// What is counted of them. None for bodies that are known to be short.
    share: Option<Arc<Share>>,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, kind: Kind, patience: Duration, share: Option<Arc<Share>>) -> Self {
        RequestBody { body, kind, patience, deadline: None, messages: None, arrived: 0, share }
    }

    fn arrive(&mut self, bytes: &Bytes) -> Result<(), BoxError> {
        let before = self.arrived;
        if self.kind == Kind::Stream {
            self.arrived = self.messages.get_or_insert_default().follow(bytes);
            // A new message has its own time and its own bytes.
            if self.arrived < before + bytes.len() {
                self.deadline = None;
                if let Some(share) = self.share.as_ref().filter(|_| before >= FREE_BYTES) {
                    share.clear();
                }
                return self.charge(0);
            }
        } else {
            self.arrived += bytes.len();
        }
        self.charge(before)
    }

    /// Counts what has come since there were `before` bytes.
    fn charge(&self, before: usize) -> Result<(), BoxError> {
        let Some(share) = self.share.as_ref().filter(|_| self.arrived >= FREE_BYTES) else {
            return Ok(());
        };
        let counted = if before >= FREE_BYTES { before } else { 0 };
        share.grow(self.arrived - counted).map_err(|why| match self.kind {
            Kind::Http => why.into(),
            _ => Status::from(ApiError::from(why)).into(),
        })
    }

    /// Ready when the time is over in which a message must come. Between the messages of a stream there is none.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_between = self.messages.is_some() && self.arrived == 0;
        if self.kind == Kind::Http || is_between {
            return Poll::Pending;
        }
        let patience = self.patience;
        self.deadline.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(cx)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            return self.poll_late(cx).map(|()| {
                let why = format!("the message did not arrive within {:?}", self.patience);
                Some(Err(Status::deadline_exceeded(why).into()))
            });
        };
        let frame = frame.map(|frame| {
            let frame = frame?;
            frame.data_ref().map_or(Ok(()), |bytes| self.arrive(bytes))?;
            Ok(frame)
        });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
