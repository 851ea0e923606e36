//! What the server tells a worker about itself, for whoever reads its log.

use rpc::wire;

/// What was told so far.
#[derive(Default)]
pub(crate) struct Told {
    set: Option<wire::WorkerSet>,
    is_sent_away: bool,
}

impl Told {
    /// The set of workers that it belongs to. Said only when it has changed.
    pub(crate) fn set(&mut self, set: Option<&wire::WorkerSet>) {
        if let Some(set) = set
            && self.set.as_ref() != Some(set)
        {
            let wire::WorkerSet { generation, version, count, .. } = *set;
            tracing::debug!(generation, version, members = count, "the server told its set of workers");
            self.set = Some(*set);
        }
    }

    /// An answer to a heartbeat that says more than "go on".
    pub(crate) fn answer(&mut self, answer: &wire::HeartbeatAnswer) {
        self.set(answer.worker_set.as_ref());
        let why = answer.why.as_str();
        match answer.answer.as_str() {
            "worker_inactive" => tracing::warn!(why, "the server does not want this worker's key any more"),
            "later" => tracing::warn!(why, "the server does not take this worker yet"),
            _ if answer.drain && !std::mem::replace(&mut self.is_sent_away, true) => {
                tracing::warn!(why, "the server sends this worker away: it drains");
            }
            _ => {}
        }
    }
}
