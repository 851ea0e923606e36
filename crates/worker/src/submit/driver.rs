//! The conversation of a submitter with its server: one stream at a time, for ever against a server that does not answer.
//! Nothing is asked for twice to see whether it has changed.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use model::{Generation, JobId};
use rpc::{ApiError, wire};
use tokio::time;

use super::submissions::Next;
use super::submitter::Shared;
use super::ticket::End;
use crate::backoff::Backoff;
use crate::client::Answers;
use crate::error::ClientError;

/// How long an acknowledgement waits for a job to go with. Nothing hangs on it: the server remembers the end meanwhile.
const ACKNOWLEDGE_WAIT: Duration = Duration::from_millis(10);

/// A server that has no room is asked again no sooner and no later than that, whatever it says.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

/// Starts the conversation; it ends when the submitter is done.
pub(super) fn spawn(shared: &Arc<Shared>) {
    let done = shared.done.clone();
    let talk = talk(Arc::clone(shared));
    tokio::spawn(async move { done.run_until_cancelled_owned(talk).await });
}

async fn talk(shared: Arc<Shared>) {
    let mut patience = Patience::default();
    loop {
        let ended = match shared.client.submissions(|| outgoing(Arc::clone(&shared))).await {
            Ok(mut answers) => listen(&shared, &mut answers, &mut patience).await,
            Err(error) => Err(error),
        };
        patience.pause(ended).await;
    }
}

/// What is said over one stream, as soon as there is something to say.
fn outgoing(shared: Arc<Shared>) -> impl Stream<Item = wire::SubmitFrame> + Send + 'static {
    let id = shared.book().submissions.open();
    // The stream before, if it still waits for something to say.
    shared.due.notify_one();
    let done = shared.done.clone().cancelled_owned();
    let frames = stream::unfold(shared, move |shared| async move {
        loop {
            let next = shared.book().submissions.next_frame(id);
            match next {
                Next::Frame(frame) => return Some((frame, shared)),
                Next::Nothing => shared.due.notified().await,
                Next::Over => {
                    // What woke us was meant for the stream that followed.
                    shared.due.notify_one();
                    return None;
                }
            }
        }
    });
    frames.take_until(done)
}

/// Until the stream breaks or the server ends it.
async fn listen(shared: &Shared, answers: &mut Answers, patience: &mut Patience) -> Result<(), ClientError> {
    let mut is_met = false;
    // Left as it is when the acknowledgements have gone: a timer for each of them would cost more than they do.
    let mut acks_wait = std::pin::pin!(None);
    let mut pause = std::pin::pin!(None);
    loop {
        let answer = tokio::select! {
            answer = answers.next() => answer?,
            () = async { acks_wait.as_mut().as_pin_mut().expect("it waits").await }, if acks_wait.is_some() => {
                acks_wait.set(None);
                shared.hurry();
                continue;
            }
            () = async { pause.as_mut().as_pin_mut().expect("it waits").await }, if pause.is_some() => {
                pause.set(None);
                if shared.book().submissions.try_again() {
                    shared.due.notify_one();
                }
                continue;
            }
        };
        let Some(answer) = answer else { return Ok(()) };
        if !std::mem::replace(&mut is_met, true) {
            patience.renew();
            if shared.book().submissions.meet(Generation(answer.generation), answer.memory) {
                tracing::info!(
                    generation = answer.generation,
                    "another life of the server, or it has forgotten what it had: submitting again"
                );
                shared.due.notify_one();
            }
        }
        let retry_after = Duration::from_millis(u64::from(answer.retry_after_ms));
        take(shared, answer);
        if pause.is_none() && shared.book().submissions.is_paused() {
            pause.set(Some(time::sleep(retry_after.clamp(*PAUSE.start(), *PAUSE.end()))));
        }
        if acks_wait.is_none() && shared.book().submissions.has_acks() {
            acks_wait.set(Some(time::sleep(ACKNOWLEDGE_WAIT)));
        }
    }
}

/// Tells the callers, and makes room for others.
fn take(shared: &Shared, answer: wire::SubmitAnswer) {
    let mut book = shared.book();
    if answer.frames > 0 {
        let postponed: Vec<JobId> = answer.postponed.iter().filter_map(|id| id.parse().ok()).collect();
        if book.submissions.postponed(&postponed) {
            tracing::warn!("the server has no room for more jobs; submitting as some of them end");
        }
    }
    let is_more_due = book.submissions.answered(answer.frames as usize);
    let mut freed = 0;
    for wire::Refusal { id, error } in answer.refusals {
        match id.parse() {
            Ok(id) => freed += usize::from(book.refuse(id, ApiError::invalid(error))),
            Err(error) => tracing::warn!(%error, "the server refused a job whose id cannot be read"),
        }
    }
    for end in answer.ends {
        match End::read(end) {
            Ok(end) => freed += usize::from(book.end(end)),
            Err(error) => tracing::warn!(%error, "the server sent an end that cannot be read"),
        }
    }
    let is_urgent = book.is_urgent();
    drop(book);
    if is_more_due {
        shared.due.notify_one();
    }
    if is_urgent {
        shared.hurry();
    }
    shared.free(freed);
}

/// How the conversation waits before it is taken up again.
#[derive(Default)]
struct Patience {
    backoff: Backoff,
    /// The trouble was logged, and lasts.
    is_known: bool,
}

impl Patience {
    /// It works.
    fn renew(&mut self) {
        self.backoff.reset();
        self.is_known = false;
    }

    async fn pause(&mut self, ended: Result<(), ClientError>) {
        let mut wait = self.backoff.next(rand::random());
        match ended {
            Ok(()) => tracing::debug!("the server ended the stream; opening another"),
            Err(error) => {
                if let ClientError::Api(ApiError { retry_after: Some(at_least), .. }) = error {
                    wait = wait.max(at_least);
                }
                if !std::mem::replace(&mut self.is_known, true) {
                    tracing::warn!(%error, "the server takes no submissions now; trying again");
                }
            }
        }
        time::sleep(wait).await;
    }
}
