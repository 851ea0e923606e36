//! Rescue: rows whose lease is over are judged by the registry, then pushed out or taken back.

use std::collections::VecDeque;
use std::time::Duration;

use lease::message::{Stop, StopOrder};
use lease::registry::{Row, Verdict};
use model::Instant;
use schedule::upkeep::{self, Duty};
use store::{Expired, Reaped};

use super::super::call::Call;
use super::super::event::Told;
use super::heart::Heart;
use super::{Moment, Then};

/// How soon a row is asked about again when its registry could not say.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// A rescue pass after its rows were judged: what is still to be done.
#[derive(Debug)]
pub(in super::super) struct Pass {
    found: usize,
    limit: usize,
    /// Rows were found that another registry judges.
    is_partial: bool,
    steps: VecDeque<Call>,
    not_after: Instant,
}

impl Heart {
    /// Asks the registry about rows whose lease is over.
    pub(super) fn judge_rows(
        &mut self,
        moment: &Moment<'_, '_>,
        rows: Vec<Expired>,
        limit: usize,
        not_after: Instant,
    ) -> Pass {
        let asked: Vec<Row> = rows
            .iter()
            .map(|row| Row {
                hold: row.hold,
                holder: row.holder.clone(),
                registry: row.registry,
                beats_itself: row.beats_itself,
                exclusive: row.exclusive,
                pings: false,
            })
            .collect();
        let mut pass =
            Pass { found: rows.len(), limit, is_partial: false, steps: VecDeque::new(), not_after };
        // Decided too long ago, it is not begun: we were frozen since, and workers must be heard first.
        if moment.now > not_after {
            return pass;
        }
        let Some(roll) = &mut self.roll else { return pass };
        let verdicts = roll.registry.verify(moment.now, &asked);
        let (mut pushed, mut again, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for (row, verdict) in rows.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Push => pushed.push(row),
                Verdict::AskAgain => again.push(row),
                Verdict::TakeBack => taken.push(row),
                Verdict::NotOurs => pass.is_partial = true,
            }
        }
        pass.steps
            .extend((!pushed.is_empty()).then_some(Call::Push(pushed, moment.outside.setup.verify_push)));
        pass.steps.extend((!again.is_empty()).then_some(Call::Push(again, ASK_AGAIN)));
        pass.steps.extend((!taken.is_empty()).then_some(Call::Reap(taken)));
        pass
    }

    /// The next step of a rescue pass, or its end. One that comes too late, or that saw rows which another registry
    /// judges, is tried again after a while.
    pub(super) fn go_on_with(&mut self, moment: &mut Moment<'_, '_>, mut pass: Pass) {
        let now = moment.now;
        let is_late = now > pass.not_after;
        if is_late && pass.found > 0 || pass.is_partial && pass.steps.is_empty() {
            return self.upkeep.handle(now, upkeep::Input::Failed { duty: Duty::Reap });
        }
        match pass.steps.pop_front() {
            Some(step) => moment.call(step, Then::Passed(pass)),
            None => {
                let done = upkeep::Input::ReapDone { found: pass.found, limit: pass.limit };
                self.upkeep.handle(now, done);
            }
        }
    }

    /// Jobs were taken back: someone else may have them.
    pub(super) fn note_reaped(&mut self, moment: &mut Moment<'_, '_>, reaped: &[Reaped]) {
        for job in reaped {
            self.offered(moment.now, job.state, &job.queue, job.due_in);
            // A holder that is connected after all should not find out only at its next heartbeat.
            let stops = vec![Stop { hold: job.hold, reason: StopOrder::Lost }];
            self.send_to(moment, &job.holder, Told { stops, ..Told::default() });
        }
    }
}
