//! The rounds: rows whose lease is over are read, their holders asked about, and the rows dealt with accordingly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::{Instant, Limits};
use store::{Expired, StoreError, ToStop};

use crate::api::Api;
use crate::event::Event;

/// How soon a row is looked at again whose holder cannot be judged yet. A volatile one waits longer each time: its job counts as
/// running until its worker says otherwise, however long that takes.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Rows by what is to be done with them.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// How many there were.
    pub(crate) found: usize,
    /// Their worker has them.
    pub(crate) push: Vec<Expired>,
    /// It cannot be said yet; by the pause until they are looked at again.
    pub(crate) ask_again: BTreeMap<Duration, Vec<Expired>>,
    /// Their live worker should have stopped them by itself long ago, since their time limit is over.
    pub(crate) overdue: Vec<Expired>,
    /// Nobody has them.
    pub(crate) take_back: Vec<Expired>,
}

/// Reads rows whose lease is over.
pub(crate) async fn read(api: Arc<Api>, limit: usize, not_after: Instant) {
    let answer = match api.charge.registry() {
        Ok(registry) => api.store.expired(registry, limit).await,
        Err(error) => Err(error),
    };
    api.tell(Event::Expired { limit, not_after, answer }).await;
}

/// Deals with judged rows. Decided too long ago, nothing is taken back: we were frozen since, and holders must be heard
/// first.
pub(crate) async fn settle(api: Arc<Api>, judged: Judged, limit: usize, not_after: Instant) {
    let Judged { found, push, ask_again, overdue, take_back } = judged;
    let pass = async {
        if !push.is_empty() {
            api.store.push(push, Limits::VERIFY_PUSH).await?;
        }
        for (pause, rows) in ask_again {
            api.store.push(rows, pause).await?;
        }
        for row in overdue {
            let job = ToStop { hold: row.hold, cancel: false, timed_out: true, exclusive: row.exclusive };
            api.take_unheeded(&row.holder, &[job]).await?;
        }
        if take_back.is_empty() {
            return Ok(found);
        }
        if api.clock.monotonic() > not_after {
            return Err(StoreError::Unavailable(
                "the server stood still before this rescue could begin".to_owned(),
            ));
        }
        if api.waiting.stalled_for(api.clock.monotonic()).is_some() {
            return Err(StoreError::Unavailable("the store stands still; holders wait for it".to_owned()));
        }
        let reaped = api.store.reap(take_back).await?;
        api.note_reaped(&reaped).await;
        Ok(found)
    };
    let answer = pass.await;
    api.tell(Event::Reaped { limit, answer }).await;
}
