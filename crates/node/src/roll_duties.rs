//! What the roll has others do: each duty is a call or two to the store and one event back.

use std::sync::Arc;
use std::time::Duration;

use lease::message::Heartbeat;
use lease::registry::{Enlisted, HoldStanding, Input, Retired};
use model::{Hold, HolderEnd, Instant, Limits, Nonce, RegistryId, WorkerKey};
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

/// The end of a worker.
pub(crate) struct Farewell {
    /// Who judges it.
    pub(crate) registry: RegistryId,
    /// Which process says so, if the registry never heard of it.
    pub(crate) stranger: Option<Nonce>,
    /// How it ended.
    pub(crate) end: HolderEnd,
    /// Its losses count against the jobs.
    pub(crate) counted: bool,
    /// When it was last heard.
    pub(crate) silent_since: Option<Instant>,
    /// The latest moment at which it can have run anything.
    pub(crate) stopped_by: Instant,
    /// What makes that sure.
    pub(crate) by: HandOver,
}

/// Makes the end of a worker durable, then takes back everything it holds, by one statement.
pub(crate) async fn retire(api: Arc<Api>, key: WorkerKey, farewell: Farewell) {
    let Farewell { registry, stranger, end, counted, silent_since, stopped_by, by } = farewell;
    let retired = async {
        let whose = match stranger {
            Some(nonce) => whose(&api, &key, nonce).await?,
            None => Whose::Its,
        };
        if whose == Whose::Nobodys {
            // Its owner may be still to come, so the key is not over. A job that was claimed under it by a call has its own lease.
            return Ok(None);
        }
        if whose == Whose::Anothers || !api.store.retire(&key, end, registry).await? {
            warn!(worker = %key, "the worker is not ours to end");
            return Ok(None);
        }
        api.store.reap_holder(&key, counted).await.map(Some)
    };
    let answer = match retired.await {
        Ok(Some(mut reaped)) => {
            if let Some(since) = silent_since.filter(|_| !end.is_left()) {
                let silent = api.clock.monotonic().since(since);
                reaped.iter_mut().for_each(|job| job.late = silent);
            }
            let moved_at = api.clock.monotonic();
            for _ in reaped.iter().filter(|job| job.exclusive) {
                api.metrics.hand_over(by, stopped_by, moved_at);
            }
            api.note_reaped(&reaped).await;
            Retired::Done
        }
        Ok(None) => Retired::Refused,
        Err(error) => {
            warn!(worker = %key, %error, "cannot take back the worker's jobs; trying again");
            Retired::Trouble
        }
    };
    tell(&api, registry, Input::Retired { key, answer }).await;
}

/// Whose a key is, that a process with some nonce says is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// That process's, or one's that only pings.
    Its,
    /// Another one's, which lives.
    Anothers,
    /// The store has never heard of it.
    Nobodys,
}

async fn whose(api: &Api, key: &WorkerKey, nonce: Nonce) -> Result<Whose, StoreError> {
    Ok(match api.store.worker(key).await? {
        None => Whose::Nobodys,
        Some(known) if known.ended.is_none() && !known.worker.pings && known.worker.nonce != nonce => {
            Whose::Anothers
        }
        Some(_) => Whose::Its,
    })
}

/// Asks the rows whether these holds stand, and pushes their leases out if so.
pub(crate) async fn check(api: Arc<Api>, registry: RegistryId, key: WorkerKey, holds: Vec<Hold>) {
    let answers = api.store.renew(&key, holds, Limits::VERIFY_PUSH).await;
    if let Err(error) = &answers {
        warn!(worker = %key, %error, "cannot check what the worker holds; trying again");
    }
    api.sound_alarms();
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

/// A pinging holder of this registry fell silent: what it holds goes on elsewhere. Tried until it is done.
pub(crate) async fn lose_pinger(api: Arc<Api>, key: WorkerKey, registry: RegistryId) {
    let mut pause = Duration::from_millis(100);
    loop {
        let lost = async {
            if !api.store.retire(&key, HolderEnd::Silent, registry).await? {
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

#[cfg(test)]
mod tests {
    use store::{JobStore as _, MemoryStore, ServerInfo};
    use tokio::sync::mpsc;

    use super::*;

    /// Its silence was noticed under one registry; it is in our next one by now, and may ping.
    #[tokio::test]
    async fn silence_counts_only_for_the_registry_that_noticed_it() {
        let clock = Arc::new(clock::SystemClock);
        let store = Arc::new(MemoryStore::shared(clock.clone()));
        let before = store.found(ServerInfo::default()).await.unwrap();
        let now = store.found(ServerInfo::default()).await.unwrap();
        let key = WorkerKey::new("simple").unwrap();
        let grant = Duration::from_secs(15);
        let name = String::new();
        let (nonce, registry) = (Nonce::default(), before);
        let pinger = Enlist { key: key.clone(), nonce, registry, pings: true, grant, name };
        store.enlist(vec![pinger]).await.unwrap();
        let seen = store.beat(now).await.unwrap().expect("it is there");
        let beats = seen.iter().find(|peer| peer.registry == before).expect("so is that one").beats;
        store.take_over(before, beats, now).await.unwrap().expect("it is taken over");
        let (events, _inbox) = mpsc::channel(64);
        let api = Arc::new(Api::new(crate::Node::new(store.clone(), clock), None, events));
        api.charge.set_registry(Some(now));
        lose_pinger(Arc::clone(&api), key.clone(), before).await;
        assert_eq!(store.worker(&key).await.unwrap().expect("it is known").ended, None);
        lose_pinger(api, key.clone(), now).await;
        assert!(store.worker(&key).await.unwrap().expect("it is known").ended.is_some());
    }

    /// The registry does not know the key, the store does: as while it is being taken over.
    #[tokio::test]
    async fn stranger_ends_no_other_process_that_has_its_key() {
        let clock = Arc::new(clock::SystemClock);
        let store = Arc::new(MemoryStore::shared(clock.clone()));
        let registry = store.found(ServerInfo::default()).await.unwrap();
        let key = WorkerKey::new("ann").unwrap();
        let (nonce, grant, name) = (Nonce::new(1), Duration::from_secs(15), String::new());
        let worker = Enlist { key: key.clone(), nonce, registry, pings: false, grant, name };
        store.enlist(vec![worker]).await.unwrap();
        let (events, mut inbox) = mpsc::channel(64);
        let api = Arc::new(Api::new(crate::Node::new(store.clone(), clock), None, events));
        api.charge.set_registry(Some(registry));
        for (stranger, expected) in [(Nonce::new(2), Retired::Refused), (nonce, Retired::Done)] {
            let farewell = Farewell {
                registry,
                stranger: Some(stranger),
                end: HolderEnd::Left,
                counted: false,
                silent_since: None,
                stopped_by: api.clock.monotonic(),
                by: HandOver::WORD,
            };
            retire(Arc::clone(&api), key.clone(), farewell).await;
            let Ok(Event::Roll(RollEvent::Done { input, .. })) = inbox.try_recv() else {
                panic!("the registry must be answered");
            };
            assert_eq!(*input, Input::Retired { key: key.clone(), answer: expected });
            let has_ended = store.worker(&key).await.unwrap().expect("it is known").ended.is_some();
            assert_eq!(has_ended, expected == Retired::Done, "by {stranger:?}");
        }
    }
}
