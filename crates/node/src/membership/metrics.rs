//! The numbers of a member. They exist only on servers that are in a cluster.

use gossip_udp::Stats;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rpc::node_convert;
use swim::{Event, State};

/// Every state, so that one nobody is in shows as 0.
const STATES: [State; 5] = [State::Alive, State::ProbeFailed, State::Suspected, State::Dead, State::Left];

/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct MemberMetrics {
    members: Family<StateLabel, Gauge>,
    events: Family<EventLabel, Counter>,
    false_suspicions: Counter,
    datagrams: Family<Direction, Counter>,
    bytes: Family<Direction, Counter>,
    dropped: Family<DropReason, Counter>,
    pub(crate) health: Gauge,
    pub(crate) lonely: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabel {
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DropReason {
    reason: &'static str,
}

/// Which way a datagram goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

impl Direction {
    const IN: Direction = Direction { direction: "in" };
    const OUT: Direction = Direction { direction: "out" };
}

impl MemberMetrics {
    pub(crate) fn register(&self, r: &mut Registry) {
        r.register("members", "Nodes of the cluster by state, this one included", self.members.clone());
        r.register("member_events", "What changed in the cluster, as this node sees it", self.events.clone());
        r.register(
            "false_suspicions",
            "Nodes that were suspected or taken for dead, and contradicted",
            self.false_suspicions.clone(),
        );
        r.register("gossip_datagrams", "Membership datagrams", self.datagrams.clone());
        r.register("gossip_bytes", "Bytes of membership datagrams", self.bytes.clone());
        r.register("gossip_dropped", "Membership messages that were not taken", self.dropped.clone());
        r.register(
            "local_health",
            "How far this node doubts its own judgement; 0 is well",
            self.health.clone(),
        );
        r.register(
            "lonely",
            "1 while most other nodes seem gone, so that more likely this one is",
            self.lonely.clone(),
        );
    }

    /// Notes an event.
    pub(crate) fn count(&self, event: &Event) {
        self.events.get_or_create(&EventLabel { event: node_convert::event(event) }).inc();
        if matches!(event, Event::Refuted(..)) {
            self.false_suspicions.inc();
        }
    }

    pub(crate) fn set_members(&self, states: impl Iterator<Item = State>) {
        let mut counts = [0; STATES.len()];
        for state in states {
            counts[state as usize] += 1;
        }
        for (state, count) in STATES.into_iter().zip(counts) {
            self.members.get_or_create(&StateLabel { state: node_convert::state(state) }).set(count);
        }
    }

    /// Adds what a driver counted since `before`.
    pub(crate) fn add(&self, before: &Stats, now: &Stats) {
        for (way, datagrams, bytes) in [
            (Direction::IN, now.datagrams_in - before.datagrams_in, now.bytes_in - before.bytes_in),
            (Direction::OUT, now.datagrams_out - before.datagrams_out, now.bytes_out - before.bytes_out),
        ] {
            self.datagrams.get_or_create(&way).inc_by(datagrams);
            self.bytes.get_or_create(&way).inc_by(bytes);
        }
        for ((reason, before), (_, now)) in drops(before).zip(drops(now)) {
            self.dropped.get_or_create(&DropReason { reason }).inc_by(now - before);
        }
    }
}

/// What was not taken, by reason.
fn drops(stats: &Stats) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    let streams = [("stream_refused", stats.streams_refused), ("stream_failed", stats.streams_failed)];
    stats.dropped.by_reason().into_iter().chain(streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_place() {
        for (index, state) in STATES.into_iter().enumerate() {
            assert_eq!(state as usize, index);
        }
    }
}
