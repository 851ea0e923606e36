//! An answer on its way out: counted until the client has taken it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body as Inner;
use bytes::{Buf, Bytes};
use http::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use rpc::ApiError;
use tonic::Status;

use super::budget::{Budget, FREE_BYTES, NoRoom, Share};
use super::connection::{Call, Waiting};
use super::guard::Kind;

/// The body of an answer.
pub(crate) struct AnswerBody {
    body: Inner,
    kind: Kind,
    /// None for what is answered at the door itself.
    call: Option<Call>,
    budget: Arc<Budget>,
    /// Of an answer whose length is known: all of it.
    whole: Option<Arc<Share>>,
    /// Streams may wait for their client as long as they like.
    _waiting: Option<Waiting>,
}

/// A part of an answer. It is held by the connection until the client has taken it.
pub(crate) struct Held {
    bytes: Bytes,
    hold: Option<(Arc<Share>, Waiting)>,
}

impl AnswerBody {
    /// The answer to this call, if there is room for it.
    pub(crate) fn new(body: Inner, kind: Kind, call: Call, budget: &Arc<Budget>) -> Result<Self, NoRoom> {
        let is_stream = matches!(kind, Kind::Stream | Kind::Watch);
        let length = body.size_hint().exact().unwrap_or(0) as usize;
        let whole = if length < FREE_BYTES {
            None
        } else {
            let share = Share::new(budget);
            share.grow(length)?;
            Some(Arc::new(share))
        };
        let waiting = (!is_stream && !body.is_end_stream()).then(|| Waiting::begin(call.connection()));
        Ok(AnswerBody { body, kind, call: Some(call), budget: Arc::clone(budget), whole, _waiting: waiting })
    }

    /// A few words that count for nothing.
    pub(crate) fn words(body: Inner, budget: &Arc<Budget>) -> Self {
        let budget = Arc::clone(budget);
        AnswerBody { body, kind: Kind::Http, call: None, budget, whole: None, _waiting: None }
    }

    fn hold(&self, bytes: Bytes) -> Result<Held, NoRoom> {
        let Some(call) = self.call.as_ref().filter(|_| bytes.len() >= FREE_BYTES) else {
            return Ok(Held { bytes, hold: None });
        };
        let share = match &self.whole {
            Some(whole) => Arc::clone(whole),
            None => {
                let share = Share::new(&self.budget);
                match self.kind {
                    // What a stream does not say now would be missing from it for ever.
                    Kind::Stream | Kind::Watch => share.grow_anyway(bytes.len()),
                    Kind::Http | Kind::Unary => share.grow(bytes.len())?,
                }
                Arc::new(share)
            }
        };
        Ok(Held { bytes, hold: Some((share, Waiting::begin(call.connection()))) })
    }
}

impl Body for AnswerBody {
    type Data = Held;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Held>, axum::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        let answered = frame.map(|frame| match frame.into_data() {
            Ok(bytes) => match self.hold(bytes) {
                Ok(held) => Frame::data(held),
                Err(why) => {
                    self.body = Inner::empty();
                    Frame::trailers(trailers(why))
                }
            },
            Err(frame) => Frame::trailers(frame.into_trailers().unwrap_or_default()),
        });
        Poll::Ready(Some(answered))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How a gRPC answer ends for which there was no room.
fn trailers(why: NoRoom) -> HeaderMap {
    Status::from(ApiError::from(why)).into_http::<()>().into_parts().0.headers
}

impl Buf for Held {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some((_, waiting)) = &self.hold {
            waiting.take();
        }
    }
}
