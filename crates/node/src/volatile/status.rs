//! The muster in words and on the wire.

use std::sync::Arc;

use model::WorkerKey;
use muster::machine::{WaitStatus, WorkerStatus};
use muster::{Dismissal, Health, How, Status, TurnedAway};
use rpc::{convert, wire};

use crate::sessions::Session;

/// Why a healthy worker is given no volatile jobs yet.
const PROMISED_MORE: &str = "no volatile jobs before its longer lease from before is over";

/// How the muster stands, with what the sessions of its workers add to it; what only the driver knows is left out.
pub(super) fn to_wire(
    status: &Status,
    session: impl Fn(&WorkerKey) -> Option<Arc<Session>>,
) -> wire::MusterStatus {
    let shown = wire::MusterStatus {
        active: true,
        unsafe_wait: status.unsafe_wait.is_some(),
        version: status.version.0,
        members: status.members as u32,
        queued: status.queued as u32,
        estimate: status.turnover_max as f64,
        workers: status
            .workers
            .iter()
            .map(|status| worker(status, session(&status.key).as_deref()))
            .collect(),
        ..Default::default()
    };
    match &status.wait {
        WaitStatus::Waiting { at_most, reasons, .. } => wire::MusterStatus {
            waiting: true,
            at_most_ms: Some(convert::millis(*at_most)),
            reasons: reasons.clone(),
            ..shown
        },
        WaitStatus::Over { how: ended } => wire::MusterStatus { how: how(*ended).to_owned(), ..shown },
    }
}

fn worker(status: &WorkerStatus, session: Option<&Session>) -> wire::MusterWorker {
    let held_back = status.held_back.as_ref();
    let by = held_back.and_then(|held_back| held_back.by.as_ref());
    let why = match (status.health, held_back) {
        (Health::Unhealthy(muster::Unhealthy::HeldBack), Some(held_back)) => held_back.to_string(),
        (Health::Healthy, _) if session.is_some_and(Session::is_promised_more) => PROMISED_MORE.to_owned(),
        (health, _) => why(health).to_owned(),
    };
    wire::MusterWorker {
        key: status.key.to_string(),
        health: word(status.health).to_owned(),
        why,
        seat: status.seat.as_ref().map(ToString::to_string).unwrap_or_default(),
        echoed: status.echoed.map(|version| version.0),
        requires: status.label.map(|version| version.0),
        held_back_by: by.map(ToString::to_string).unwrap_or_default(),
        name: session.map(|session| session.profile.name.clone()).unwrap_or_default(),
    }
}

pub(super) const fn how(how: How) -> &'static str {
    match how {
        How::Agreed => "agreed",
        How::SafeWait => "safe_wait",
        How::Unsafe => "unsafe_wait",
    }
}

pub(super) const fn word(health: Health) -> &'static str {
    match health {
        Health::New => "new",
        Health::Unhealthy(_) => "unhealthy",
        Health::Healthy => "healthy",
        Health::MustDie => "must_die",
    }
}

/// Why it is not healthy.
pub(super) const fn why(health: Health) -> &'static str {
    match health {
        Health::New => "what it runs is not known yet",
        Health::Unhealthy(unhealthy) => unhealthy.sentence(),
        Health::Healthy => "",
        Health::MustDie => "its lease is over",
    }
}

pub(super) fn dismissal(dismissal: &Dismissal) -> String {
    match dismissal {
        Dismissal::Overdue(health) => format!("for too long: {}", why(*health)),
        Dismissal::SeatTaken { by } => format!("{by} sits in its seat now"),
    }
}

pub(super) fn turned_away(turned_away: &TurnedAway) -> String {
    match turned_away {
        TurnedAway::LaterStart { by } => format!("{by} sits in its seat and started later"),
        TurnedAway::OtherMachine { by } => {
            format!("{by} sits in its seat on another machine and may be running something")
        }
    }
}

#[cfg(test)]
mod tests {
    use lease::message::Profile;
    use lease::registry::Speaker;
    use model::Nonce;
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::sync::mpsc;

    use super::*;
    use crate::sessions::Sessions;

    #[test]
    fn a_healthy_worker_that_gets_no_volatile_jobs_yet_is_told_apart() {
        let key = WorkerKey::new("w").unwrap();
        let sessions = Sessions::new(Gauge::default());
        let (nonce, frames) = (Nonce::new(1), mpsc::channel(1).0);
        let session = sessions.open(key.clone(), nonce, Profile::default(), frames, Speaker::Worker).unwrap();
        let healthy = WorkerStatus {
            key,
            health: Health::Healthy,
            host: String::new(),
            seat: None,
            echoed: None,
            label: None,
            held_back: None,
        };
        assert_eq!(worker(&healthy, Some(&session)).why, "");
        session.set_promised_more(true);
        assert_eq!(worker(&healthy, Some(&session)).why, PROMISED_MORE);
        assert_eq!(worker(&healthy, None).why, "");
    }
}
