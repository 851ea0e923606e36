//! **The promise:** what has arrived is heard before anyone is judged. A server that was stopped, starved or busy finds
//! heartbeats in its inbox that came in time; it must not declare their senders dead because its own timers are due.

use model::WorkerKey;

use super::holds;
use crate::law::Verdict;
use crate::time::Time;

pub(super) const LAW: &str = "inactive_with_heartbeat_waiting";

/// A worker's lease was over at `expires`; a heartbeat with its current token has waited since `arrived`, if any has.
pub(in super::super) fn check(key: &WorkerKey, expires: Time, arrived: Option<Time>) -> Verdict {
    let was_late = arrived.is_none_or(|arrived| arrived >= expires);
    holds(LAW, was_late, || {
        let arrived = arrived.unwrap_or(expires);
        format!("{key} is declared inactive as of {expires} s while its heartbeat waits since {arrived} s")
    })
}
