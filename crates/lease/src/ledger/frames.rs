//! What we send: everything that can be said now, in one frame. Until the present key is registered, only heartbeats. What
//! only the server that looks after us has a use for, credits and the leave, waits until it took a heartbeat.

use bytes::Bytes;
use model::{Hold, Instant, Limits};

use super::drain::Phase;
use super::machine::Ledger;
use super::mutation::Mutation;
use super::stream::Stream;
use super::{LeaveNote, Transmit};
use crate::message::{Change, Heartbeat};

/// Most reports, progress notes or signs in one frame; the rest waits for the next one.
const FRAME_ENTRIES_MAX: usize = 1000;
/// Bytes of reports or notes after which a frame is closed; a single entry may be larger.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Unanswered reports beyond the number of slots at which no more credits are given, until the server catches up.
pub(super) const REPORTS_UNANSWERED_MAX: usize = 10_000;

impl Ledger {
    /// Whether [`Ledger::poll_transmit`] may give a frame.
    pub fn has_transmit(&self, now: Instant) -> bool {
        self.stream.is_some() && self.is_heartbeat_due(now)
            || self.may_speak()
                && (self.credits_due() > 0
                    || self.withdraws()
                    || self.bound.is_due(now)
                    || self.jobs.has_signs()
                    || self.reports.has_unsent()
                    || self.kept.has_unsent()
                    || self.stream.as_ref().is_some_and(Stream::owes_echo)
                    || !self.notes.is_empty()
                    || self.may_leave())
    }

    /// Everything that can be said now, in one frame. Call until `None`, and only if the frame can be sent at once: its
    /// heartbeat counts from `now`. May queue outputs, since it notices when the lease is over.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.catch_up(now);
        self.stream.as_ref()?;
        let mut transmit = if self.may_speak() { self.speak(now) } else { Transmit::default() };
        if self.is_heartbeat_due(now) {
            transmit.heartbeat = Some(self.heartbeat(now));
        }
        (transmit != Transmit::default()).then_some(transmit)
    }

    fn speak(&mut self, now: Instant) -> Transmit {
        let mut reports = self.reports.take_unsent(FRAME_ENTRIES_MAX, FRAME_BYTES_MAX);
        if reports.is_empty() {
            reports = self.kept.take_unsent(FRAME_ENTRIES_MAX, FRAME_BYTES_MAX);
        }
        let mut transmit = Transmit {
            credits: self.credits_due(),
            draining: self.withdraws(),
            heartbeat: None,
            binds: self.binds(now),
            beats: self.jobs.take_signs(now, FRAME_ENTRIES_MAX),
            reports,
            notes: self.take_notes(),
            leave: None,
            worker_set: None,
        };
        if let Some(stream) = &mut self.stream {
            stream.credits = if transmit.draining { 0 } else { stream.credits + transmit.credits };
            transmit.worker_set = self.instance.worker_set().filter(|_| stream.take_echo());
        }
        if self.may_leave() {
            self.phase.leave_sent();
            transmit.leave = Some(LeaveNote {
                key: self.key().clone(),
                nonce: self.nonce(),
                all_stopped: self.jobs.is_empty(),
                crashed: self.has_crashed,
            });
        }
        transmit
    }

    /// Binds that do not wait for a heartbeat, or that a heartbeat has not settled.
    fn binds(&mut self, now: Instant) -> Vec<Change> {
        let mut binds = if self.is_heartbeat_due(now) { self.binds_to_repeat() } else { Vec::new() };
        binds.extend(self.bound.tell_due(now));
        binds
    }

    fn heartbeat(&mut self, now: Instant) -> (u64, Heartbeat) {
        self.bound.tell_all();
        // A server that has taken nothing of ours over this life of its own may have no memory: it hears who we are and
        // everything we hold, whatever the token is worth to it.
        let is_known = self.is_known();
        let changes = self.bound.changes().filter(|_| is_known && !self.instance.owes_full());
        // The full set says all that the changes would say, as of the same counter.
        let full = if changes.is_none() { Some(self.bound.told()) } else { None };
        let (binds, unbinds) = changes.unwrap_or_default();
        let token = self.instance.token();
        let number = self.pulse.sent(now, self.bound.counter(), full.is_some());
        let beat = Heartbeat {
            key: self.key().clone(),
            nonce: self.nonce(),
            token,
            lease: self.terms.lease,
            binds,
            unbinds,
            change: self.bound.counter(),
            digest: self.bound.digest(),
            full,
            former: self.instance.former(),
            profile: (!is_known).then(|| self.terms.profile.clone()),
            free_slots: self.terms.profile.slots.saturating_sub(self.jobs.len()),
            lag: self.lag,
            sent_at: Some(now),
            answered_at: self.instance.was_answered_at(),
            starts_seen: self.stream.as_ref().map_or(0, Stream::starts_seen),
            worker_set: self.instance.worker_set(),
        };
        (number, beat)
    }

    /// Whether the server of this stream has taken a heartbeat of the present key, in this life of its own.
    fn is_known(&self) -> bool {
        let knows = |stream: &Stream| self.instance.is_known_to(stream.generation());
        self.stream.as_ref().is_some_and(knows)
            || self.has(Mutation::NewServerToldChanges) && self.instance.token().is_some()
    }

    fn is_heartbeat_due(&self, now: Instant) -> bool {
        self.pulse.is_due(now) && !self.phase.has_taken_leave() && !self.awaits_ends()
    }

    /// A successor says what it goes on with, and the server gives away what it does not name. So what may still run of the
    /// exclusive jobs of the key before must end first.
    fn awaits_ends(&self) -> bool {
        let names_former = self.instance.former().is_some();
        names_former && self.jobs.has_outlived() && !self.has(Mutation::ExclusiveInherited)
    }

    fn take_notes(&mut self) -> Vec<(Hold, Bytes)> {
        let mut notes = Vec::new();
        let mut bytes = 0;
        while notes.len() < FRAME_ENTRIES_MAX && bytes < FRAME_BYTES_MAX {
            let Some((hold, note)) = self.notes.pop_first() else { break };
            bytes += note.len();
            notes.push((hold, note));
        }
        notes
    }

    fn credits_due(&self) -> u32 {
        let slots = self.terms.profile.slots;
        let backlog_max = slots as usize + REPORTS_UNANSWERED_MAX;
        let is_full = self.reports.len() >= backlog_max || self.kept.is_full();
        if self.phase != Phase::Serving || !self.is_served() || is_full {
            return 0;
        }
        let credits = self.stream.as_ref().map_or(0, |stream| stream.credits);
        // Whatever we hold must fit into a heartbeat: what is not said counts as not running.
        let unsaid_max = Limits::BOUND_MAX.saturating_sub(self.bound.len() + credits as usize);
        let room = u32::try_from(unsaid_max).unwrap_or(u32::MAX);
        slots.saturating_sub(self.jobs.len().saturating_add(credits)).min(room)
    }

    /// Whether the server still has credits that we do not want to be used: what is handed back would come again.
    fn withdraws(&self) -> bool {
        self.phase != Phase::Serving && self.stream.as_ref().is_some_and(|stream| stream.credits > 0)
    }

    /// Every report is answered first, so that the server takes back only what really did not end.
    fn may_leave(&self) -> bool {
        self.phase.may_leave() && self.is_served() && self.reports.is_empty()
    }

    /// Whether the server of this stream is the one that looks after us.
    fn is_served(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_served) || self.has(Mutation::TrustsEveryServer)
    }
}
