//! What the port counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why a request was answered at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Host,
    Origin,
    ContentType,
    Grpc,
    Room,
}

impl Reason {
    const fn word(self) -> &'static str {
        match self {
            Reason::Host => "host",
            Reason::Origin => "origin",
            Reason::ContentType => "content_type",
            Reason::Grpc => "grpc",
            Reason::Room => "room",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// The numbers of the port.
#[derive(Clone, Default)]
pub(crate) struct DoorMetrics {
    refused: Family<ReasonLabel, Counter>,
    pub(super) connections_refused: Counter,
    pub(super) connections_cut: Counter,
    pub(super) connections: Gauge,
    pub(super) inflight_bytes: Gauge,
}

impl DoorMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "requests_refused",
            "Requests answered at the door, by what was wrong with them",
            self.refused.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections closed at once, because their address or the server had too many",
            self.connections_refused.clone(),
        );
        registry.register(
            "connections_cut",
            "Connections ended because their client took nothing of an answer for too long",
            self.connections_cut.clone(),
        );
        registry.register("connections", "Open connections, some seconds ago", self.connections.clone());
        registry.register(
            "inflight_bytes",
            "Bytes of bodies and answers on their way, some seconds ago",
            self.inflight_bytes.clone(),
        );
    }

    pub(crate) fn refuse(&self, reason: Reason) {
        self.refused.get_or_create(&ReasonLabel { reason: reason.word() }).inc();
    }
}
