//! The handlers of a worker: each runs for as long as its job's nature says, unless it fails, wedges, is told to stop or
//! is ended. A worker with a guardian that is a namespace's first process has it run them as families of processes;
//! with all others they run inside the worker's own process, some of them deaf to everything but its death.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lease::guardian::{FamilyId, Order};
use lease::ledger::Ended;
use model::{Hold, Retry, WorkerKey};

use super::super::event::Event;
use super::super::families::Errand;
use super::super::guardian::{GuardianId, GuardianInput};
use super::super::nature::Nature;
use super::super::outside::Outside;
use super::super::setup::{Guard, worker_node};
use super::session::Moment;
use crate::faults::Phase;

/// How soon an aborted task is gone, if it can be aborted at all.
const ABORT_TAKES: Duration = Duration::from_micros(500);

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
#[derive(Debug)]
pub(super) struct Handlers {
    worker: usize,
    guard: Guard,
    /// Who guards them, if anyone does.
    guardian: Option<GuardianId>,
    running: BTreeMap<Hold, Handler>,
}

#[derive(Debug)]
struct Handler {
    place: Place,
    is_exclusive: bool,
    is_wedged: bool,
    /// How often it says that it gets on.
    signs_every: Option<Duration>,
}

/// Where a handler runs.
#[derive(Debug)]
enum Place {
    Inside {
        /// The number of its latest end.
        ends: u32,
        /// It stops when it is told to.
        obeys: bool,
        /// It does not even end when its task is aborted.
        is_deaf: bool,
    },
    Family(FamilyId),
}

impl Handlers {
    pub(super) fn new(worker: usize, guard: Guard, guardian: Option<GuardianId>) -> Self {
        Handlers { worker, guard, guardian, running: BTreeMap::new() }
    }

    /// A handler starts.
    pub(super) fn start(
        &mut self,
        moment: &mut Moment<'_, '_>,
        hold: Hold,
        key: &WorkerKey,
        exclusive: bool,
    ) {
        let setup = &moment.outside.setup;
        let nature = Nature::of(hold.job, setup);
        let goes_wrong = moment.outside.phase == Phase::Faults;
        let is_wedged = goes_wrong && nature.is_watched() && moment.rng.chance(setup.wedge);
        let end = if goes_wrong && moment.rng.chance(setup.fail) { End::Fails } else { End::Completes };
        let obeys = moment.rng.chance(0.7);
        let is_deaf = goes_wrong && (exclusive || !is_wedged) && moment.rng.chance(setup.deaf);
        let place = match self.guardian.filter(|_| self.guard == Guard::Namespace) {
            Some(guardian) => {
                let family = moment.outside.families.name();
                let errand = Errand {
                    hold,
                    key: key.clone(),
                    exclusive,
                    end: (!is_wedged).then_some(end),
                    is_deaf: is_wedged || !obeys,
                };
                moment.outside.tell_guardian(guardian, GuardianInput::Launch(family, errand));
                Place::Family(family)
            }
            None => {
                if exclusive {
                    self.go_inside(moment.outside);
                    moment.outside.begin_run(hold, key.clone());
                }
                if !is_wedged {
                    self.say(moment, hold, nature.runs, HandlerNews::Ends(0, end));
                }
                Place::Inside { ends: 0, obeys: obeys && !is_wedged && !is_deaf, is_deaf }
            }
        };
        let signs_every = nature.heartbeat_timeout.map(|timeout| timeout / 5);
        // Some handlers of other jobs note progress, too.
        let first_sign = signs_every.or_else(|| moment.rng.chance(0.1).then(|| nature.runs / 2));
        if let Some(after) = first_sign {
            self.say(moment, hold, after, HandlerNews::Signs);
        }
        self.running.insert(hold, Handler { place, is_exclusive: exclusive, is_wedged, signs_every });
    }

    /// Its token fires.
    pub(super) fn stop(&mut self, moment: &mut Moment<'_, '_>, hold: Hold) {
        let Some(handler) = self.running.get_mut(&hold) else { return };
        match &mut handler.place {
            Place::Family(family) => {
                let order = Order::Terminate { family: *family };
                self.order(moment.outside, order);
            }
            Place::Inside { ends, obeys: true, .. } => {
                *ends += 1;
                let ends = *ends;
                let after = moment.rng.span_of_any_size(Duration::from_millis(1), Duration::from_secs(1));
                self.say(moment, hold, after, HandlerNews::Ends(ends, End::Fails));
            }
            Place::Inside { .. } => {}
        }
    }

