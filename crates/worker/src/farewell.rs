//! The last words under a key that is over: since when nothing that ran under it runs any more.
//!
//! What waits for that, jobs of exclusive queues after a kick for instance, can then go on elsewhere at once. Where nothing waits
//! for it, because the lease has ended, the server learns whether the jobs had ended in time. It is said beside everything
//! else the worker does, and for one lease at most.

use std::sync::Arc;
use std::time::Duration;

use model::{ErrorKind, Instant, Nonce, WorkerKey};
use rpc::{convert, lease_convert, wire};
use tokio::time;

use crate::backoff::Backoff;
use crate::error::ClientError;
use crate::home::Home;

/// Tries per lease that get no answer at all.
const TRIES_PER_LEASE: u32 = 4;

/// What is said.
pub(crate) struct Words {
    pub(crate) key: WorkerKey,
    pub(crate) nonce: Nonce,
    /// Since when nothing exclusive has run under it.
    pub(crate) stopped_at: Instant,
    /// Nor has anything else.
    pub(crate) all_stopped: bool,
}

/// Starts to say it.
pub(crate) fn spawn(home: Arc<Home>, words: Words) {
    tokio::spawn(async move {
        let lease = home.lease();
        if time::timeout(lease, say(&home, &words, lease)).await.is_err() {
            tracing::debug!(worker = %words.key, "no server heard the farewell");
        }
    });
}

async fn say(home: &Home, words: &Words, lease: Duration) {
    let Words { key, nonce, stopped_at, all_stopped } = words;
    let mut backoff = Backoff::default();
    loop {
        let leave = home.client.leave(wire::LeaveRequest {
            worker: key.to_string(),
            nonce: nonce.get(),
            all_stopped: *all_stopped,
            crashed: false,
            exclusive_stopped: true,
            stopped_for_ms: convert::millis(home.clock.monotonic().since(*stopped_at)),
            stopped_at_us: lease_convert::stamp_to_wire(Some(*stopped_at)),
        });
        // A server that is frozen must not use up the time in which another one could be told.
        match time::timeout(lease / TRIES_PER_LEASE, leave).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) if is_final(&error) => {
                return tracing::debug!(worker = %key, %error, "the farewell was refused");
            }
            Ok(Err(_)) | Err(_) => home.client.prefer_another(),
        }
        time::sleep(backoff.next(rand::random()).min(lease / TRIES_PER_LEASE)).await;
    }
}

/// Whether asking again, or someone else, would not help.
fn is_final(error: &ClientError) -> bool {
    use ErrorKind::{Internal, NotOwner, Throttled, Unavailable};
    matches!(error, ClientError::Api(error) if !matches!(error.kind, Unavailable | Throttled | NotOwner | Internal))
}
