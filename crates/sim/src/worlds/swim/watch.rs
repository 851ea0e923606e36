//! Looks at every turn of every node, and asks the laws.

use std::collections::BTreeMap;
use std::time::Duration;

use swim::{
    Event, Identity, Incarnation, Info, Machine, Profile, Reason, Request, Response, State, Status, Update,
    View,
};

use super::books::Books;
use super::change::{Change, Told};
use super::laws::ahead_and_untold::Place;
use super::laws::{
    LAWS, Law, accused_and_silent, ahead_and_untold, believed_too_early, condemned_after_refutation,
    condemned_by_one, datagram_too_long, dead_epoch_came_back, deaf_node_condemned, grows_without_bound,
    incarnation_went_back, late_and_sure, leaders_differ, left_came_back, over_and_stays,
    woken_node_condemned,
};
use super::machine::{Message, SwimNode};
use super::protocol::{Input, Node, Output, Protocol, Watch};
use crate::law::{Verdict, Violation};
use crate::time::Time;

/// The watch of a run.
pub(super) struct LawWatch {
    pub(super) books: Books,
    pub(super) stats: Stats,
    /// Datagrams with nothing but news so far.
    pub(super) gossip: u64,
    only_law: Option<&'static str>,
    violation: Option<Violation>,
    /// Of the present turn.
    turn: Turn,
}

/// What happened in many runs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events of the worlds.
    pub events: u64,
    /// Verdicts that nodes came to themselves.
    pub verdicts: u64,
    /// Verdicts that nodes were told.
    pub told: u64,
    /// Verdicts, of both kinds, about nodes that were up and had not left.
    pub false_verdicts: u64,
    /// Accusations that nodes contradicted.
    pub refutations: u64,
    /// Times a node was believed again.
    pub returns: u64,
    /// Nodes that left, counted wherever it was seen.
    pub left: u64,
    /// How long after the end of all faults all views agreed, in nanoseconds; one for each run.
    pub converged_after: Vec<u64>,
    /// How often each law was asked, in the order of [`LAWS`].
    pub asked: [u64; LAWS.len()],
    /// How often each fault struck.
    pub struck: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
struct Turn {
    outputs: usize,
    /// Evidence about others that was read.
    read: Vec<(Node, u32, Incarnation)>,
    /// For whom others vouch in what was read.
    vouched: Vec<Node>,
    /// The highest accusation against itself that was read.
    accused: Option<Incarnation>,
    /// It was read that this start is over.
    is_over: bool,
    /// The furthest place in the control log that was read.
    mark: Option<Place>,
    /// The node was told of this lag; its doubt was that before.
    lag: Option<(Duration, u32)>,
}

impl LawWatch {
    pub(super) fn new(books: Books, only_law: Option<&'static str>) -> Self {
        let turn = Turn::default();
        LawWatch { books, stats: Stats::default(), gossip: 0, only_law, violation: None, turn }
    }

    /// Asks a law; only the first breach counts.
    pub(super) fn ask(&mut self, law: Law, verdict: Verdict) {
        self.stats.asked[law.index()] += 1;
        self.fail(verdict);
    }

    /// As [`ask`](Self::ask), of a law that was counted otherwise.
    pub(super) fn fail(&mut self, verdict: Verdict) {
        if let Err(violation) = verdict
            && self.violation.is_none()
            && self.only_law.is_none_or(|only| only == violation.law)
        {
            self.violation = Some(violation);
        }
    }

    /// These laws were asked so often besides.
    pub(super) fn count(&mut self, asked: &[u64; LAWS.len()]) {
        self.stats.asked.iter_mut().zip(asked).for_each(|(sum, count)| *sum += count);
    }

