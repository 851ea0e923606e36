//! The way of one request: judged, given to the door it wants, answered.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::blame;
use super::guard::{Guard, Kind};
use super::hosts::Hosts;
use super::metrics::DoorMetrics;
use super::request_body::RequestBody;
use crate::api::Api;
use crate::{grpc, http as json};

/// Both doors, and who stands before them.
pub(crate) struct Entrance {
    guard: Guard,
    doors: TowerToHyperService<Router>,
    metrics: DoorMetrics,
    message_timeout: Duration,
}

impl Entrance {
    pub(crate) fn new(api: &Arc<Api>) -> Self {
        let hosts = Hosts::new(&api.config.door.hosts, &api.config.address);
        Entrance {
            guard: Guard::new(hosts),
            doors: TowerToHyperService::new(grpc::routes(api).fallback_service(json::routes(api))),
            metrics: api.metrics.door.clone(),
            message_timeout: api.config.door.message_timeout,
        }
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        match self.guard.judge(&request) {
            Ok(kind) => {
                let patience = (kind == Kind::Unary).then_some(self.message_timeout);
                let answered = self.doors.call(request.map(|body| RequestBody::new(body, patience))).await;
                answered.map(|mut response| {
                    blame::correct(response.headers_mut());
                    response
                })
            }
            Err(refusal) => {
                self.metrics.refuse(refusal.reason());
                Ok(refusal.answer(&request))
            }
        }
    }
}
