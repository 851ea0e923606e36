//! The handlers of a worker: each runs for as long as its job's nature says, unless it fails, wedges, is told to stop or
//! is ended.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lease::ledger::Ended;
use model::{Hold, Retry};

use super::super::event::Event;
use super::super::nature::Nature;
use super::super::setup::worker_node;
use super::session::Moment;
use crate::faults::Phase;

/// What a handler has to say.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum HandlerNews {
    /// It gets on.
    Signs,
    /// It returned, or its task is gone; void unless this is its latest end.
    Ends(u32, End),
}

/// How a handler ends.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum End {
    Completes,
    Fails,
    Aborted,
}

/// All handlers of one life.
#[derive(Debug, Default)]
pub(super) struct Handlers {
    running: BTreeMap<Hold, Handler>,
}

#[derive(Debug)]
struct Handler {
    /// The number of its latest end.
    ends: u32,
    /// It stops when it is told to.
    obeys: bool,
    is_wedged: bool,
    /// How often it says that it gets on.
    signs_every: Option<Duration>,
}

impl Handlers {
    /// A handler starts.
    pub(super) fn start(&mut self, moment: &mut Moment<'_, '_>, worker: usize, hold: Hold) {
        let setup = &moment.outside.setup;
        let nature = Nature::of(hold.job, setup);
        let goes_wrong = moment.outside.phase == Phase::Faults;
        let is_wedged = goes_wrong && nature.is_watched() && moment.rng.chance(setup.wedge);
        let end = if goes_wrong && moment.rng.chance(setup.fail) { End::Fails } else { End::Completes };
        let handler = Handler {
            ends: 0,
            obeys: moment.rng.chance(0.7),
            is_wedged,
            signs_every: nature.heartbeat_timeout.map(|timeout| timeout / 5),
        };
        if !is_wedged {
            say(moment, worker, hold, nature.runs, HandlerNews::Ends(0, end));
        }
        // Some handlers of other jobs note progress, too.
        let first_sign = handler.signs_every.or_else(|| moment.rng.chance(0.1).then(|| nature.runs / 2));
        if let Some(after) = first_sign {
            say(moment, worker, hold, after, HandlerNews::Signs);
        }
        self.running.insert(hold, handler);
    }

    /// Its token fires.
    pub(super) fn stop(&mut self, moment: &mut Moment<'_, '_>, worker: usize, hold: Hold) {
        let Some(handler) = self.running.get_mut(&hold).filter(|it| it.obeys && !it.is_wedged) else {
            return;
        };
        handler.ends += 1;
        let ends = handler.ends;
        let after = moment.rng.span_of_any_size(Duration::from_millis(1), Duration::from_secs(1));
        say(moment, worker, hold, after, HandlerNews::Ends(ends, End::Fails));
    }

    /// Its task is ended.
    pub(super) fn abort(&mut self, moment: &mut Moment<'_, '_>, worker: usize, hold: Hold) {
        let Some(handler) = self.running.get_mut(&hold) else { return };
        handler.ends += 1;
        let ends = handler.ends;
        say(moment, worker, hold, Duration::from_millis(1), HandlerNews::Ends(ends, End::Aborted));
    }

    /// It said that it ends: how, unless that is not so any more.
    pub(super) fn ended(&mut self, hold: Hold, number: u32, end: End) -> Option<Ended> {
        self.running.get(&hold).filter(|handler| handler.ends == number)?;
        self.running.remove(&hold);
        Some(match end {
            End::Completes => Ended::Completed(Bytes::new()),
            End::Fails => Ended::Failed { error: "it failed".to_owned(), retry: Retry::ByPolicy },
            End::Aborted => Ended::Aborted,
        })
    }

    /// It said that it gets on; false if it does not.
    pub(super) fn signed(&mut self, moment: &mut Moment<'_, '_>, worker: usize, hold: Hold) -> bool {
        let Some(handler) = self.running.get(&hold).filter(|handler| !handler.is_wedged) else {
            return false;
        };
        if let Some(after) = handler.signs_every {
            say(moment, worker, hold, after, HandlerNews::Signs);
        }
        true
    }
}

fn say(moment: &mut Moment<'_, '_>, worker: usize, hold: Hold, after: Duration, news: HandlerNews) {
    let event = Event::Handler(worker_node(worker), moment.life, hold, news);
    moment.outside.queue.push(moment.outside.now + after, event);
}