    /// Its task or its family is ended.
    pub(super) fn abort(&mut self, moment: &mut Moment<'_, '_>, hold: Hold) {
        let Some(handler) = self.running.get_mut(&hold) else { return };
        match &mut handler.place {
            Place::Family(family) => {
                let order = Order::Kill { family: *family };
                self.order(moment.outside, order);
            }
            Place::Inside { ends, is_deaf: false, .. } => {
                *ends += 1;
                let ends = *ends;
                self.say(moment, hold, ABORT_TAKES, HandlerNews::Ends(ends, End::Aborted));
            }
            Place::Inside { .. } => {}
        }
    }

    /// It said that it ends: how, unless that is not so any more.
    pub(super) fn ended(
        &mut self,
        moment: &mut Moment<'_, '_>,
        hold: Hold,
        number: u32,
        end: End,
    ) -> Option<Ended> {
        let is_latest = |it: &&Handler| matches!(it.place, Place::Inside { ends, .. } if ends == number);
        let is_exclusive = self.running.get(&hold).filter(is_latest)?.is_exclusive;
        self.running.remove(&hold);
        if is_exclusive {
            moment.outside.end_run(hold);
            self.come_out(moment.outside);
        }
        Some(end.ended())
    }

    /// The guardian says that a family is gone, or was never started: which job has ended how.
    pub(super) fn family_ended(&mut self, family: FamilyId, end: End) -> Option<(Hold, Ended)> {
        let is_it = |it: &Handler| matches!(it.place, Place::Family(id) if id == family);
        let hold = *self.running.iter().find(|(_, handler)| is_it(handler))?.0;
        self.running.remove(&hold);
        Some((hold, end.ended()))
    }

    /// The guardian is gone and everyone in its namespace: which jobs have ended with it.
    pub(super) fn guardian_lost(&mut self) -> Vec<Hold> {
        let is_family = |it: &Handler| matches!(it.place, Place::Family(_));
        self.running.extract_if(.., |_, handler| is_family(handler)).map(|(hold, _)| hold).collect()
    }

    /// Whether this job is a family of processes.
    pub(super) fn is_family(&self, hold: Hold) -> bool {
        self.running.get(&hold).is_some_and(|it| matches!(it.place, Place::Family(_)))
    }

    /// It said that it gets on; false if it does not.
    pub(super) fn signed(&mut self, moment: &mut Moment<'_, '_>, hold: Hold) -> bool {
        let Some(handler) = self.running.get(&hold).filter(|handler| !handler.is_wedged) else {
            return false;
        };
        if let Some(after) = handler.signs_every {
            self.say(moment, hold, after, HandlerNews::Signs);
        }
        true
    }

    /// The process is dead: whatever ran inside it has ended.
    pub(super) fn die(&self, outside: &mut Outside<'_>) {
        self.exclusive_inside().for_each(|hold| outside.end_run(hold));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// An exclusive handler is about to start inside; the guardian is told before, if it is the first.
    fn go_inside(&self, outside: &mut Outside<'_>) {
        if self.exclusive_inside().next().is_none() {
            self.order(outside, Order::Inside { exclusive: true });
        }
    }

    /// An exclusive handler inside has ended.
    fn come_out(&self, outside: &mut Outside<'_>) {
        if self.exclusive_inside().next().is_none() {
            self.order(outside, Order::Inside { exclusive: false });
        }
    }

    fn exclusive_inside(&self) -> impl Iterator<Item = Hold> {
        let inside = |it: &Handler| it.is_exclusive && matches!(it.place, Place::Inside { .. });
        self.running.iter().filter(move |(_, it)| inside(it)).map(|(hold, _)| *hold)
    }

    fn order(&self, outside: &mut Outside<'_>, order: Order) {
        if let Some(guardian) = self.guardian {
            outside.tell_guardian(guardian, GuardianInput::Said(order));
        }
    }

    fn say(&self, moment: &mut Moment<'_, '_>, hold: Hold, after: Duration, news: HandlerNews) {
        let event = Event::Handler(worker_node(self.worker), moment.life, hold, news);
        moment.outside.queue.push(moment.outside.now + after, event);
    }
}

impl End {
    fn ended(self) -> Ended {
        match self {
            End::Completes => Ended::Completed(Bytes::new()),
            End::Fails => Ended::Failed { error: "it failed".to_owned(), retry: Retry::ByPolicy },
            End::Aborted => Ended::Aborted,
        }
    }
}
