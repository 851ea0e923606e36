//! Members of the cluster as messages: one direction only, nobody tells a server who its members are.

use swim::{Event, Identity, Incarnation, Member, Reason, State};

use crate::convert;
use crate::wire::Node;

/// A member as of `now`; what it tells of itself (`api_address`, `name`, `version`) is filled in by whoever can read it.
pub fn node(member: &Member, now: model::Instant) -> Node {
    Node {
        id: member.identity.id.0,
        epoch: member.identity.epoch.0,
        incarnation: member.incarnation.0,
        state: state(member.state).to_owned(),
        state_for_ms: convert::millis(now.since(member.since)),
        address: member.info.addr.to_string(),
        probation: member.on_probation,
        ..Node::default()
    }
}

/// The word for a member's state.
pub const fn state(state: State) -> &'static str {
    match state {
        State::Alive => "alive",
        State::ProbeFailed => "probe_failed",
        State::Suspected => "suspected",
        State::Dead => "dead",
        State::Left => "left",
    }
}

/// What an event says of a member; nothing if it is about the one that tells it.
pub struct Said {
    /// About whom.
    pub identity: Identity,
    /// The state it is in by this event, and since which incarnation, where the event says so.
    pub state: Option<(State, Option<Incarnation>)>,
    /// Why.
    pub reason: Option<Reason>,
}

/// The word for an event.
pub const fn event(event: &Event) -> &'static str {
    match event {
        Event::Joined(_) => "joined",
        Event::Suspected(..) => "suspected",
        Event::Refuted(..) => "refuted",
        Event::Dead(..) => "dead",
        Event::Left(_) => "left",
        Event::Changed(_) => "changed",
        Event::Forgotten(_) => "forgotten",
        Event::Lonely => "lonely",
        Event::Reunited => "reunited",
        Event::WeRefuted(_) => "contradicted",
        Event::Expelled => "expelled",
        Event::HaveLeft => "gone",
        Event::LogAhead(..) => "log_ahead",
        Event::Full(_) => "full",
    }
}

/// Whom an event is about, if that is another node, and what it says.
pub fn said(event: &Event) -> Option<Said> {
    let of = |identity: &Identity, state, reason| Some(Said { identity: *identity, state, reason });
    match event {
        Event::Joined(who) => of(who, Some((State::Alive, None)), None),
        Event::Suspected(who, at, why) => of(who, Some((State::Suspected, Some(*at))), Some(*why)),
        Event::Refuted(who, at) => of(who, Some((State::Alive, Some(*at))), None),
        Event::Dead(who, at, why) => of(who, Some((State::Dead, Some(*at))), Some(*why)),
        Event::Left(who) => of(who, Some((State::Left, None)), None),
        Event::Changed(who) | Event::Forgotten(who) | Event::Full(who) => of(who, None, None),
        Event::Lonely
        | Event::Reunited
        | Event::WeRefuted(_)
        | Event::Expelled
        | Event::HaveLeft
        | Event::LogAhead(..) => None,
    }
}

/// A reason in words.
pub fn reason(reason: Reason) -> String {
    match reason {
        Reason::NoAnswer => "no answer, direct or through helpers".to_owned(),
        Reason::Opinions { bad, of } => format!("{bad} of {of} get no answer"),
        Reason::NotRefuted => "did not contradict in time".to_owned(),
        Reason::Told(by) => format!("told by node {by}"),
    }
}
