//! The muster in words and on the wire.

use model::WorkerKey;
use muster::machine::{WaitStatus, WorkerStatus};
use muster::{Dismissal, Health, How, Status, TurnedAway};
use rpc::{convert, wire};

/// How the muster stands; what only the driver knows is left out.
pub(super) fn to_wire(status: &Status, name: impl Fn(&WorkerKey) -> Option<String>) -> wire::MusterStatus {
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
            .map(|status| wire::MusterWorker {
                name: name(&status.key).unwrap_or_default(),
                ..worker(status)
            })
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

fn worker(status: &WorkerStatus) -> wire::MusterWorker {
    let held_back = status.held_back.as_ref();
    let by = held_back.and_then(|held_back| held_back.by.as_ref());
    let why = match (status.health, held_back) {
        (Health::Unhealthy(muster::Unhealthy::HeldBack), Some(held_back)) => held_back.to_string(),
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
        ..Default::default()
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
