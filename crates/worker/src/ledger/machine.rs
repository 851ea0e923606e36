//! The machine itself: one input at a time, outputs and frames on request. What it promises is told in the module above.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, Instant, Limits, Outcome};

use super::beats::Beats;
use super::doubt::Doubt;
use super::drain::Phase;
use super::held::{Due, Held};
use super::reports::Reports;
use super::{Answer, Ended, Grant, Input, Output, StopReason, Terms, Transmit};

/// Most reports, and most progress notes, in one frame; the rest waits for the next one.
const FRAME_ENTRIES_MAX: usize = 1000;
/// Bytes of reports or notes after which a frame is closed; a single entry may be larger.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Unanswered reports beyond the number of slots at which no more credits are given, until the server catches up.
pub(super) const REPORTS_UNANSWERED_MAX: usize = 10_000;

/// The ledger of one worker, over all its reconnects.
#[derive(Debug)]
pub(crate) struct Ledger {
    terms: Terms,
    connected: bool,
    /// Every job whose handler has not ended, lost ones included.
    held: BTreeMap<Hold, Held>,
    /// Not later than the first deadline of any held job. Only a scan moves it later, so that a job which comes and
    /// goes costs nothing here.
    check_at: Option<Instant>,
    beats: Beats,
    doubt: Doubt,
    reports: Reports,
    notes: BTreeMap<Hold, Bytes>,
    /// Credits the server has of us.
    granted: u32,
    phase: Phase,
    outputs: VecDeque<Output>,
}

