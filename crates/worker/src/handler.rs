//! From an assignment to a handler's future and back to an outcome.
//!
//! Typed handlers take and give serde values as JSON; raw ones take and give bytes. Whatever such a handler does (return,
//! fail, panic, be aborted), exactly one end reaches the session. Commands are another kind of handler; `exec` runs them.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use lease::ledger::Ended;
use model::{Clock, Hold, Limits, Retry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;

use crate::context::JobContext;
use crate::exec::ExecRunner;
use crate::home::JobEvent;
use crate::job_error::JobError;

/// The name under which the handler for all other kinds is registered.
pub const ANY_KIND: &str = "*";

type Run = Pin<Box<dyn Future<Output = Result<Bytes, JobError>> + Send>>;

/// What to do with a job.
#[derive(Clone)]
pub(crate) enum Handler {
    /// Call this, inside this process.
    Inside(Inside),
    /// Run a process.
    Exec(Arc<ExecRunner>),
}

/// A function with its types erased.
#[derive(Clone)]
pub(crate) struct Inside(Arc<dyn Fn(JobContext, Bytes) -> Run + Send + Sync>);

impl Handler {
    /// Bytes in, bytes out.
    pub(crate) fn raw<F, R>(handle: F) -> Self
    where
        F: Fn(JobContext, Bytes) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Bytes, JobError>> + Send + 'static,
    {
        Handler::Inside(Inside(Arc::new(move |context, payload| Box::pin(handle(context, payload)))))
    }

    /// JSON in, JSON out. A payload that does not parse makes the job dead: trying again would not change it.
    pub(crate) fn typed<P, T, F, R>(handle: F) -> Self
    where
        P: DeserializeOwned,
        T: Serialize,
        F: Fn(JobContext, P) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, JobError>> + Send + 'static,
    {
        Handler::Inside(Inside(Arc::new(move |context, payload| match parse(&payload) {
            Ok(payload) => {
                let run = handle(context, payload);
                Box::pin(async move { encode(&run.await?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        })))
    }
}

impl Inside {
    /// Runs a job to its end. The end is sent even if this future is dropped half-way or before its first poll.
    pub(crate) fn run(
        self,
        context: JobContext,
        payload: Bytes,
        events: UnboundedSender<JobEvent>,
    ) -> impl Future<Output = ()> + Send {
        let end = End { hold: context.hold(), ended: Some(Ended::Aborted), events, clock: context.clock() };
        async move {
            // The call itself is inside, since a handler may panic before its first await point.
            let caught =
                AssertUnwindSafe(async move { (self.0)(context, payload).await }).catch_unwind().await;
            end.with(match caught {
                Ok(result) => ended(result),
                Err(panic) => failed(JobError::retry(format!("handler panicked: {}", panic_text(&*panic)))),
            });
        }
    }
}

/// The handlers of a worker, by kind.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    by_kind: HashMap<String, Handler>,
    any: Option<Handler>,
    heartbeat_timeouts: HashMap<String, Duration>,
}

impl Handlers {
    /// Registers a handler; a second one for the same kind replaces the first.
    pub(crate) fn insert(&mut self, kind: &str, handler: Handler) {
        if kind == ANY_KIND {
            self.any = Some(handler);
        } else {
            self.by_kind.insert(kind.to_owned(), handler);
        }
    }

    /// Handlers of this kind must say this often that they get on.
    pub(crate) fn set_heartbeat_timeout(&mut self, kind: &str, timeout: Duration) {
        self.heartbeat_timeouts.insert(kind.to_owned(), timeout);
    }

    /// How often the handler that takes this kind must say that it gets on.
    pub(crate) fn heartbeat_timeout(&self, kind: &str) -> Option<Duration> {
        let registered = if self.by_kind.contains_key(kind) { kind } else { ANY_KIND };
        self.heartbeat_timeouts.get(registered).copied()
    }

    /// Kinds with a heartbeat timeout, and these.
    pub(crate) fn heartbeat_timeouts(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.heartbeat_timeouts.iter().map(|(kind, timeout)| (kind.as_str(), *timeout))
    }

    /// Whether a handler was registered under exactly this name.
    pub(crate) fn has(&self, kind: &str) -> bool {
        if kind == ANY_KIND { self.any.is_some() } else { self.by_kind.contains_key(kind) }
    }

    pub(crate) fn find(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind).or(self.any.as_ref())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Whether some jobs are run as processes.
    pub(crate) fn has_exec(&self) -> bool {
        self.all().any(|handler| matches!(handler, Handler::Exec(_)))
    }

    /// Whether some jobs are run inside this process.
    pub(crate) fn has_inside(&self) -> bool {
        self.all().any(|handler| matches!(handler, Handler::Inside(_)))
    }

    fn all(&self) -> impl Iterator<Item = &Handler> {
        self.by_kind.values().chain(&self.any)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = self.any.as_ref().map(|_| ANY_KIND);
        f.debug_set().entries(self.by_kind.keys().map(String::as_str).chain(any)).finish()
    }
}

/// The end of a job whose kind nobody handles here: another worker may, so it is retried.
pub(crate) fn unhandled(kind: &str) -> Ended {
    failed(JobError::retry(format!("no handler for kind {kind} on this worker")))
}

/// Sends how the job ended when it goes out of scope, which also happens when its task is aborted.
struct End {
    hold: Hold,
    ended: Option<Ended>,
    events: UnboundedSender<JobEvent>,
    clock: Arc<dyn Clock>,
}

impl End {
    /// Ends with this.
    fn with(mut self, ended: Ended) {
        self.ended = Some(ended);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            // Nobody listens when the worker has ended; then there is nobody to tell.
            let at = Some(self.clock.monotonic());
            let _ = self.events.send(JobEvent::Finished { hold: self.hold, ended, at });
        }
    }
}

/// What the session is told of a job that returned this.
pub(crate) fn ended(result: Result<Bytes, JobError>) -> Ended {
    match result {
        Ok(result) => completed(result),
        Err(error) => failed(error),
    }
}

fn parse<P: DeserializeOwned>(payload: &[u8]) -> Result<P, JobError> {
    // An absent payload is null on the JSON side of the wire.
    let json = if payload.is_empty() { b"null" } else { payload };
    serde_json::from_slice(json).map_err(|error| JobError::dead(format!("payload does not parse: {error}")))
}

fn encode(result: &impl Serialize) -> Result<Bytes, JobError> {
    let json = serde_json::to_vec(result)
        .map_err(|error| JobError::dead(format!("result cannot be written as JSON: {error}")))?;
    Ok(if json == b"null" { Bytes::new() } else { json.into() })
}

fn completed(result: Bytes) -> Ended {
    let bytes_max = Limits::default().result_bytes_max;
    if result.len() > bytes_max {
        // The work is done, and doing it again would give the same result.
        return failed(JobError::dead(format!(
            "result has {} bytes; at most {bytes_max} are allowed: store it elsewhere and return where",
            result.len()
        )));
    }
    Ended::Completed(result)
}

fn failed(error: JobError) -> Ended {
    let (error, retry): (String, Retry) = error.into_parts();
    Ended::Failed { error: last_part(error, Limits::ERROR_BYTES_MAX), retry }
}

/// The last part of a text, where the cause usually is.
fn last_part(text: String, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text;
    }
    let start = (text.len() - bytes_max..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text[start..].to_owned()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::context;

    async fn check(handler: Handler, payload: &'static str) -> Ended {
        let (events, mut received) = tokio::sync::mpsc::unbounded_channel();
        let Handler::Inside(handler) = handler else { panic!("not a function") };
        handler.run(context("welcome"), Bytes::from_static(payload.as_bytes()), events).await;
        match received.recv().await {
            Some(JobEvent::Finished { ended, .. }) => ended,
            other => panic!("expected an end, got {other:?}"),
        }
    }

    fn error(ended: Ended) -> (String, Retry) {
        match ended {
            Ended::Failed { error, retry } => (error, retry),
            other => panic!("expected a failure, got {other:?}"),
        }
    }

    #[derive(serde::Deserialize)]
    struct Welcome {
        name: String,
    }

    fn greet() -> Handler {
        Handler::typed(|_, welcome: Welcome| async move { Ok(format!("hello {}", welcome.name)) })
    }

    #[tokio::test]
    async fn typed_handlers_speak_json() {
        assert_eq!(check(greet(), r#"{"name":"Ada"}"#).await, Ended::Completed("\"hello Ada\"".into()));
    }

    #[tokio::test]
    async fn nothing_in_and_nothing_out_is_empty() {
        let handler = Handler::typed(|_, (): ()| async { Ok(()) });
        assert_eq!(check(handler.clone(), "").await, Ended::Completed(Bytes::new()));
        assert_eq!(check(handler, "null").await, Ended::Completed(Bytes::new()));
    }

    #[tokio::test]
    async fn a_payload_that_does_not_parse_is_dead() {
        let (text, retry) = error(check(greet(), r#"{"nom":"Ada"}"#).await);
        assert_eq!(retry, Retry::Never);
        assert!(text.starts_with("payload does not parse: missing field `name`"), "{text}");
    }

    #[tokio::test]
    async fn panics_are_failures_wherever_they_happen() {
        let early =
            Handler::raw(|_, _| -> std::future::Ready<Result<Bytes, JobError>> { panic!("too early") });
        assert_eq!(error(check(early, "").await), ("handler panicked: too early".into(), Retry::ByPolicy));
        let late = Handler::raw(|_, payload: Bytes| async move {
            tokio::task::yield_now().await;
            panic!("{} bytes", payload.len())
        });
        assert_eq!(error(check(late, "abc").await).0, "handler panicked: 3 bytes");
    }

    #[tokio::test]
    async fn an_aborted_task_still_ends() {
        let (events, mut received) = tokio::sync::mpsc::unbounded_channel();
        let forever = Handler::raw(|_, _| std::future::pending());
        let Handler::Inside(forever) = forever else { panic!("not a function") };
        let task = tokio::spawn(forever.run(context("welcome"), Bytes::new(), events));
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let event = received.recv().await;
        assert!(matches!(event, Some(JobEvent::Finished { ended: Ended::Aborted, .. })), "{event:?}");
    }

    #[tokio::test]
    async fn results_are_bounded_and_errors_keep_their_end() {
        let large = Handler::raw(|_, _| async { Ok(Bytes::from(vec![0; (1 << 20) + 1])) });
        let (text, retry) = error(check(large, "").await);
        assert_eq!(retry, Retry::Never);
        assert!(text.contains("1048577 bytes; at most 1048576"), "{text}");
        let wordy =
            Handler::raw(|_, _| async { Err(JobError::retry(format!("{}the cause", "é".repeat(5000)))) });
        let (text, _) = error(check(wordy, "").await);
        assert!(text.len() <= Limits::ERROR_BYTES_MAX && text.ends_with("the cause"), "{} bytes", text.len());
    }

    #[test]
    fn the_kind_decides_and_the_star_takes_the_rest() {
        let mut handlers = Handlers::default();
        assert!(handlers.is_empty() && handlers.find("welcome").is_none());
        handlers.insert("welcome", greet());
        assert!(handlers.find("welcome").is_some() && handlers.find("other").is_none());
        handlers.insert(ANY_KIND, Handler::raw(|_, payload| async { Ok(payload) }));
        assert!(handlers.find("other").is_some());
        handlers.set_heartbeat_timeout(ANY_KIND, Duration::from_secs(9));
        assert_eq!(handlers.heartbeat_timeout("other"), Some(Duration::from_secs(9)));
        assert_eq!(handlers.heartbeat_timeout("welcome"), None, "it has a handler of its own");
        assert_eq!(error(unhandled("other")).0, "no handler for kind other on this worker");
    }
}
