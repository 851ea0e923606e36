//! What the laws know: the truth about every node, and what every node has said it knows about the others.

use std::collections::BTreeMap;
use std::time::Duration;

use swim::{Config, Identity, Incarnation, State};

use super::change::{Change, Epoch, Told};
use super::laws::ahead_and_untold::Place;
use super::protocol::Node;
use crate::time::Time;

/// The truth, and all views as they were after each node's last turn.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) config: Config,
    pub(super) truths: Vec<Truth>,
    views: Vec<BTreeMap<Node, Seen>>,
    /// The furthest place in the control log where anybody ever was.
    pub(super) most_ahead: Place,
}

/// What is true of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Truth {
    pub(super) is_up: bool,
    pub(super) epoch: u32,
    /// It was asked to leave in this epoch, or said that it is over.
    pub(super) has_left: bool,
    /// When it was last stopped for long, and until when.
    pub(super) stopped: Option<(Time, Time)>,
    /// When it last handled something that another said.
    pub(super) heard_at: Time,
    /// By how much its clock is ahead of where it would be without its jumps. Outlives the process.
    pub(super) ahead: Duration,
    /// How far it has come in the control log, and of the highest place it told.
    pub(super) mark: Place,
    pub(super) mark_told: Place,
}

/// What a node knows about another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) identity: Identity,
    pub(super) incarnation: Incarnation,
    pub(super) state: State,
    /// When it first knew this incarnation.
    pub(super) raised_at: Time,
    /// Since when it is in this state.
    pub(super) since: Time,
    /// It is in this state because it is unreliable.
    pub(super) is_unreliable: bool,
    /// While it is in this state, somebody told that node that it answers.
    pub(super) is_found_good: bool,
}

impl Books {
    pub(super) fn new(config: Config, nodes: u32, is_formed: bool) -> Self {
        let truth = Truth { is_up: is_formed, epoch: u32::from(is_formed), ..Truth::default() };
        let (truths, views) = (vec![truth; nodes as usize], vec![BTreeMap::new(); nodes as usize]);
        Books { config, truths, views, most_ahead: Place::default() }
    }

    pub(super) fn change(&mut self, now: Time, change: &Change) {
        match *change {
            Change::Crash(node) => self.truths[node as usize].is_up = false,
            Change::Start(node, _) | Change::Move(node, _) => {
                let Truth { epoch, ahead, .. } = self.truths[node as usize];
                let epoch = epoch + 1;
                self.truths[node as usize] =
                    Truth { is_up: true, epoch, ahead, heard_at: now, ..Truth::default() };
                self.views[node as usize].clear();
            }
            Change::Twin(place, name, epoch) => {
                // Who was in that place is gone; the one in whose name its successor is stays, until it hears of it.
                self.truths[place as usize].is_up = false;
                self.truths[name as usize].epoch += u32::from(epoch == Epoch::Later);
            }
            Change::Tell(node, Told::Mark(epoch, index)) => {
                let truth = &mut self.truths[node as usize];
                // It hears of it when it runs again; nobody waits for that here.
                truth.mark = truth.mark.max((epoch, index));
                self.most_ahead = self.most_ahead.max((epoch, index));
            }
            Change::Jump(node, by) => {
                let truth = &mut self.truths[node as usize];
                truth.ahead += by;
                // To the node it is as if it had been stopped for so long.
                let since = Time::from_nanos(now.as_nanos().saturating_sub(by.as_nanos() as u64));
                if truth.stopped.is_none_or(|(_, known)| known < now) {
                    truth.stopped = Some((since, now));
                }
            }
            Change::Leave(node) => {
                let truth = &mut self.truths[node as usize];
                truth.has_left |= truth.is_up;
            }
            Change::Pause(node, lasts) => {
                let truth = &mut self.truths[node as usize];
                let until = now + lasts;
                if truth.stopped.is_none_or(|(_, known)| known < until) {
                    let since =
                        truth.stopped.filter(|(_, known)| *known >= now).map_or(now, |(since, _)| since);
                    truth.stopped = Some((since, until));
                }
            }
            _ => {}
        }
    }

    /// The time as this node would tell it: clocks jump.
    pub(super) fn time_of(&self, node: Node, now: Time) -> Time {
        now + self.truths[node as usize].ahead
    }

    /// The node says that it is over.
    pub(super) fn is_over(&mut self, node: Node) {
        self.truths[node as usize].has_left = true;
    }

    /// True if the node runs and did not go.
    pub(super) fn is_live(&self, node: Node) -> bool {
        let truth = &self.truths[node as usize];
        truth.is_up && !truth.has_left
    }

    /// All who run and did not go.
    pub(super) fn live(&self) -> impl Iterator<Item = Node> + '_ {
        (0..self.truths.len() as u32).filter(|node| self.is_live(*node))
    }

    pub(super) fn seen(&self, by: Node, about: Node) -> Option<&Seen> {
        self.views[by as usize].get(&about)
    }

    pub(super) fn seen_mut(&mut self, by: Node, about: Node) -> Option<&mut Seen> {
        self.views[by as usize].get_mut(&about)
    }

    /// How many a node knew after its last turn as there, itself included.
    pub(super) fn present(&self, by: Node) -> usize {
        self.views[by as usize].values().filter(|seen| seen.state.is_present()).count()
    }

    /// After its turn a node knows this.
    pub(super) fn note(
        &mut self,
        now: Time,
        by: Node,
        about: Node,
        now_seen: (Identity, Incarnation, State),
    ) {
        let (identity, incarnation, state) = now_seen;
        let fresh = Seen {
            identity,
            incarnation,
            state,
            raised_at: now,
            since: now,
            is_unreliable: false,
            is_found_good: false,
        };
        let seen = self.views[by as usize].entry(about).or_insert(fresh);
        if seen.identity != identity {
            *seen = fresh;
            return;
        }
        if seen.incarnation != incarnation {
            (seen.incarnation, seen.raised_at) = (incarnation, now);
        }
        if seen.state != state {
            (seen.state, seen.since) = (state, now);
            (seen.is_unreliable, seen.is_found_good) = (false, false);
        }
    }

    /// It does not know that node any more.
    pub(super) fn forget(&mut self, by: Node, about: Node) {
        self.views[by as usize].remove(&about);
    }

    /// The least time from a suspicion to a verdict that nobody else has to agree to; clocks may be a little fast.
    pub(super) fn suspicion_min(&self) -> Duration {
        self.config.period.mul_f64(self.config.suspicion.alpha * 0.999)
    }
}
