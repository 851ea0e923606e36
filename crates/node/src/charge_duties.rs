//! What keeping a registry takes: each duty is one call to the store and one event back.

use std::sync::Arc;
use std::time::Duration;

use lease::ownership::Input;
use model::{HolderEnd, Instant, RegistryId};
use rpc::wire;
use rpc::wire::servers_client::ServersClient;
use store::{News, ServerInfo, StoreError};
use tonic::transport::Endpoint;
use tracing::{info, warn};

use crate::api::Api;
use crate::charge::sightings;
use crate::event::{Event, RollEvent};

/// How long the store must have been out of reach before others are asked.
const CUT_OFF_AFTER: Duration = Duration::from_secs(6);
/// How often, while a beat is under way.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How many of them, and how long each may take.
const OTHERS_ASKED_MAX: usize = 5;
const ASK_WITHIN: Duration = Duration::from_millis(700);
/// What another server saw longer ago than this proves nothing.
const FRESH_MS: i64 = 3_000;
/// Pause between tries to take over.
const TRY_AGAIN: Duration = Duration::from_millis(300);

/// Makes a registry for this server.
pub(crate) async fn found(api: Arc<Api>) {
    let sent = api.clock.monotonic();
    let registry = match api.store.found(server_info(&api)).await {
        Ok(registry) => Some(registry),
        Err(error) => {
            if api.charge.begins_to_fail() {
                warn!(%error, "cannot make a registry of workers; trying on");
            }
            None
        }
    };
    api.tell(Event::Ownership(Input::Founded { sent, registry })).await;
}

/// Our last life ended without a word; whoever takes over its workers, most likely we, need not wait.
async fn bury_last_life(api: Arc<Api>, last: RegistryId) {
    match api.store.resign(last).await {
        Ok(()) => info!(registry = last.0, "the last life of this server is over; its workers go on at once"),
        Err(error) => info!(registry = last.0, %error, "the workers of our last life have to wait a little"),
    }
}

fn server_info(api: &Api) -> ServerInfo {
    ServerInfo { name: api.config.name.clone(), address: api.config.address.clone() }
}

/// Commits a beat, and looks at the others on that occasion.
pub(crate) async fn beat(api: Arc<Api>, registry: RegistryId) {
    let sent = api.clock.monotonic();
    let mut beating = api.store.beat(registry);
    let answer = loop {
        tokio::select! {
            answer = &mut beating => break answer,
            // A database that cannot be reached may keep us waiting for longer than our workers have.
            () = tokio::time::sleep(ASK_EVERY) => {
                if let Some(seen_at) = said_gone(&api, registry).await {
                    return api.tell(Event::Ownership(Input::SaidGone { seen_at })).await;
                }
            }
        }
    };
    let input = match answer {
        Ok(Some(peers)) => {
            // The beat does not wait for it: it says that we live.
            if let Some(last) = api.charge.take_last(&peers, &server_info(&api)) {
                tokio::spawn(bury_last_life(Arc::clone(&api), last));
            }
            let seen = sightings(&peers);
            api.metrics.servers.set(peers.len() as i64);
            if api.charge.set_peers(peers, sent) {
                api.tell(Event::News(News::Missed)).await;
            }
            Input::Beaten { sent, seen }
        }
        Ok(None) => Input::Gone,
        Err(error) => {
            if api.charge.begins_to_fail() {
                warn!(%error, "cannot say that this server is alive; trying on");
            }
            match said_gone(&api, registry).await {
                Some(seen_at) => Input::SaidGone { seen_at },
                None => Input::BeatFailed,
            }
        }
    };
    api.tell(Event::Ownership(input)).await;
}

/// Whether another server says that our registry is not there any more: when it looked, at the earliest. It can see the store,
/// which we cannot: then our workers are better off elsewhere, and only cling to us because we still answer.
async fn said_gone(api: &Api, registry: RegistryId) -> Option<Instant> {
    let (peers, seen_at) = api.charge.seen()?;
    if api.clock.monotonic().since(seen_at) <= CUT_OFF_AFTER {
        return None;
    }
    for peer in peers.iter().filter(|peer| peer.registry != registry).take(OTHERS_ASKED_MAX) {
        let asked = api.clock.monotonic();
        match tokio::time::timeout(ASK_WITHIN, servers_seen_by(&peer.server.address)).await {
            Ok(Some(seen)) if (0..FRESH_MS).contains(&seen.age_ms) => {
                let is_there = seen.servers.iter().any(|server| server.registry == registry.0);
                return (!is_there).then(|| asked - Duration::from_millis(seen.age_ms.unsigned_abs()));
            }
            _ => {}
        }
    }
    None
}

async fn servers_seen_by(address: &str) -> Option<wire::ListServersResponse> {
    let channel = Endpoint::from_shared(address.to_owned()).ok()?.connect().await.ok()?;
    let answer = ServersClient::new(channel).list(wire::ListServersRequest {}).await;
    Some(answer.ok()?.into_inner())
}

/// Takes over the workers of a server that is gone. The registry was told that this begins: until it hears who they are it
/// judges nobody whom it does not know.
pub(crate) async fn take_over(api: Arc<Api>, from: RegistryId, beats: u64, by: RegistryId) {
    let mut may_have_happened = false;
    let workers = loop {
        let taken = match api.store.take_over(from, beats, by).await {
            Ok(Some(workers)) => {
                let count = workers.len();
                info!(registry = from.0, workers = count, "the workers of another server are taken over");
                api.metrics.take_overs.inc();
                Ok(workers)
            }
            // A call that failed before may have done it. Now that this one was answered, it can do nothing any more.
            Ok(None) if may_have_happened => api.store.roster(by).await,
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        match taken {
            Ok(workers) => break workers,
            Err(error) => {
                warn!(registry = from.0, %error, "cannot take over the workers of another server; trying on");
                may_have_happened = true;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(TRY_AGAIN) => {}
            () = api.closing.cancelled() => return,
        }
        if !api.charge.is_ours(by) {
            // Whatever registry we have now may try it itself.
            api.tell(Event::Ownership(Input::TakeOverDone { from })).await;
            return;
        }
    };
    api.tell(Event::Roll(RollEvent::TakenOver { from, by, workers })).await;
    // Nobody else may know what it did last.
    api.tell(Event::News(News::Missed)).await;
    api.tell(Event::Ownership(Input::TakeOverDone { from })).await;
    reap_ended(&api, by).await;
}

/// Takes back what holders still have who had ended before they were taken over: their server was gone before it came to that.
async fn reap_ended(api: &Api, registry: RegistryId) {
    let pass = async {
        for (key, end) in api.store.unreaped(registry).await? {
            let counted = matches!(end, HolderEnd::Expired | HolderEnd::Crashed | HolderEnd::Silent);
            let reaped = api.store.reap_holder(&key, counted).await?;
            info!(worker = %key, jobs = reaped.len(), "the jobs of a worker that had ended are taken back");
            api.note_reaped(&reaped).await;
        }
        Ok::<(), StoreError>(())
    };
    if let Err(error) = pass.await {
        warn!(%error, "cannot take back what workers hold who have ended; it comes back when its leases are over");
    }
}
