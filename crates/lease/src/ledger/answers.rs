//! What the registry's answer to a heartbeat means for us.
//!
//! | answer | what we do |
//! |---|---|
//! | ok | store the token, hold on until the lease from the send stamp is over, forget the changes that were carried |
//! | mismatch | take the token, keep the changes, once more at once; renews nothing |
//! | ok, exclusive hold | the same for exclusive jobs; without it theirs ends when it would have |
//! | inactive | everything is lost: stop it all, ask for a new key |
//! | not owner | go there under the same key; nothing is renewed, nothing is lost |
//! | later | wait, with jitter; a server whose store is in trouble again and again is left for another one |

use model::{Fence, Instant};

use super::instance::Taken;
use super::machine::Ledger;
use super::mutation::Mutation;
use super::pulse::InFlight;
use super::{KeyEnd, Output, StopReason};
use crate::clock_rule::{self, RateError};
use crate::message::{Ack, Answer};

impl Ledger {
    /// Only the answer to the heartbeat in flight counts.
    pub(super) fn hear(&mut self, now: Instant, number: u64, answer: Answer) {
        let Some(beat) = self.pulse.answered(number) else { return };
        match answer {
            Answer::Ok(ack) => self.acknowledge(now, &beat, ack),
            Answer::Mismatch { token, resync, .. } => {
                self.instance.show(token);
                if resync {
                    self.instance.owe_full();
                }
                if self.has(Mutation::DeltasClearedOnMismatch) {
                    self.bound.acknowledge(beat.change);
                }
                self.pulse.mismatched(now, &beat);
            }
            Answer::Inactive { .. } => self.lose_all(now),
            Answer::NotOwner { address } => self.outputs.push_back(Output::MoveTo { address }),
            Answer::Later { retry_after, why } => {
                self.pulse.wait(now, retry_after, self.instance.nonce());
                if self.pulse.is_in_vain(why) {
                    self.outputs.push_back(Output::TryAnother);
                }
            }
        }
    }

    fn acknowledge(&mut self, now: Instant, beat: &InFlight, ack: Ack) {
        let sent_at = if self.has(Mutation::StampAtReceive) { now } else { beat.sent_at };
        let rate_error =
            if self.has(Mutation::RateErrorIgnored) { RateError::ppm(0) } else { self.terms.rate_error };
        let hold_until = clock_rule::hold_until(sent_at, ack.lease, rate_error);
        let is_exclusive = ack.exclusive_hold || self.has(Mutation::ExclusiveHoldAssumed);
        if is_exclusive {
            self.note_gap(now);
        }
        let Some(stream) = &mut self.stream else { return };
        stream.serve();
        let taken = Taken {
            server: stream.generation(),
            token: ack.token,
            lease: ack.lease,
            hold_until,
            is_exclusive,
            was_full: beat.is_full,
        };
        if let Some(set) = ack.worker_set {
            self.keep_set(set);
        }
        if self.instance.acknowledge(taken) {
            self.pulse.follow(ack.lease);
            self.outputs.push_back(Output::Registered { lease: ack.lease });
        }
        self.wellness.heard(sent_at, !ack.resync);
        self.bound.acknowledge(beat.change);
        if self.has(Mutation::StartsOnHeartbeat) {
            self.binds_to_repeat().into_iter().for_each(|bind| self.begin_if_waiting(now, bind.hold));
        }
        if self.has(Mutation::RenewalRevives) {
            self.jobs.spare_all();
        }
        if ack.resync {
            self.instance.owe_full();
        }
        self.instance.answered_at(now);
        self.pulse.accepted(now, beat, ack.resync);
        for stop in ack.stops {
            self.obey(now, stop);
        }
        if ack.drain && !self.is_drain_ordered {
            self.is_drain_ordered = true;
            self.outputs.push_back(Output::DrainOrdered);
        }
    }

    /// The key is dead by the registry's word, and with it every claim under it.
    fn lose_all(&mut self, now: Instant) {
        let owes_farewell = self.instance.is_registered() && !self.phase.has_taken_leave();
        self.stop_all(now, StopReason::Lost);
        self.disown_exclusive();
        self.instance.inactivate();
        self.drop_stream();
        self.bound.clear();
        self.notes.clear();
        if owes_farewell {
            let is_early = self.has(Mutation::FarewellsEarly);
            let running = self.jobs.holds().filter(|_| !is_early).collect();
            self.farewells.owe(now, self.key().clone(), running);
            self.say_farewells();
        }
        if !self.terms.report_lost {
            // Also what was completed: it may have been given away since, and run to its end elsewhere.
            self.kept.forget_unanswered();
            let refused = self.reports.drop_all();
            self.outputs
                .extend(refused.into_iter().map(|hold| Output::Refused { hold, current: Fence::NONE }));
        }
        if self.phase.is_leaving() {
            // The server took our leave, and its confirmation was overtaken or lost.
            self.phase.left();
        } else {
            self.outputs.push_back(Output::NewKey { why: KeyEnd::Inactive });
        }
    }
}
