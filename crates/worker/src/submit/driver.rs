//! The three conversations of a submitter with its server, each in a task of its own: submissions out, ends in,
//! acknowledgements out. Nothing is asked for twice to see whether it has changed; each of them waits to be woken. All of
//! them go on for ever against a server that does not answer.

use std::sync::Arc;
use std::time::Duration;

use model::{ErrorKind, Generation};
use rpc::{ApiError, wire};
use tokio::time;

use super::submissions::{Refusal, Sent};
use super::submitter::Shared;
use super::ticket::End;
use crate::backoff::Backoff;
use crate::client::Ends;
use crate::error::ClientError;

/// Starts the conversations; they end when the submitter is done.
pub(super) fn spawn(shared: &Arc<Shared>) {
    until_done(shared, |shared| async move { submit(&shared).await });
    until_done(shared, |shared| async move { follow(&shared).await });
    until_done(shared, |shared| async move { acknowledge(&shared).await });
}

fn until_done<F>(shared: &Arc<Shared>, talk: impl FnOnce(Arc<Shared>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let done = shared.done.clone();
    let talk = talk(Arc::clone(shared));
    tokio::spawn(async move { done.run_until_cancelled_owned(talk).await });
}

/// Submits what is due, one call at a time: what comes in meanwhile goes out together.
async fn submit(shared: &Shared) {
    let mut patience = Patience::new("submitting jobs");
    loop {
        let batch = shared.book().submissions.take_due();
        let Some(batch) = batch else {
            shared.due.notified().await;
            continue;
        };
        let (jobs, lowest, sent) = batch.into_parts();
        let request = wire::EnqueueRequest {
            // Ids of our own make it safe to repeat.
            request_id: String::new(),
            jobs,
            lowest_unacknowledged: lowest.to_string(),
        };
        match shared.client.submit(request).await {
            Ok(answer) => {
                if shared.book().submissions.accepted(sent, Generation(answer.generation)) {
                    shared.restart.notify_one();
                    patience.wait(shared, "another life of the server answers").await;
                } else {
                    patience.renew();
                }
            }
            Err(ClientError::Api(error)) if error.kind == ErrorKind::Invalid => refused(shared, sent, error),
            Err(error) => {
                shared.book().submissions.failed(sent);
                patience.bear(shared, &error).await;
            }
        }
    }
}

/// The server will never take this call.
fn refused(shared: &Shared, sent: Sent, error: ApiError) {
    let given_up = {
        let mut book = shared.book();
        let refusal = book.submissions.refused(sent);
        if let Refusal::GivenUp(id) = refusal {
            book.tell(id, Err(error.into()));
        }
        matches!(refusal, Refusal::GivenUp(_))
    };
    if given_up {
        shared.free(1);
    }
}

/// Hears how jobs end.
async fn follow(shared: &Shared) {
    let mut patience = Patience::new("hearing how jobs end");
    let client = shared.book().submissions.any_id().to_string();
    loop {
        let request = wire::EndsRequest { client: client.clone() };
        match shared.client.ends(request).await {
            Ok(mut ends) => match listen(shared, &mut ends, &mut patience).await {
                Parting::Broke(error) => patience.bear(shared, &error).await,
                Parting::Ended => patience.wait(shared, "the server ended the stream").await,
                Parting::Outlived => {}
            },
            Err(error) => patience.bear(shared, &error).await,
        }
    }
}

/// Why a stream of ends is over.
enum Parting {
    /// It failed.
    Broke(ClientError),
    /// The server ended it.
    Ended,
    /// It was with a life of the server that is not the present one.
    Outlived,
}

async fn listen(shared: &Shared, ends: &mut Ends, patience: &mut Patience) -> Parting {
    let mut followed = None;
    loop {
        let frame = tokio::select! {
            frame = ends.next() => frame,
            () = shared.restart.notified() => {
                let present = shared.book().submissions.generation();
                if followed.is_some() && followed != present {
                    return Parting::Outlived;
                }
                continue;
            }
        };
        let frame = match frame {
            Ok(Some(frame)) => frame,
            Ok(None) => return Parting::Ended,
            Err(error) => return Parting::Broke(error),
        };
        if followed.is_none() {
            let generation = Generation(frame.generation);
            followed = Some(generation);
            if shared.book().submissions.meet(generation) {
                tracing::info!(generation = frame.generation, "another life of the server: submitting again");
                shared.due.notify_one();
            }
            patience.renew();
            shared.met.notify_waiters();
        }
        take(shared, frame.ends);
    }
}

/// Tells the callers, then lets the acknowledgements go.
fn take(shared: &Shared, ends: Vec<wire::End>) {
    if ends.is_empty() {
        return;
    }
    let mut book = shared.book();
    for end in ends {
        match End::read(end) {
            Ok(end) => book.end(end),
            Err(error) => tracing::warn!(%error, "the server sent an end that cannot be read"),
        }
    }
    drop(book);
    shared.acks.notify_one();
}

/// Acknowledges ends, one call at a time: what ends meanwhile goes out together.
async fn acknowledge(shared: &Shared) {
    let mut patience = Patience::new("acknowledging ends");
    loop {
        let acks = shared.book().submissions.take_acks();
        let Some(acks) = acks else {
            shared.acks.notified().await;
            continue;
        };
        let request = wire::AcknowledgeRequest {
            ids: acks.ids.iter().map(ToString::to_string).collect(),
            lowest_unacknowledged: acks.lowest.to_string(),
        };
        match shared.client.acknowledge(request).await {
            Err(error) if !is_final(&error) => {
                shared.book().submissions.acks_failed(acks);
                patience.bear(shared, &error).await;
            }
            answer => {
                if let Err(error) = answer {
                    tracing::warn!(%error, "the server takes no acknowledgements");
                }
                patience.renew();
                let freed = shared.book().submissions.acknowledged(&acks);
                shared.free(freed);
            }
        }
    }
}

/// Whether trying again cannot help.
fn is_final(error: &ClientError) -> bool {
    matches!(error, ClientError::Api(error) if error.kind == ErrorKind::Invalid)
}

/// How a conversation waits before it tries again.
struct Patience {
    what: &'static str,
    backoff: Backoff,
    /// The trouble was logged, and lasts.
    is_known: bool,
}

impl Patience {
    fn new(what: &'static str) -> Self {
        Patience { what, backoff: Backoff::default(), is_known: false }
    }

    /// It works.
    fn renew(&mut self) {
        self.backoff.reset();
        self.is_known = false;
    }

    /// It does not work; it is tried again after a while, or as soon as the server is met elsewhere.
    async fn bear(&mut self, shared: &Shared, error: &ClientError) {
        let retry_after = match error {
            ClientError::Api(error) => error.retry_after.unwrap_or_default(),
            ClientError::Unreachable { .. } => Duration::ZERO,
        };
        if !std::mem::replace(&mut self.is_known, true) {
            tracing::warn!(what = self.what, %error, "the server does not do it now; trying again");
        }
        self.pause(shared, retry_after).await;
    }

    /// The same where nothing is wrong.
    async fn wait(&mut self, shared: &Shared, why: &'static str) {
        tracing::debug!(what = self.what, why, "trying again");
        self.pause(shared, Duration::ZERO).await;
    }

    async fn pause(&mut self, shared: &Shared, at_least: Duration) {
        // A server that has answered with a wish is there already: its wish counts.
        let met = shared.met.notified();
        let wait = self.backoff.next(rand::random()).max(at_least);
        tokio::select! {
            () = time::sleep(wait) => {}
            () = met, if at_least.is_zero() => {}
        }
    }
}