    pub(super) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn judge_event(&mut self, now: Time, node: Node, event: &Event) {
        match *event {
            Event::Dead(who, incarnation, reason) => {
                let about = who.id.0;
                let truth = &self.books.truths[about as usize];
                let is_false = truth.is_up && !truth.has_left && truth.epoch == who.epoch.0;
                self.stats.false_verdicts += u64::from(is_false);
                let own = !matches!(reason, Reason::Told(_));
                *(if own { &mut self.stats.verdicts } else { &mut self.stats.told }) += 1;
                if let Some(seen) = self.books.seen(node, about).filter(|seen| seen.identity == who) {
                    let suspicion_min = self.books.suspicion_min();
                    let verdict = condemned_after_refutation::check(
                        self.books.time_of(node, now),
                        (node, about),
                        incarnation,
                        reason,
                        seen,
                        suspicion_min,
                    );
                    self.ask(condemned_after_refutation::LAW, verdict);
                }
                if own {
                    self.judge_verdict(now, (node, about), reason);
                }
            }
            Event::Refuted(who, _) => {
                self.stats.returns += 1;
                if let Some(seen) = self.books.seen(node, who.id.0).filter(|seen| seen.identity == who)
                    && seen.state == State::Dead
                {
                    let hold_down = self.books.config.hold_down_max;
                    let vouched = self.turn.vouched.contains(&who.id.0);
                    let its_time = self.books.time_of(node, now);
                    let pair = (node, who.id.0);
                    let verdict = believed_too_early::check(its_time, pair, seen, vouched, hold_down);
                    self.ask(believed_too_early::LAW, verdict);
                }
            }
            Event::WeRefuted(_) => self.stats.refutations += 1,
            Event::Left(_) => self.stats.left += 1,
            Event::Expelled => self.books.is_over(node),
            Event::LogAhead(_, mark) => {
                let told = &mut self.books.truths[node as usize].mark_told;
                *told = (*told).max((mark.epoch, mark.index));
            }
            Event::Forgotten(who) => self.books.forget(node, who.id.0),
            _ => {}
        }
    }

    /// A node came to a verdict itself.
    fn judge_verdict(&mut self, now: Time, pair: (Node, Node), reason: Reason) {
        let truth = self.books.truths[pair.0 as usize];
        let (period, present) = (self.books.config.period, self.books.present(pair.0));
        self.ask(condemned_by_one::LAW, condemned_by_one::check(&self.books.config, pair, reason, present));
        if self.books.config.profile == Profile::Classic {
            // The five steps do not know that they slept.
            return;
        }
        self.ask(
            woken_node_condemned::LAW,
            woken_node_condemned::check(now, pair, reason, truth.stopped, period),
        );
        if self.books.config.opinions.is_some() {
            self.ask(
                deaf_node_condemned::LAW,
                deaf_node_condemned::check(now, pair, truth.heard_at, present, period),
            );
        }
    }

    /// Notes for whom others vouch, and whom they find good.
    fn note_vouchers(&mut self, node: Node, input: &Input<Message>) {
        let mut good = None;
        let updates: &[Update] = match input {
            Input::Datagram(_, Message::Packet(packet)) => {
                match packet.message {
                    swim::Message::Opinion { target, view: View::Good, .. } => good = Some(target.id.0),
                    // Whoever has nobody to ask looks itself.
                    swim::Message::Ack { .. } if self.books.present(node) <= 1 => {
                        good = Some(packet.from.id.0);
                    }
                    _ => {}
                }
                &packet.updates
            }
            Input::Request(_, _, Message::Request(Request::Push { entries, .. })) => entries,
            Input::Response(_, Some(Message::Response(Response::Differences { entries, .. }))) => entries,
            Input::Response(_, Some(Message::Response(Response::Pong(who)))) => {
                good = (self.books.present(node) <= 1).then_some(who.id.0);
                &[]
            }
            _ => &[],
        };
        // A plain death of this or a later incarnation ends the judgement: somebody has believed the node meanwhile.
        for update in updates.iter().filter(|update| update.status == Status::Dead) {
            if let Some(seen) = self.books.seen_mut(node, update.node.id.0)
                && (seen.identity, seen.state) == (update.node, State::Dead)
                && seen.incarnation <= update.incarnation
            {
                seen.is_unreliable = false;
            }
        }
        let vouched =
            updates.iter().filter(|update| update.status == Status::Alive && update.by != update.node.id);
        self.turn.vouched.extend(vouched.map(|update| update.node.id.0));
        if let Some(seen) = good.and_then(|about| self.books.seen_mut(node, about)) {
            seen.is_found_good = true;
        }
    }

