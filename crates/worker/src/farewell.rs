//! The last words under a key that the registry declared over: nothing that ran under it runs any more.
//!
//! What waits for that, jobs of exclusive queues after a kick for instance, can then go on elsewhere at once. It is said
//! beside everything else the worker does, and until the lease would be over anyway.

use std::sync::Arc;
use std::time::Duration;

use model::{ErrorKind, Nonce, WorkerKey};
use rpc::{convert, wire};
use tokio::time::{self, Instant};

use crate::backoff::Backoff;
use crate::error::ClientError;
use crate::home::Home;

/// Tries per lease that get no answer at all.
const TRIES_PER_LEASE: u32 = 4;

/// Starts to say that everything under this key has stopped by now.
pub(crate) fn spawn(home: Arc<Home>, key: WorkerKey, nonce: Nonce) {
    tokio::spawn(async move {
        let lease = home.lease();
        if time::timeout(lease, say(&home, &key, nonce, lease)).await.is_err() {
            tracing::debug!(worker = %key, "no server heard the farewell");
        }
    });
}

async fn say(home: &Home, key: &WorkerKey, nonce: Nonce, lease: Duration) {
    let stopped_at = Instant::now();
    let mut backoff = Backoff::default();
    loop {
        let leave = home.client.leave(wire::LeaveRequest {
            worker: key.to_string(),
            nonce: nonce.get(),
            all_stopped: true,
            crashed: false,
            stopped_for_ms: convert::millis(stopped_at.elapsed()),
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
