//! Wire ↔ lease: heartbeats and their answers. Like `convert`, the only place where one becomes the other.

use lease::digest::Digest;
use lease::message::{
    Ack, Answer, Change, Former, Heartbeat, InactiveReason, LaterReason, Leave, Profile, Stop, StopOrder,
    Token,
};
use model::{Generation, Hold, HolderEnd, Instant, Invalid, Limits, Nonce, Seat, WorkerKey};
use muster::{SetHash, SetId, Version};

use crate::convert;
use crate::wire;

const OK: &str = "ok";
const INACTIVE: &str = "worker_inactive";
const MISMATCH: &str = "token_mismatch";
const NOT_OWNER: &str = "not_owner";
const LATER: &str = "later";

/// Longest name and version kept of a worker.
const TEXT_BYTES_MAX: usize = 256;

/// A heartbeat on the wire.
pub fn heartbeat_to_wire(number: u64, beat: &Heartbeat) -> wire::Heartbeat {
    wire::Heartbeat {
        number,
        worker: beat.key.to_string(),
        nonce: beat.nonce.get(),
        token: beat.token.map(|token| token.to_string()).unwrap_or_default(),
        lease_ms: convert::millis(beat.lease),
        binds: beat.binds.iter().map(change_to_wire).collect(),
        unbinds: beat.unbinds.iter().map(change_to_wire).collect(),
        change: beat.change,
        digest_count: beat.digest.count(),
        digest_hash: beat.digest.hash(),
        full: beat
            .full
            .as_ref()
            .map(|holds| wire::FullSet { holds: holds.iter().copied().map(hold_to_wire).collect() }),
        former: beat
            .former
            .as_ref()
            .map(|former| wire::Former { worker: former.key.to_string(), nonce: former.nonce.get() }),
        profile: beat.profile.as_ref().map(|profile| hello(&beat.key, beat.nonce, profile)),
        free_slots: beat.free_slots,
        lag_ms: convert::millis(beat.lag),
        starts_seen: beat.starts_seen,
        worker_set: beat.worker_set.map(set_to_wire),
        sent_at_us: stamp_to_wire(beat.sent_at),
        answered_at_us: stamp_to_wire(beat.answered_at),
    }
}

/// How a worker announces itself.
pub fn hello(key: &WorkerKey, nonce: Nonce, profile: &Profile) -> wire::Hello {
    wire::Hello {
        worker: key.to_string(),
        queues: profile.queues.iter().map(ToString::to_string).collect(),
        name: profile.name.clone(),
        version: profile.version.clone(),
        slots: profile.slots,
        nonce: nonce.get(),
        stop_within_ms: profile.stop_within.map(convert::millis),
        seat: profile.seat.as_ref().map(ToString::to_string).unwrap_or_default(),
        host: profile.host.clone(),
        started_us: i64::try_from(profile.started_us).unwrap_or(i64::MAX),
    }
}

/// Who a worker says it is.
pub fn profile(hello: &wire::Hello) -> Result<Profile, Invalid> {
    Ok(Profile {
        name: short(&hello.name),
        queues: convert::queues(&hello.queues)?,
        slots: slots(hello.slots)?,
        version: short(&hello.version),
        stop_within: hello.stop_within_ms.map(|ms| convert::span(ms, "stop_within_ms")).transpose()?,
        seat: convert::optional(&hello.seat, Seat::new)?,
        host: short(&hello.host),
        started_us: hello.started_us.max(0).unsigned_abs(),
    })
}

/// Slots a worker may have or offer at once.
pub fn slots(slots: u32) -> Result<u32, Invalid> {
    if slots > Limits::SLOTS_MAX {
        return Err(Invalid::new(format!(
            "{slots} free slots are too many; offer at most {}",
            Limits::SLOTS_MAX
        )));
    }
    Ok(slots)
}