    /// True if a live node is in its own place; one that goes by another's name there is watched through the other.
    fn speaks_for_itself(&self, node: Node, me: Identity) -> bool {
        me.id.0 == node && self.books.is_live(node)
    }

    /// True if this, about the reader's own name, ends it.
    fn ends(&self, me: Identity, machine: &Machine, update: &Update) -> bool {
        let is_twin = |info: &Info| machine.member(me.id).is_some_and(|known| known.info.addr != info.addr);
        match update.status {
            // The plain algorithm does not listen to what others say of it.
            _ if self.books.config.profile == Profile::Classic => false,
            _ if update.node.epoch != me.epoch => update.node.epoch > me.epoch,
            Status::Left => true,
            Status::Alive => update.info.as_deref().is_some_and(is_twin),
            Status::Suspect | Status::Dead | Status::Unreliable => false,
        }
    }

    /// What it was told by its surroundings, and read about the control log.
    fn judge_surroundings(&mut self, node: Node, machine: &Machine) {
        if let Some((lag, before)) = self.turn.lag
            && self.books.config.profile != Profile::Classic
        {
            let verdict = late_and_sure::check(&self.books.config, node, lag, (before, machine.health()));
            self.ask(late_and_sure::LAW, verdict);
        }
        if let Some(read) = self.turn.mark.filter(|mark| *mark > Place::default()) {
            let (truth, most) = (self.books.truths[node as usize], self.books.most_ahead);
            let verdict = ahead_and_untold::check(node, read, truth.mark, truth.mark_told, most);
            self.ask(ahead_and_untold::LAW, verdict);
        }
    }

    /// Compares what a node knows after its turn with what it knew before.
    fn compare_view(&mut self, now: Time, node: Node, protocol: &SwimNode) {
        let machine = protocol.machine();
        let (mut members, mut lowest) = (0, node);
        for member in machine.members() {
            members += 1;
            let about = member.identity.id.0;
            let fails_count = self.books.config.profile != Profile::Classic;
            if member.state == State::Alive || fails_count && member.state == State::ProbeFailed {
                lowest = lowest.min(about);
            }
            let pair = (node, about);
            let seen = self.books.seen(node, about).copied();
            let knew = seen.map(|seen| seen.identity.epoch.0);
            let Some(truth) = self.books.truths.get(about as usize) else { continue };
            let is = truth.epoch;
            self.ask(
                dead_epoch_came_back::LAW,
                dead_epoch_came_back::check(pair, member.identity.epoch.0, knew, is),
            );
            if let Some(seen) = seen.filter(|seen| seen.identity == member.identity) {
                let read = self.turn.read.iter().filter(|(id, epoch, _)| (*id, *epoch) == (about, is));
                let read = read.map(|(.., incarnation)| *incarnation).max();
                let read = read.filter(|_| member.identity.epoch.0 == is && seen.state != State::Left);
                self.ask(
                    incarnation_went_back::LAW,
                    incarnation_went_back::check(pair, seen.incarnation, read, member.incarnation),
                );
                self.ask(left_came_back::LAW, left_came_back::check(pair, &seen, member.state));
            }
            let its_time = self.books.time_of(node, now);
            self.books.note(its_time, node, about, (member.identity, member.incarnation, member.state));
        }
        self.ask(
            grows_without_bound::LAW,
            grows_without_bound::check(node, self.turn.outputs, members, self.books.truths.len()),
        );
        self.ask(leaders_differ::LAW, leaders_differ::check(node, machine.leader_preference().0, lowest));
    }
}

