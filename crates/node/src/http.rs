//! The HTTP/JSON door: the same messages as gRPC, with `curl` in mind. Errors are `application/problem+json`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use rpc::{ApiError, wire};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::{Answer, Api};
use crate::door;
use crate::shield::{to_the_end, while_wanted};

/// The longest `GET …/wait` may wait.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

type Shared = State<Arc<Api>>;

/// All HTTP routes.
pub(crate) fn routes(api: &Arc<Api>) -> Router {
    let body_max = api.config.limits.batch_bytes_max * 2;
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/jobs", post(enqueue).get(list))
        .route("/v1/jobs/cancel", post(cancel))
        .route("/v1/jobs/retry", post(retry))
        .route("/v1/jobs/{id}", get(job))
        .route("/v1/jobs/{id}/wait", get(wait))
        .route("/v1/jobs/{id}/cancel", post(cancel_one))
        .route("/v1/jobs/{id}/retry", post(retry_one))
        .route("/v1/stats", get(stats))
        .route("/v1/queues", get(queues))
        .route("/v1/queues/{name}", put(set_queue))
        .route("/v1/queues/{name}/pause", post(pause))
        .route("/v1/queues/{name}/resume", post(resume))
        .route("/v1/servers", get(servers))
        .route("/v1/muster", get(muster))
        .route("/v1/nodes", get(nodes))
        .route("/v1/nodes/leave", post(leave_nodes))
        .route("/v1/nodes/{id}", get(node))
        .route("/v1/nodes/{id}/forget", post(forget_node))
        .route("/v1/workers", get(workers))
        .route("/v1/workers/{id}", get(worker))
        .route("/v1/workers/{id}/drain", post(drain))
        .route("/v1/workers/{id}/kick", post(kick))
        .route("/v1/workers/{id}/heartbeat", post(heartbeat))
        .route("/v1/workers/{id}/leave", post(leave))
        .route("/v1/workers/{id}/ping", post(ping))
        .route("/v1/work/claim", post(claim))
        .route("/v1/work/renew", post(renew))
        .route("/v1/work/finish", post(finish))
        .route("/v1/work/progress", post(progress))
        .fallback(|| async {
            problem(&ApiError::not_found("there is nothing at this path; GET / lists what there is"))
        })
        .method_not_allowed_fallback(|| async {
            let error = ApiError::invalid("this path does not take this method; GET / lists what there is");
            with_status(&error, StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(DefaultBodyLimit::max(body_max))
        .with_state(Arc::clone(api))
}

async fn index() -> &'static str {
    concat!(
        "tenure ",
        env!("CARGO_PKG_VERSION"),
        "\n\n",
        "POST /v1/jobs               {\"jobs\": [{\"queue\": \"q\", \"kind\": \"k\", \"payload\": …}]}, or one job\n",
        "                            payload is any JSON value; text with \"content_type\": \"text/plain\"; bytes in payload_base64\n",
        "GET  /v1/jobs               ?queue=&kind=&state=&limit=&cursor=\n",
        "GET  /v1/jobs/{id}          GET …/wait?timeout_ms=   POST …/cancel   POST …/retry\n",
        "POST /v1/jobs/cancel        {\"ids\": […]}\n",
        "POST /v1/jobs/retry         {\"ids\": […]} or {\"queue\": \"q\"}\n",
        "GET  /v1/queues             PUT /v1/queues/{name}   POST …/pause   POST …/resume\n",
        "GET  /v1/stats             GET /v1/servers\n",
        "GET  /v1/muster\n",
        "GET  /v1/nodes              GET /v1/nodes/{id}   POST …/forget?force=   POST /v1/nodes/leave\n",
        "GET  /v1/workers            ?state=&queue=&limit=&cursor=   GET /v1/workers/{id}   POST …/drain   POST …/kick\n",
        "POST /v1/workers/{id}/ping  \"I am here\", for holders that claim by single calls; answers what to stop\n",
        "POST /v1/workers/{id}/heartbeat   {\"nonce\": 1, \"token\": \"…\", \"lease_ms\": 20000, \"profile\": {\"queues\": [\"q\"]}}   POST …/leave\n",
        "POST /v1/work/claim         {\"worker\": \"w1\", \"queues\": [\"q\"], \"limit\": 1, \"wait_ms\": 10000}\n",
        "POST /v1/work/renew         {\"worker\": \"w1\", \"holds\": [{\"job\": \"…\", \"fence\": 1}]}; answers what to stop\n",
        "POST /v1/work/progress      {\"worker\": \"w1\", \"notes\": [{\"job\": \"…\", \"fence\": 1, \"note\": …}]}\n",
        "POST /v1/work/finish        {\"worker\": \"w1\", \"reports\": [{\"job\": \"…\", \"fence\": 1, \"outcome\": \"completed\"}]}\n",
        "GET  /healthz   /readyz   /metrics\n",
    )
}

async fn readyz(State(api): Shared) -> Response {
    if api.closing.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server is going away\n").into_response();
    }
    let member = api.membership.as_ref().map_or(Ok(None), |member| member.readiness());
    let remark = match member {
        Ok(remark) => remark.map_or_else(String::new, |remark| format!("{remark}\n")),
        Err(why) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    };
    let why_not = match api.readiness.of(&api.store).await {
        // Without a registry it would put off every worker.
        Ok(()) => match api.charge.registry() {
            Ok(_) => return format!("ready\n{remark}").into_response(),
            Err(error) => error.to_string(),
        },
        Err(why_not) => why_not,
    };
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why_not}\n")).into_response()
}