/// A heartbeat from the wire, and its number. On a stream the key may be left out and `stream` gives it.
pub fn heartbeat_from_wire(
    beat: wire::Heartbeat,
    stream: Option<(&WorkerKey, Nonce)>,
) -> Result<(u64, Heartbeat), Invalid> {
    let key = match stream {
        Some((key, _)) if beat.worker.is_empty() => key.clone(),
        _ => convert::worker(&beat.worker)?,
    };
    let nonce = match stream {
        Some((_, nonce)) if beat.nonce == 0 => nonce,
        _ => Nonce::new(beat.nonce),
    };
    let full = beat.full.as_ref().map_or(0, |full| full.holds.len());
    let changes = beat.binds.len() + beat.unbinds.len() + full;
    if changes > Limits::BOUND_MAX {
        return Err(Invalid::new(format!(
            "a heartbeat with {changes} changes is too large; send at most {}",
            Limits::BOUND_MAX
        )));
    }
    let number = beat.number;
    let beat = Heartbeat {
        key,
        nonce,
        token: convert::optional(&beat.token, |text| Ok(Token::parse(text)))?,
        lease: convert::span(beat.lease_ms, "lease_ms")?,
        binds: beat.binds.iter().map(change_from_wire).collect::<Result<_, _>>()?,
        unbinds: beat.unbinds.iter().map(change_from_wire).collect::<Result<_, _>>()?,
        change: beat.change,
        digest: Digest::from_parts(beat.digest_count, beat.digest_hash),
        full: beat.full.map(|full| convert::holds(&full.holds)).transpose()?,
        former: beat
            .former
            .map(|former| {
                Ok::<_, Invalid>(Former {
                    key: convert::worker(&former.worker)?,
                    nonce: Nonce::new(former.nonce),
                })
            })
            .transpose()?,
        profile: beat.profile.as_ref().map(profile).transpose()?,
        free_slots: slots(beat.free_slots)?,
        lag: convert::span(beat.lag_ms, "lag_ms")?,
        sent_at: stamp_from_wire(beat.sent_at_us),
        answered_at: stamp_from_wire(beat.answered_at_us),
        starts_seen: beat.starts_seen,
        worker_set: beat.worker_set.as_ref().map(set_from_wire),
    };
    Ok((number, beat))
}

/// An answer on the wire.
pub fn answer_to_wire(number: u64, answer: &Answer) -> wire::HeartbeatAnswer {
    let base = wire::HeartbeatAnswer { number, ..wire::HeartbeatAnswer::default() };
    match answer {
        Answer::Ok(ack) => wire::HeartbeatAnswer {
            answer: OK.to_owned(),
            token: ack.token.to_string(),
            lease_ms: convert::millis(ack.lease),
            exclusive_hold: ack.exclusive_hold,
            stops: ack.stops.iter().map(stop_to_wire).collect(),
            resync: ack.resync,
            drain: ack.drain,
            worker_set: ack.worker_set.map(set_to_wire),
            ..base
        },
        Answer::Inactive { why } => {
            wire::HeartbeatAnswer { answer: INACTIVE.to_owned(), why: why.sentence().to_owned(), ..base }
        }
        Answer::Mismatch { token, held, resync } => wire::HeartbeatAnswer {
            answer: MISMATCH.to_owned(),
            token: token.to_string(),
            held: *held,
            resync: *resync,
            ..base
        },
        Answer::NotOwner { address } => wire::HeartbeatAnswer {
            answer: NOT_OWNER.to_owned(),
            address: address.clone().unwrap_or_default(),
            ..base
        },
        Answer::Later { retry_after, why } => wire::HeartbeatAnswer {
            answer: LATER.to_owned(),
            retry_after_ms: convert::millis(*retry_after),
            why: later_sentence(*why).to_owned(),
            ..base
        },
    }
}

/// An answer from the wire, and its number.
pub fn answer_from_wire(answer: &wire::HeartbeatAnswer) -> Result<(u64, Answer), Invalid> {
    let meaning = match answer.answer.as_str() {
        OK => Answer::Ok(Ack {
            token: Token::parse(&answer.token),
            lease: convert::span(answer.lease_ms, "lease_ms")?,
            exclusive_hold: answer.exclusive_hold,
            stops: answer.stops.iter().map(stop_from_wire).collect::<Result<_, _>>()?,
            resync: answer.resync,
            drain: answer.drain,
            worker_set: answer.worker_set.as_ref().map(set_from_wire),
        }),
        INACTIVE => Answer::Inactive { why: inactive_reason(&answer.why) },
        MISMATCH => {
            Answer::Mismatch { token: Token::parse(&answer.token), held: answer.held, resync: answer.resync }
        }
        NOT_OWNER => {
            Answer::NotOwner { address: (!answer.address.is_empty()).then(|| answer.address.clone()) }
        }
        LATER => Answer::Later {
            retry_after: convert::span(answer.retry_after_ms, "retry_after_ms")?,
            why: if answer.why == later_sentence(LaterReason::Throttled) {
                LaterReason::Throttled
            } else {
                LaterReason::StoreTrouble
            },
        },
        other => return Err(Invalid::new(format!("heartbeat answer {other:?} is not known"))),
    };
    Ok((answer.number, meaning))
}

/// Why a first heartbeat has to wait, for people.
pub const fn later_sentence(why: LaterReason) -> &'static str {
    match why {
        LaterReason::Throttled => "too many new workers at once",
        LaterReason::StoreTrouble => "the store cannot make the worker known now",
    }
}