impl Watch<SwimNode> for LawWatch {
    fn input(&mut self, now: Time, node: Node, protocol: &SwimNode, input: &Input<Message>) {
        if let Input::Told(Told::Lagged(lag), _) = input {
            self.turn.lag = Some((*lag, protocol.machine().health()));
        }
        if !matches!(input, Input::Response(_, None) | Input::Leave | Input::Told(..)) {
            self.books.truths[node as usize].heard_at = now;
        }
        self.note_vouchers(node, input);
        let Input::Datagram(_, Message::Packet(packet)) = input else { return };
        let me = protocol.machine().me();
        if !self.speaks_for_itself(node, me) {
            return;
        }
        if packet.from.id == me.id && packet.from.epoch > me.epoch {
            self.turn.is_over = true;
        }
        // What is meant for another start, or comes from one that is over, need not be read.
        let from = packet.from.id.0;
        let has_gone = self.books.seen(node, from).is_some_and(|seen| seen.state == State::Left);
        let truth = self.books.truths.get(from as usize);
        let is_current = !has_gone && truth.is_some_and(|truth| truth.epoch == packet.from.epoch.0);
        if packet.to != me || !is_current || from == me.id.0 {
            return;
        }
        let mark = (packet.mark.epoch, packet.mark.index);
        self.turn.mark = self.turn.mark.max(Some(mark));
        for update in &packet.updates {
            if update.node.id == me.id {
                self.turn.is_over |= self.ends(me, protocol.machine(), update);
            }
            if update.node == packet.to {
                let accuses = matches!(update.status, Status::Suspect | Status::Dead | Status::Unreliable);
                if accuses && update.incarnation >= protocol.machine().incarnation() {
                    self.turn.accused = self.turn.accused.max(Some(update.incarnation));
                }
            } else {
                self.turn.read.push((update.node.id.0, update.node.epoch.0, update.incarnation));
            }
        }
    }

    fn output(&mut self, _: Time, node: Node, _: &SwimNode, output: &Output<Message>) {
        self.turn.outputs += 1;
        let Output::Send(to, message) = output else { return };
        let bytes_max = self.books.config.datagram_bytes_max;
        let verdict = datagram_too_long::check(node, *to, SwimNode::wire_bytes(message), bytes_max);
        self.ask(datagram_too_long::LAW, verdict);
        let Message::Packet(packet) = message else { return };
        self.gossip += u64::from(packet.message == swim::Message::Gossip);
        let deaths = [Status::Dead, Status::Unreliable];
        for update in packet.updates.iter().filter(|update| deaths.contains(&update.status)) {
            // Whoever spreads it holds it, unless it was contradicted meanwhile.
            if let Some(seen) = self.books.seen_mut(node, update.node.id.0)
                && (seen.identity, seen.state) == (update.node, State::Dead)
                && seen.incarnation == update.incarnation
            {
                seen.is_unreliable = update.status == Status::Unreliable;
            }
        }
    }

    fn turned(&mut self, now: Time, node: Node, protocol: &SwimNode) {
        let machine = protocol.machine();
        if self.speaks_for_itself(node, machine.me()) {
            if self.turn.is_over {
                let says_so = protocol.events().contains(&Event::Expelled);
                self.ask(over_and_stays::LAW, over_and_stays::check(node, machine.me().epoch.0, says_so));
            }
            for event in protocol.events() {
                self.judge_event(now, node, event);
            }
        }
        // Unless this turn was its last.
        if self.speaks_for_itself(node, machine.me()) {
            if let Some(accused) = self.turn.accused.take() {
                let verdict = accused_and_silent::check_read(node, accused, machine.incarnation());
                self.ask(accused_and_silent::LAW, verdict);
            }
            self.judge_surroundings(node, machine);
            self.compare_view(now, node, protocol);
        }
        self.turn = Turn { read: std::mem::take(&mut self.turn.read), ..Turn::default() };
        self.turn.read.clear();
    }

    fn change(&mut self, now: Time, change: &Change) {
        self.books.change(now, change);
    }

    fn is_over(&self) -> bool {
        self.violation.is_some()
    }
}

impl Stats {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Stats) {
        self.events += other.events;
        self.verdicts += other.verdicts;
        self.told += other.told;
        self.false_verdicts += other.false_verdicts;
        self.refutations += other.refutations;
        self.returns += other.returns;
        self.left += other.left;
        self.converged_after.extend_from_slice(&other.converged_after);
        self.asked.iter_mut().zip(&other.asked).for_each(|(sum, count)| *sum += count);
        for (fault, count) in &other.struck {
            *self.struck.entry(fault).or_default() += count;
        }
    }
}
