//! What the roll has others do: each duty is a call or two to the store and one event back.

use std::sync::Arc;
use std::time::Duration;

use lease::message::Heartbeat;
use lease::registry::{Enlisted, HoldStanding, Input};
use model::{Hold, HolderEnd, Instant, Limits, RegistryId, WorkerKey};
use store::{Enlist, EnlistAnswer, Renewed, StoreError};
use tracing::warn;

use crate::api::Api;
use crate::event::{Event, Reply, RollEvent, Standing};
use crate::metrics::HandOver;

/// Makes a worker or its larger grant durable.
pub(crate) async fn enlist(api: Arc<Api>, worker: Enlist) {
    let (key, registry) = (worker.key.clone(), worker.registry);
    let answer = match api.store.enlist(vec![worker]).await.as_deref() {
        Ok([EnlistAnswer::Known]) => Enlisted::Known,
        Ok([EnlistAnswer::Terminal(end)]) => Enlisted::Terminal(*end),
        Ok([EnlistAnswer::Taken]) => Enlisted::Taken,
        Ok([EnlistAnswer::Elsewhere(registry)]) => {
            Enlisted::Elsewhere { address: api.charge.address_of(*registry) }
        }
        Ok([EnlistAnswer::Disowned]) => Enlisted::Trouble,
        Ok(other) => unreachable!("one answer for each worker, not {}", other.len()),
        Err(error) => {
            warn!(worker = %key, %error, "cannot make the worker known");
            Enlisted::Trouble
        }
    };
    tell(&api, registry, Input::Enlisted { key, answer }).await;
}

/// Asks the store whose worker this is.
pub(crate) async fn look_up(api: Arc<Api>, reply: Reply, beat: Box<Heartbeat>) {
    let standing = match api.store.worker(&beat.key).await {
        Ok(Some(known)) if known.ended.is_none() => {
            let registry = known.worker.registry;
            if api.charge.is_ours(registry) {
                Standing::Ours(Box::new(known.worker))
            } else {
                Standing::Elsewhere { address: api.charge.address_of(registry) }
            }
        }
        Ok(_) => Standing::Nobodys,
        Err(error) => {
            warn!(worker = %beat.key, %error, "cannot find out whose worker this is");
            Standing::Unsure
        }
    };
    api.tell(Event::Roll(RollEvent::LookedUp { reply, beat, standing })).await;
}

/// Moves what a lapsed key holds to its successor.
pub(crate) async fn succeed(
    api: Arc<Api>,
    registry: RegistryId,
    former: WorkerKey,
    key: WorkerKey,
    holds: Vec<Hold>,
) {
    let moved = api.store.succeed(&former, &key, holds).await;
    if let Err(error) = &moved {
        warn!(worker = %key, %former, %error, "cannot move jobs to the worker's new key");
    }
    tell(&api, registry, Input::Succeeded { key, moved: moved.ok() }).await;
}

/// Makes the end of a worker durable, then takes back everything it holds, by one statement.
pub(crate) async fn retire(
    api: Arc<Api>,
    registry: RegistryId,
    key: WorkerKey,
    end: HolderEnd,
    counted: bool,
    silent_since: Option<Instant>,
    stopped_by: Instant,
) {
    let retired = async {
        if !api.store.retire(&key, end, registry).await? {
            return Err(StoreError::Unavailable("it is another server's to judge".to_owned()));
        }
        api.store.reap_holder(&key, counted).await
    };
    let done = match retired.await {
        Ok(mut reaped) => {
            if let Some(since) = silent_since.filter(|_| !end.is_left()) {
                let silent = api.clock.monotonic().since(since);
                reaped.iter_mut().for_each(|job| job.late = silent);
            }
            let moved_at = api.clock.monotonic();
            for _ in reaped.iter().filter(|job| job.exclusive) {
                api.metrics.hand_over(HandOver::of(end), stopped_by, moved_at);
            }
            api.note_reaped(&reaped).await;
            true
        }
        Err(error) => {
            warn!(worker = %key, %error, "cannot take back the worker's jobs; trying again");
            false
        }
    };
    tell(&api, registry, Input::Retired { key, done }).await;
}

/// Asks the rows whether these holds stand, and pushes their leases out if so.
pub(crate) async fn check(api: Arc<Api>, registry: RegistryId, key: WorkerKey, holds: Vec<Hold>) {
    let answers = api.store.renew(&key, holds, Limits::VERIFY_PUSH).await;
    if let Err(error) = &answers {
        warn!(worker = %key, %error, "cannot check what the worker holds; trying again");
    }
    let standings = answers.ok().map(|answers| answers.iter().map(standing).collect());
    tell(&api, registry, Input::Checked { key, standings }).await;
}

fn standing(renewed: &Renewed) -> HoldStanding {
    match renewed {
        Renewed::Held { cancel, exclusive, .. } => {
            HoldStanding::Held { cancelled: *cancel, exclusive: *exclusive }
        }
        Renewed::Lost => HoldStanding::Lost,
    }
}

/// A pinging holder fell silent: what it holds goes on elsewhere. Tried until it is done.
pub(crate) async fn lose_pinger(api: Arc<Api>, key: WorkerKey) {
    let mut pause = Duration::from_millis(100);
    loop {
        let lost = async {
            if !api.store.retire(&key, HolderEnd::Silent, api.charge.registry()?).await? {
                // Another server hears it, or will notice.
                return Ok(Vec::new());
            }
            api.store.reap_holder(&key, true).await
        };
        match lost.await {
            Ok(reaped) => return api.note_reaped(&reaped).await,
            Err(error) => {
                warn!(worker = %key, %error, "cannot take back a silent holder's jobs; trying again");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = api.closing.cancelled() => return,
        }
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

async fn tell(api: &Api, registry: RegistryId, input: Input) {
    api.tell(Event::Roll(RollEvent::Done { registry, input: Box::new(input) })).await;
}