/// The id of a set of workers on the wire.
pub fn set_to_wire(id: SetId) -> wire::WorkerSet {
    let SetId { generation, version, hash } = id;
    let SetHash { count, sum, xor } = hash;
    wire::WorkerSet { generation: generation.0, version: version.0, count, sum, xor }
}

/// The id of a set of workers from the wire.
pub const fn set_from_wire(set: &wire::WorkerSet) -> SetId {
    let wire::WorkerSet { generation, version, count, sum, xor } = *set;
    SetId { generation: Generation(generation), version: Version(version), hash: SetHash { count, sum, xor } }
}

/// How a worker goes.
pub fn leave(request: &wire::LeaveRequest) -> Result<Leave, Invalid> {
    Ok(Leave {
        all_stopped: request.all_stopped,
        crashed: request.crashed,
        exclusive_stopped: request.exclusive_stopped,
        stopped_for: convert::span(request.stopped_for_ms, "stopped_for_ms")?,
        stopped_at: stamp_from_wire(request.stopped_at_us),
    })
}

/// A time by a worker's own clock on the wire.
pub fn stamp_to_wire(at: Option<Instant>) -> i64 {
    at.map_or(0, |at| i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX))
}

/// A time by a worker's own clock from the wire; without one, or with nonsense, none.
pub fn stamp_from_wire(micros: i64) -> Option<Instant> {
    let micros = u64::try_from(micros).ok().filter(|micros| *micros > 0)?;
    Some(Instant::from_nanos(micros.saturating_mul(1_000)))
}

/// A change of the bound set on the wire.
pub fn change_to_wire(change: &Change) -> wire::Change {
    let Change { hold, change } = *change;
    wire::Change { job: hold.job.to_string(), fence: hold.fence.get(), change }
}

/// A change of the bound set from the wire.
pub fn change_from_wire(change: &wire::Change) -> Result<Change, Invalid> {
    Ok(Change { hold: convert::hold(&change.job, change.fence)?, change: change.change })
}

/// A hold on the wire.
pub fn hold_to_wire(hold: Hold) -> wire::Hold {
    wire::Hold { job: hold.job.to_string(), fence: hold.fence.get() }
}

/// An order to stop on the wire.
pub fn stop_to_wire(stop: &Stop) -> wire::Stop {
    convert::stop(
        stop.hold,
        match stop.reason {
            StopOrder::Cancelled => "cancelled",
            StopOrder::Lost => "lost",
            StopOrder::Silent => "silent",
        },
    )
}

/// An order to stop from the wire.
pub fn stop_from_wire(stop: &wire::Stop) -> Result<Stop, Invalid> {
    let reason = match stop.reason.as_str() {
        "cancelled" => StopOrder::Cancelled,
        "lost" => StopOrder::Lost,
        "silent" => StopOrder::Silent,
        other => return Err(Invalid::new(format!("reason {other:?} is not known to this worker"))),
    };
    Ok(Stop { hold: convert::hold(&stop.job, stop.fence)?, reason })
}

/// The reason behind a sentence; one that is not known here stands for a key that is not known there.
fn inactive_reason(sentence: &str) -> InactiveReason {
    let ends = HolderEnd::ALL.into_iter().map(InactiveReason::Ended);
    ends.chain([InactiveReason::KeyTaken])
        .find(|reason| reason.sentence() == sentence)
        .unwrap_or(InactiveReason::Unknown)
}