impl Ledger {
    pub(crate) fn new(terms: Terms) -> Self {
        Ledger {
            terms,
            connected: false,
            held: BTreeMap::new(),
            check_at: None,
            beats: Beats::default(),
            doubt: Doubt::default(),
            reports: Reports::default(),
            notes: BTreeMap::new(),
            granted: 0,
            phase: Phase::Serving,
            outputs: VecDeque::new(),
        }
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Connected => self.connect(now),
            Input::Disconnected => self.disconnect(),
            Input::Overslept { since } => self.oversleep(now, since),
            Input::Assigned(grant) => self.assign(now, grant),
            Input::BeatAnswered { number, renewals } => self.renew(number, &renewals),
            Input::CancelOrdered(hold) => self.stop(hold, StopReason::Cancelled),
            Input::Lost(hold) => self.stop(hold, StopReason::Lost),
            Input::Finished { hold, ended } => self.finish(hold, ended),
            Input::ReportAnswered { hold, answer } => self.settle(hold, answer),
            Input::Noted { hold, note } => self.note(hold, note),
            Input::Drain { grace } => self.phase.drain(now, grace, self.terms.kill_wait),
            Input::Left => self.phase.left(),
        }
        self.advance_phase(now);
    }

    /// When to call [`Ledger::handle_deadline`], or to ask for a frame because a beat is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let beat_at = if self.connected { self.beats.next_at() } else { None };
        [self.check_at, beat_at, self.phase.next_deadline()].into_iter().flatten().min()
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if self.check_at.is_some_and(|at| at <= now) {
            self.check_held(now);
        }
        if self.connected {
            self.beats.handle_deadline(now);
        }
        if self.phase.stops_handlers(now) {
            self.stop_all();
        }
        if self.phase.aborts_handlers(now) {
            self.outputs.extend(self.held.keys().map(|hold| Output::Abort { hold: *hold }));
        }
        self.advance_phase(now);
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether [`Ledger::poll_transmit`] may give a frame.
    pub(crate) fn has_transmit(&self, now: Instant) -> bool {
        self.connected
            && (self.credits_due() > 0
                || self.withdraws()
                || self.reports.has_unsent()
                || !self.notes.is_empty()
                || self.beats.is_due(now)
                || self.leave_due().is_some())
    }

    /// Everything that can be said now, in one frame. Call until `None`.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if !self.connected {
            return None;
        }
        let credits = self.credits_due();
        let draining = self.withdraws();
        self.granted = if draining { 0 } else { self.granted + credits };
        let leave = self.leave_due();
        if leave.is_some() {
            self.phase.leave_sent();
        }
        let transmit = Transmit {
            credits,
            draining,
            beat: self.beat(now),
            reports: self.reports.take_unsent(FRAME_ENTRIES_MAX, FRAME_BYTES_MAX),
            notes: self.take_notes(),
            leave,
        };
        (transmit != Transmit::default()).then_some(transmit)
    }

    fn connect(&mut self, now: Instant) {
        self.connected = true;
        self.granted = 0;
        self.reports.send_all_again();
        if self.held.values().any(Held::is_live) {
            self.beats.send_by(now);
        }
    }

    fn disconnect(&mut self) {
        self.connected = false;
        self.beats.forget_sent();
        // Whatever was waiting in the buffers of the old stream is gone with it.
        self.doubt.settle();
        self.phase.stream_lost();
    }

    fn oversleep(&mut self, now: Instant, since: Instant) {
        if self.connected {
            self.doubt.raise(since);
            self.beats.send_by(now);
        }
    }

    fn assign(&mut self, now: Instant, grant: Grant) {
        let hold = grant.hold;
        self.granted = self.granted.saturating_sub(1);
        let is_known = self.held.contains_key(&hold) || self.reports.contains(&hold);
        if is_known || self.holds_newer(hold) {
            return;
        }
        let held = Held::new(&grant, now, self.doubt.arrival(now));
        if self.phase != Phase::Serving || held.is_over(now) {
            self.reports.owe(hold, Outcome::HandedBack);
            return;
        }
        // An older claim of the same job has ended without our knowledge; otherwise it could not be claimed again.
        let older = Hold { job: hold.job, fence: Fence::NONE };
        let superseded: Vec<Hold> = self.held.range(older..hold).map(|(hold, _)| *hold).collect();
        for hold in superseded {
            self.stop(hold, StopReason::Lost);
        }
        self.check_by(held.next_deadline());
        self.beats.send_by(now + Beats::interval(grant.lease));
        self.held.insert(hold, held);
        self.outputs.push_back(Output::Start { hold });
    }

    fn renew(&mut self, number: u64, renewals: &[(Hold, Duration)]) {
        let Some(sent_at) = self.beats.answered(number) else { return };
        self.doubt.answered(number);
        for (hold, lease) in renewals {
            if let Some(held) = self.held.get_mut(hold) {
                held.renew(sent_at, *lease);
            }
        }
    }

    fn stop(&mut self, hold: Hold, reason: StopReason) {
        // A job that has ended here is not known any more: an order that crossed its report is ignored.
        if let Some(held) = self.held.get_mut(&hold)
            && held.stop(reason)
        {
            if reason == StopReason::Lost {
                self.notes.remove(&hold);
            }
            self.outputs.push_back(Output::Stop { hold, reason });
        }
    }

    fn finish(&mut self, hold: Hold, ended: Ended) {
        let Some(held) = self.held.remove(&hold) else { return };
        let outcome = held.outcome(ended, self.terms.report_lost);
        match &outcome {
            Some(outcome) => self.reports.owe(hold, outcome.clone()),
            None => drop(self.notes.remove(&hold)),
        }
        self.outputs.push_back(Output::Ended { hold, outcome });
    }

    fn settle(&mut self, hold: Hold, answer: Answer) {
        if !self.reports.answered(&hold) {
            return;
        }
        self.outputs.push_back(match answer {
            Answer::Done => Output::Accepted { hold },
            Answer::Refused { current } => Output::Refused { hold, current },
        });
    }

    fn note(&mut self, hold: Hold, note: Bytes) {
        if self.held.get(&hold).is_some_and(Held::is_live) {
            self.notes.insert(hold, note);
        }
    }

    /// Looks at every held job: whose lease is over, who ran too long, who did not stop when told.
    fn check_held(&mut self, now: Instant) {
        let mut next = None;
        for (hold, held) in &mut self.held {
            held.check(now, self.terms.kill_wait, |due| {
                self.outputs.push_back(match due {
                    Due::Stop(reason) => Output::Stop { hold: *hold, reason },
                    Due::Abort => Output::Abort { hold: *hold },
                });
            });
            next = [next, held.next_deadline()].into_iter().flatten().min();
        }
        self.check_at = next;
    }

    fn check_by(&mut self, at: Option<Instant>) {
        self.check_at = [self.check_at, at].into_iter().flatten().min();
    }

    fn stop_all(&mut self) {
        for (hold, held) in &mut self.held {
            if held.stop(StopReason::Draining) {
                self.outputs.push_back(Output::Stop { hold: *hold, reason: StopReason::Draining });
            }
        }
    }

    fn advance_phase(&mut self, now: Instant) {
        self.phase.advance(now, self.held.is_empty());
        // Without a stream, and with nothing to deliver, there is nobody to take leave of.
        let is_idle = !self.connected && self.held.is_empty() && self.reports.is_empty();
        if self.phase.ends(now, is_idle) {
            self.phase = Phase::Over;
            self.outputs.push_back(Output::Gone { unreported: self.reports.len() });
        }
    }

    fn beat(&mut self, now: Instant) -> Option<(u64, Vec<Hold>)> {
        if !self.beats.is_due(now) {
            return None;
        }
        let live = || self.held.iter().filter(|(_, held)| held.is_live());
        // A doubt is beaten for until it is settled, whether or not anything is held.
        let in_doubt = self.doubt.is_raised().then_some(Limits::LEASE_DEFAULT);
        let Some(shortest) = live().map(|(_, held)| held.lease()).chain(in_doubt).min() else {
            self.beats.rest();
            return None;
        };
        let holds = live().map(|(hold, _)| *hold).collect();
        let number = self.beats.sent(now, shortest);
        self.doubt.beat_sent(number);
        Some((number, holds))
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
        let backlog_max = self.terms.slots as usize + REPORTS_UNANSWERED_MAX;
        if self.phase != Phase::Serving || self.doubt.is_raised() || self.reports.len() >= backlog_max {
            return 0;
        }
        let used = u32::try_from(self.held.len()).unwrap_or(u32::MAX).saturating_add(self.granted);
        self.terms.slots.saturating_sub(used)
    }

    /// Whether the server still has credits that we do not want to be used: what is handed back would come again.
    fn withdraws(&self) -> bool {
        self.phase != Phase::Serving && self.granted > 0
    }

    fn leave_due(&self) -> Option<bool> {
        // Every report is answered first, so that the server takes back only what really did not end.
        (self.phase.may_leave() && self.reports.is_empty()).then_some(self.held.is_empty())
    }

    fn holds_newer(&self, hold: Hold) -> bool {
        let newest = Hold { job: hold.job, fence: Fence::new(i64::MAX) };
        self.held.range(hold..=newest).next().is_some()
    }
}
