//! The way of one request: judged, given to the door it wants, answered.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::{Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::answer_body::AnswerBody;
use super::blame;
use super::budget::{Budget, FREE_BYTES, Share};
use super::connection::{Call, Connection};
use super::guard::{self, Guard, Kind};
use super::hosts::Hosts;
use super::metrics::{DoorMetrics, Reason};
use super::refusal::Refusal;
use super::request_body::RequestBody;
use crate::api::Api;
use crate::{grpc, http as json};

/// What a page of jobs takes while it is read and written down.
const PAGE_BYTES: usize = 4 << 20;

/// Both doors, and who stands before them.
pub(crate) struct Entrance {
    guard: Guard,
    doors: TowerToHyperService<Router>,
    budget: Arc<Budget>,
    metrics: DoorMetrics,
    message_timeout: Duration,
}

impl Entrance {
    pub(crate) fn new(api: &Arc<Api>) -> Self {
        let hosts = Hosts::new(&api.config.door.hosts, &api.config.address);
        Entrance {
            guard: Guard::new(hosts),
            doors: TowerToHyperService::new(grpc::routes(api).fallback_service(json::routes(api))),
            budget: Budget::new(api.config.door.inflight_bytes_max),
            metrics: api.metrics.door.clone(),
            message_timeout: api.config.door.message_timeout,
        }
    }

    /// Bytes on their way, of those that are counted.
    pub(crate) fn inflight_bytes(&self) -> usize {
        self.budget.used()
    }

    /// Answers one request of this connection.
    pub(crate) async fn answer(
        &self,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        match self.guard.judge(&request) {
            Ok(kind) => self.let_in(connection, kind, request).await,
            Err(refusal) => Ok(self.refuse(refusal, &request)),
        }
    }

    async fn let_in(
        &self,
        connection: &Arc<Connection>,
        kind: Kind,
        request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let call = Call::begin(connection);
        // Counted until the request is answered, though its body is read long before.
        let is_short = request.body().size_hint().upper().is_some_and(|bytes| bytes < FREE_BYTES as u64);
        let makes_page = guard::makes_page(&request);
        let share = (makes_page || !is_short).then(|| Arc::new(Share::new(&self.budget)));
        if makes_page && let Some(Err(why)) = share.as_ref().map(|share| share.grow(PAGE_BYTES)) {
            return Ok(self.refuse(Refusal::no_room(why), &request));
        }
        let (head, body) = request.into_parts();
        let body = RequestBody::new(body, kind, self.message_timeout, share.clone());
        let response = self.doors.call(Request::from_parts(head, body)).await?;
        drop(share);
        let (mut head, body) = response.into_parts();
        blame::correct(&mut head.headers);
        match AnswerBody::new(body, kind, call, &self.budget) {
            Ok(body) => Ok(Response::from_parts(head, body)),
            // Only answers over HTTP have a length that is known before.
            Err(why) => {
                self.metrics.refuse(Reason::Room);
                let answer = json::with_status(&why.into(), StatusCode::SERVICE_UNAVAILABLE);
                Ok(answer.map(|body| AnswerBody::words(body, &self.budget)))
            }
        }
    }

    fn refuse(&self, refusal: Refusal, request: &Request<Incoming>) -> Response<AnswerBody> {
        self.metrics.refuse(refusal.reason());
        refusal.answer(request).map(|body| AnswerBody::words(body, &self.budget))
    }
}