fn short(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{Fence, JobId, QueueName};

    use super::*;

    fn hold(job: u8) -> Hold {
        Hold { job: JobId::from_bytes([job; 16]), fence: Fence::new(7) }
    }

    fn beat() -> Heartbeat {
        Heartbeat {
            key: WorkerKey::new("w-1").unwrap(),
            nonce: Nonce::new(99),
            token: Some(Token::parse("a.b")),
            lease: Duration::from_secs(20),
            binds: vec![Change { hold: hold(1), change: 3 }],
            unbinds: vec![Change { hold: hold(2), change: 4 }],
            change: 4,
            digest: [hold(1)].into_iter().collect(),
            full: Some(vec![hold(1)]),
            former: Some(Former { key: WorkerKey::new("w-0").unwrap(), nonce: Nonce::new(98) }),
            profile: Some(Profile {
                name: "host".to_owned(),
                queues: vec![QueueName::new("q").unwrap()],
                slots: 4,
                version: "1".to_owned(),
                stop_within: Some(Duration::from_secs(6)),
                seat: Some(Seat::new("rack-7").unwrap()),
                host: "10.0.0.7".to_owned(),
                started_us: 1_760_000_000_123_456,
            }),
            free_slots: 2,
            lag: Duration::from_millis(5),
            sent_at: Some(Instant::from_millis(8)),
            answered_at: Some(Instant::from_millis(6)),
            starts_seen: 17,
            worker_set: Some(set()),
        }
    }

    /// Every part of it is another number, and the largest that fits.
    fn set() -> SetId {
        let hash = SetHash { count: u32::MAX, sum: u64::MAX - 1, xor: u64::MAX - 2 };
        SetId { generation: Generation(u64::MAX - 3), version: Version(u64::MAX), hash }
    }

    #[test]
    fn heartbeats_survive_the_wire() {
        let wire = heartbeat_to_wire(5, &beat());
        assert_eq!(heartbeat_from_wire(wire, None), Ok((5, beat())));
    }

    #[test]
    fn ids_of_sets_survive_the_wire() {
        for id in [set(), SetId { generation: Generation(1), version: Version(0), hash: SetHash::default() }]
        {
            assert_eq!(set_from_wire(&set_to_wire(id)), id);
        }
        let none = Heartbeat { worker_set: None, ..beat() };
        let wire = heartbeat_to_wire(5, &none);
        assert_eq!(wire.worker_set, None, "none is not an empty one");
        assert_eq!(heartbeat_from_wire(wire, None), Ok((5, none)));
    }

    #[test]
    fn who_a_worker_is_survives_the_wire() {
        let (key, nonce) = (beat().key, beat().nonce);
        let full = beat().profile.unwrap();
        let unseated = Profile { seat: None, host: String::new(), started_us: 0, ..full.clone() };
        for known in [full.clone(), unseated] {
            assert_eq!(profile(&hello(&key, nonce, &known)), Ok(known));
        }
        let said = hello(&key, nonce, &full);
        let refused = wire::Hello { seat: "no such seat".to_owned(), ..said.clone() };
        assert!(profile(&refused).unwrap_err().0.contains("seat"));
        let long = wire::Hello { host: "h".repeat(1_000), started_us: -5, ..said };
        let read = profile(&long).unwrap();
        assert_eq!((read.host.len(), read.started_us), (TEXT_BYTES_MAX, 0), "cut, and no date before 1970");
    }

    #[test]
    fn a_stream_lends_its_key() {
        let wire = wire::Heartbeat { worker: String::new(), nonce: 0, ..heartbeat_to_wire(5, &beat()) };
        assert!(heartbeat_from_wire(wire.clone(), None).is_err());
        let read = heartbeat_from_wire(wire, Some((&beat().key, beat().nonce)));
        assert_eq!(read, Ok((5, beat())));
    }

    #[test]
    fn too_many_changes_and_negative_leases_are_refused() {
        let binds = vec![change_to_wire(&beat().binds[0]); Limits::BOUND_MAX + 1];
        let wire = wire::Heartbeat { binds, ..heartbeat_to_wire(1, &beat()) };
        assert!(heartbeat_from_wire(wire, None).unwrap_err().0.contains("too large"));
        let wire = wire::Heartbeat { lease_ms: -1, ..heartbeat_to_wire(1, &beat()) };
        assert!(heartbeat_from_wire(wire, None).unwrap_err().0.contains("lease_ms"));
    }

    #[test]
    fn answers_survive_the_wire() {
        let stops = vec![
            Stop { hold: hold(1), reason: StopOrder::Lost },
            Stop { hold: hold(2), reason: StopOrder::Cancelled },
            Stop { hold: hold(3), reason: StopOrder::Silent },
        ];
        let token = Token::parse("1.2");
        let answers = [
            Answer::Ok(Ack {
                token,
                lease: Duration::from_secs(9),
                exclusive_hold: true,
                stops,
                resync: true,
                drain: true,
                worker_set: Some(set()),
            }),
            Answer::Inactive { why: InactiveReason::Ended(HolderEnd::Expired) },
            Answer::Inactive { why: InactiveReason::KeyTaken },
            Answer::Inactive { why: InactiveReason::Unknown },
            Answer::Mismatch { token, held: true, resync: false },
            Answer::NotOwner { address: Some("http://b:1".to_owned()) },
            Answer::NotOwner { address: None },
            Answer::Later { retry_after: Duration::from_millis(70), why: LaterReason::Throttled },
            Answer::Later { retry_after: Duration::from_millis(70), why: LaterReason::StoreTrouble },
        ];
        for answer in answers {
            assert_eq!(answer_from_wire(&answer_to_wire(8, &answer)), Ok((8, answer)));
        }
    }
}
