//! What the port counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a request was answered at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Host,
    Origin,
    ContentType,
    Grpc,
}

impl Reason {
    const fn word(self) -> &'static str {
        match self {
            Reason::Host => "host",
            Reason::Origin => "origin",
            Reason::ContentType => "content_type",
            Reason::Grpc => "grpc",
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
}

impl DoorMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "requests_refused",
            "Requests answered at the door, by what was wrong with them",
            self.refused.clone(),
        );
    }

    pub(crate) fn refuse(&self, reason: Reason) {
        self.refused.get_or_create(&ReasonLabel { reason: reason.word() }).inc();
    }
}