async fn metrics(State(api): Shared) -> Response {
    let queues = match api.store.stats().await {
        Ok(queues) => queues,
        Err(error) => return problem(&error.into()),
    };
    let (workers, heartbeat_age) = match api.worker_counts().await {
        Ok(counts) => counts,
        Err(error) => return problem(&error),
    };
    if let Some(member) = &api.membership {
        member.sample();
    }
    match api.muster_status().await {
        Ok(status) => api.metrics.muster.show(&status, api.store.inheritance()),
        Err(error) => return problem(&error),
    }
    match api.metrics.render(&queues, &workers, heartbeat_age) {
        Ok(text) => {
            let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => problem(&ApiError::new(model::ErrorKind::Internal, error.to_string())),
    }
}

async fn enqueue(State(api): Shared, Body(body): Body) -> Response {
    /// Only whether it is a batch; the shape is chosen first, so that the error names the field that is wrong.
    #[derive(Deserialize)]
    struct Shape {
        jobs: Option<serde::de::IgnoredAny>,
    }
    let is_batch = serde_json::from_slice::<Shape>(&body).is_ok_and(|shape| shape.jobs.is_some());
    let request = if is_batch {
        parse(&body)
    } else {
        parse(&body).map(|job| wire::EnqueueRequest { jobs: vec![job], ..Default::default() })
    };
    match request {
        Ok(request) => answer(to_the_end(async move { api.enqueue(request).await }).await),
        Err(error) => problem(&error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    #[serde(default)]
    queue: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    limit: u32,
    #[serde(default)]
    cursor: String,
}

async fn list(State(api): Shared, Params(query): Params<ListQuery>) -> Response {
    let request = wire::ListJobsRequest {
        queue: query.queue,
        kind: query.kind,
        states: words(&query.state),
        limit: query.limit,
        cursor: query.cursor,
    };
    answer(api.list(request).await)
}

async fn job(State(api): Shared, Path(id): Path<String>) -> Response {
    answer(api.get(wire::GetJobRequest { id }).await)
}

#[derive(Deserialize)]
struct WaitQuery {
    timeout_ms: Option<u64>,
}

/// Answers the job as soon as it has ended, or as it is when the time is over.
async fn wait(State(api): Shared, Path(id): Path<String>, Params(query): Params<WaitQuery>) -> Response {
    let timeout = query.timeout_ms.map_or(WAIT_MAX, Duration::from_millis).min(WAIT_MAX);
    let watched = match id.parse() {
        Ok(id) => id,
        Err(error) => return problem(&ApiError::from(error)),
    };
    let mut events = api.watchers.subscribe(vec![watched], &[]);
    let ended = async {
        loop {
            let job = api.get(wire::GetJobRequest { id: id.clone() }).await?;
            if model::State::from_word(&job.state).is_some_and(model::State::is_terminal) {
                return Ok(job);
            }
            // Any event of this job, or having missed some, is a reason to look again.
            while let Ok(event) = events.next().await {
                if event.id == job.id {
                    break;
                }
            }
        }
    };
    let ended = tokio::select! {
        ended = tokio::time::timeout(timeout, ended) => ended.ok(),
        () = api.closing.cancelled() => None,
    };
    match ended {
        Some(ended) => answer(ended),
        None => answer(api.get(wire::GetJobRequest { id: id.clone() }).await),
    }
}

async fn cancel(State(api): Shared, Json(request): Json<wire::CancelRequest>) -> Response {
    answer(to_the_end(async move { api.cancel(request).await }).await)
}

async fn cancel_one(State(api): Shared, Path(id): Path<String>) -> Response {
    let cancelled = to_the_end(async move { api.cancel(wire::CancelRequest { ids: vec![id] }).await }).await;
    answer(cancelled.and_then(|response| {
        let one = response.jobs.into_iter().next().expect("one answer for each id");
        if one.answer == "unknown" {
            Err(ApiError::not_found(format!("there is no job {}", one.id)))
        } else {
            Ok(one)
        }
    }))
}

async fn retry(State(api): Shared, Json(request): Json<wire::RetryRequest>) -> Response {
    answer(to_the_end(async move { api.retry(request).await }).await)
}

async fn retry_one(State(api): Shared, Path(id): Path<String>) -> Response {
    let request = wire::RetryRequest { ids: vec![id], ..Default::default() };
    let retried = to_the_end(async move { api.retry(request).await }).await;
    answer(retried.and_then(|response| {
        let one = response.jobs.into_iter().next().expect("one answer for each id");
        let refused = |why: String| Err(ApiError::new(model::ErrorKind::Refused, why));
        match one.answer.as_str() {
            "unknown" => Err(ApiError::not_found(format!("there is no job {}", one.id))),
            "not_ended" => refused(format!(
                "job {} is {}; only dead or cancelled jobs can be retried",
                one.id, one.state
            )),
            "key_taken" => refused(format!("the unique key of job {} is taken by another job now", one.id)),
            _ => Ok(one),
        }
    }))
}

async fn stats(State(api): Shared) -> Response {
    answer(api.stats().await)
}

async fn queues(State(api): Shared) -> Response {
    answer(api.queues().await)
}

async fn set_queue(
    State(api): Shared,
    Path(name): Path<String>,
    Json(request): Json<wire::SetQueueRequest>,
) -> Response {
    change_queue(api, wire::SetQueueRequest { name, ..request }).await
}

async fn change_queue(api: Arc<Api>, request: wire::SetQueueRequest) -> Response {
    answer(to_the_end(async move { api.set_queue(request).await }).await)
}

async fn pause(State(api): Shared, Path(name): Path<String>) -> Response {
    change_queue(api, wire::SetQueueRequest { name, paused: Some(true), ..Default::default() }).await
}

async fn resume(State(api): Shared, Path(name): Path<String>) -> Response {
    change_queue(api, wire::SetQueueRequest { name, paused: Some(false), ..Default::default() }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkersQuery {
    #[serde(default)]
    state: String,
    #[serde(default)]
    queue: String,
    #[serde(default)]
    limit: u32,
    #[serde(default)]
    cursor: String,
}

async fn workers(State(api): Shared, Params(query): Params<WorkersQuery>) -> Response {
    let request = wire::ListWorkersRequest {
        states: words(&query.state),
        queue: query.queue,
        limit: query.limit,
        cursor: query.cursor,
    };
    answer(api.list_workers(request).await)
}

async fn servers(State(api): Shared) -> Response {
    answer(api.list_servers())
}

async fn muster(State(api): Shared) -> Response {
    answer(api.muster_status().await)
}

async fn nodes(State(api): Shared) -> Response {
    answer(api.list_nodes())
}

async fn node(State(api): Shared, Path(id): Path<String>) -> Response {
    answer(node_id(&id).and_then(|id| api.get_node(wire::GetNodeRequest { id })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgetQuery {
    #[serde(default)]
    force: bool,
}

async fn forget_node(
    State(api): Shared,
    Path(id): Path<String>,
    Params(query): Params<ForgetQuery>,
) -> Response {
    let request = match node_id(&id) {
        Ok(id) => wire::ForgetNodeRequest { id, force: query.force },
        Err(error) => return problem(&error),
    };
    answer(to_the_end(async move { api.forget_node(request).await }).await)
}

async fn leave_nodes(State(api): Shared) -> Response {
    answer(to_the_end(async move { api.leave_nodes(wire::LeaveNodesRequest {}).await }).await)
}

fn node_id(text: &str) -> Answer<u32> {
    text.parse().map_err(|_| ApiError::invalid(format!("{text:?} is not the number of a node")))
}

async fn worker(State(api): Shared, Path(key): Path<String>) -> Response {
    answer(api.get_worker(wire::GetWorkerRequest { key }).await)
}

async fn drain(State(api): Shared, Path(key): Path<String>) -> Response {
    answer(to_the_end(async move { api.drain_worker(wire::DrainWorkerRequest { key }).await }).await)
}

async fn kick(State(api): Shared, Path(key): Path<String>) -> Response {
    answer(to_the_end(async move { api.kick_worker(wire::KickWorkerRequest { key }).await }).await)
}

async fn heartbeat(
    State(api): Shared,
    Path(worker): Path<String>,
    Json(beat): Json<wire::Heartbeat>,
) -> Response {
    let mut beat = wire::Heartbeat { worker, ..beat };
    if let Some(profile) = &mut beat.profile {
        profile.worker.clone_from(&beat.worker);
    }
    answer(to_the_end(async move { api.heartbeat(beat).await }).await)
}

async fn leave(
    State(api): Shared,
    Path(worker): Path<String>,
    Json(request): Json<wire::LeaveRequest>,
) -> Response {
    let request = wire::LeaveRequest { worker, ..request };
    answer(to_the_end(async move { api.leave_unary(request).await }).await)
}

async fn ping(State(api): Shared, Path(worker): Path<String>) -> Response {
    answer(to_the_end(async move { api.ping(wire::PingRequest { worker }).await }).await)
}

async fn claim(State(api): Shared, Json(request): Json<wire::ClaimRequest>) -> Response {
    answer(while_wanted(|gone| async move { api.claim(request, gone).await }).await)
}

async fn renew(State(api): Shared, Json(request): Json<wire::RenewRequest>) -> Response {
    answer(to_the_end(async move { api.renew(request).await }).await)
}

async fn finish(State(api): Shared, Json(request): Json<wire::FinishRequest>) -> Response {
    answer(to_the_end(async move { api.finish(request).await }).await)
}

async fn progress(State(api): Shared, Json(request): Json<wire::ProgressRequest>) -> Response {
    answer(to_the_end(async move { api.progress(request).await }).await)
}

/// A request's body, whole, within its size and its time.
struct Body(Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await {
            Ok(Ok(bytes)) => Ok(Body(bytes)),
            Ok(Err(rejection)) => {
                if let Some(why) = door::no_room(&rejection) {
                    return Err(problem(&why.into()));
                }
                Err(with_status(&ApiError::invalid(rejection.body_text()), rejection.status()))
            }
            Err(_) => {
                let error = ApiError::invalid(format!("the body did not arrive within {BODY_TIMEOUT:?}"));
                Err(with_status(&error, StatusCode::REQUEST_TIMEOUT))
            }
        }
    }
}

/// A body that is one of our messages.
struct Json<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let Body(bytes) = Body::from_request(request, state).await?;
        parse(&bytes).map(Json).map_err(|error| problem(&error))
    }
}

/// What stands behind the question mark.
struct Params<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Query(query) = Query::from_request_parts(parts, state)
            .await
            .map_err(|rejection| problem(&ApiError::invalid(rejection.body_text())))?;
        Ok(Params(query))
    }
}

/// What stands in the place of a name in the path.
struct Path<T>(T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let axum::extract::Path(part) = axum::extract::Path::from_request_parts(parts, state)
            .await
            .map_err(|rejection| problem(&ApiError::invalid(rejection.body_text())))?;
        Ok(Path(part))
    }
}

/// Words separated by commas.
fn words(list: &str) -> Vec<String> {
    list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Answer<T> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::invalid(format!("the body is not the JSON expected here: {error}")))
}

fn answer<T: Serialize>(answer: Answer<T>) -> Response {
    match answer {
        Ok(value) => axum::Json(value).into_response(),
        Err(error) => problem(&error),
    }
}

fn problem(error: &ApiError) -> Response {
    with_status(error, StatusCode::from_u16(error.http_status()).expect("the table holds valid statuses"))
}

pub(crate) fn with_status(error: &ApiError, status: StatusCode) -> Response {
    let mut problem = error.to_problem();
    problem.status = status.as_u16();
    let mut response = (status, axum::Json(problem)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(span) = error.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(span.as_secs().max(1)));
    }
    response
}
