//! The healthcheck: a job that does nothing, through everything that a real one goes through.
//!
//! The session loop starts a task for it as for a handler, and hears of its end as of a handler's. Where jobs are processes
//! the guardian is asked, too, to start a program that has no name: it makes the process, and answers that there is nothing
//! to run in it. A worker whose loop, tasks or guardian stand still does not answer, and nothing else is what the server
//! wants to know. It takes no slot and is no job: it runs while all slots are busy and while the worker drains.

use std::time::Duration;

use guardian::{Guardian, Launch, LaunchError};
use model::Instant;
use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedSender;

use crate::home::JobEvent;

/// The checks of a session, one at a time.
pub(crate) struct Checks {
    events: UnboundedSender<JobEvent>,
    /// Who starts this worker's processes, if jobs are run as processes here.
    guardian: Option<Guardian>,
    is_running: bool,
    /// The one that runs, as long as somebody waits for its answer.
    asked: Option<Check>,
    /// Asked for while another one ran; only the latest counts.
    next: Option<Check>,
    /// The number of the one that has run and is not answered yet.
    done: Option<u64>,
}

/// One that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) number: u64,
    pub(crate) asked_at: Instant,
    /// The longest lease that its sender grants.
    pub(crate) lease: Duration,
}

impl Checks {
    /// Checks whose ends go to these events.
    pub(crate) fn new(events: UnboundedSender<JobEvent>, guardian: Option<Guardian>) -> Self {
        Checks { events, guardian, is_running: false, asked: None, next: None, done: None }
    }

    /// The server asks for this one.
    pub(crate) fn ask(&mut self, check: Check) {
        if self.is_running {
            self.next = Some(check);
            return;
        }
        (self.is_running, self.asked) = (true, Some(check));
        tokio::spawn(run(self.guardian.clone(), self.events.clone()));
    }

    /// The one that ran has ended. It, if it is answered.
    pub(crate) fn ended(&mut self, is_well: bool) -> Option<Check> {
        self.is_running = false;
        let answered = self.asked.take().filter(|_| is_well);
        self.done = answered.map(|check| check.number).or(self.done);
        if let Some(check) = self.next.take() {
            self.ask(check);
        }
        answered
    }

    /// The stream is gone, and with it whoever asked.
    pub(crate) fn forget(&mut self) {
        (self.asked, self.next, self.done) = (None, None, None);
    }

    /// Whether there is an answer to send.
    pub(crate) fn has_done(&self) -> bool {
        self.done.is_some()
    }

    /// The answer to send.
    pub(crate) fn take_done(&mut self) -> Option<u64> {
        self.done.take()
    }
}

async fn run(guardian: Option<Guardian>, events: UnboundedSender<JobEvent>) {
    let is_well = match guardian {
        Some(guardian) => answers(&guardian).await,
        None => true,
    };
    // Nobody listens when the worker has ended.
    let _ = events.send(JobEvent::Checked { is_well });
}

/// Whether the guardian has dealt with a launch.
async fn answers(guardian: &Guardian) -> bool {
    match guardian.launch(Launch { no_input: true, ..Launch::default() }).await {
        // It does not start more because it runs so much: that is an answer as well.
        Err(LaunchError::Failed(error))
            if [Some(Errno::NOENT), Some(Errno::AGAIN)].contains(&Errno::from_io_error(&error)) =>
        {
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the healthcheck could not be run");
            false
        }
        Ok(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn check(number: u64) -> Check {
        Check { number, asked_at: Instant::from_millis(number), lease: Duration::from_secs(20) }
    }

    #[tokio::test]
    async fn checks_run_one_at_a_time_and_only_the_latest_of_those_that_wait() {
        let (events, mut ends) = mpsc::unbounded_channel();
        let mut checks = Checks::new(events, None);
        checks.ask(check(1));
        checks.ask(check(2));
        checks.ask(check(3));
        assert!(!checks.has_done(), "none has run yet");
        for number in [1, 3] {
            let event = ends.recv().await;
            assert!(matches!(event, Some(JobEvent::Checked { is_well: true })), "{event:?}");
            assert!(ends.is_empty(), "one at a time");
            assert_eq!(checks.ended(true), Some(check(number)));
            assert_eq!(checks.take_done(), Some(number));
        }
        assert!(!checks.is_running);
    }

    #[tokio::test]
    async fn a_failed_check_is_not_answered_and_the_next_one_is() {
        let (events, _ends) = mpsc::unbounded_channel();
        let mut checks = Checks::new(events, None);
        checks.ask(check(1));
        assert_eq!(checks.ended(false), None);
        assert!(!checks.has_done());
        checks.ask(check(2));
        checks.ended(true);
        assert_eq!(checks.take_done(), Some(2));
    }

    #[tokio::test]
    async fn nobody_is_answered_who_did_not_ask() {
        let (events, _ends) = mpsc::unbounded_channel();
        let mut checks = Checks::new(events, None);
        checks.ask(check(1));
        checks.ask(check(2));
        checks.forget();
        // Asked on the next stream, while the one of the last still runs.
        checks.ask(check(7));
        assert_eq!(checks.ended(true), None);
        assert!(!checks.has_done(), "the one that ended was asked for on a stream that is gone");
        checks.ended(true);
        assert_eq!(checks.take_done(), Some(7));
    }
}
