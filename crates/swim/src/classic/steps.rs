//! The five steps.

use std::net::SocketAddr;

use model::Instant;

use super::machine::{Classic, Indirect, Peer, Probe};
use crate::identity::{Identity, NodeId};
use crate::io::{Event, Reason, State};
use crate::message::Message;

impl Classic {
    /// A timeout is over, or the tick has come.
    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if self.has_left {
            return;
        }
        self.check_direct(now);
        self.check_indirect(now);
        self.check_suspicions(now);
        self.check_fence();
        self.check_favours(now);
        if self.next_tick <= now {
            // One probe for each tick that came; ticks that were slept through are not made up for.
            self.next_tick = now + self.config.period;
            self.probe_next(now);
            self.look_for_others();
        }
    }

    /// Step 1: direct probes. Those without an answer in time are tried through helpers.
    fn check_direct(&mut self, now: Instant) {
        let overdue = |(number, probe): (&u32, &Probe)| (probe.until <= now).then_some(*number);
        let overdue: Vec<u32> = self.direct.iter().filter_map(overdue).collect();
        for number in overdue {
            let Some(probe) = self.direct.remove(&number) else { continue };
            if self.peers.get(&probe.target).is_some_and(|peer| peer.state == State::Alive) {
                self.set_state(now, probe.target, State::ProbeFailed);
                self.ask_helpers(now, probe.target);
            }
        }
    }

    fn ask_helpers(&mut self, now: Instant, target: NodeId) {
        let Some(peer) = self.peers.get(&target) else { return };
        let (identity, addr) = (peer.identity, peer.info.addr);
        let helpers = self.pick_helpers(target);
        if helpers.is_empty() {
            // Nobody can say otherwise.
            self.suspect(now, target);
            return;
        }
        let number = self.next_number();
        let until = now + self.config.classic.helper_timeout;
        self.indirect.insert(target, Indirect { number, waiting: helpers.len(), until });
        for (helper, helper_addr) in helpers {
            self.send(helper, helper_addr, Message::PingFor { number, target: identity, addr }, Vec::new());
        }
    }

    /// So many who are alive, by lot.
    fn pick_helpers(&mut self, target: NodeId) -> Vec<(Identity, SocketAddr)> {
        let may_help = |(id, peer): &(&NodeId, &Peer)| **id != target && peer.state == State::Alive;
        let mut candidates: Vec<_> =
            self.peers.iter().filter(may_help).map(|(_, peer)| (peer.identity, peer.info.addr)).collect();
        let mut helpers = Vec::new();
        while helpers.len() < self.config.helpers && !candidates.is_empty() {
            helpers.push(candidates.swap_remove(self.lots.index(candidates.len())));
        }
        helpers
    }

    /// Step 2: indirect probes. When the last helper's time is over, the target is suspected.
    fn check_indirect(&mut self, now: Instant) {
        let overdue = |(target, indirect): (&NodeId, &Indirect)| (indirect.until <= now).then_some(*target);
        let overdue: Vec<NodeId> = self.indirect.iter().filter_map(overdue).collect();
        for target in overdue {
            self.indirect.remove(&target);
            self.suspect(now, target);
        }
    }

    pub(super) fn suspect(&mut self, now: Instant, target: NodeId) {
        let Some(peer) = self.peers.get(&target).filter(|peer| peer.state == State::ProbeFailed) else {
            return;
        };
        let (identity, incarnation) = (peer.identity, peer.incarnation);
        self.set_state(now, target, State::Suspected);
        self.event(Event::Suspected(identity, incarnation, Reason::NoAnswer));
    }

    /// Step 3: suspicions whose time is over are verdicts.
    fn check_suspicions(&mut self, now: Instant) {
        let time = self.config.classic.suspicion;
        let is_over = |peer: &Peer| peer.state == State::Suspected && peer.state_changed_at + time <= now;
        let over: Vec<NodeId> =
            self.peers.iter().filter(|(_, peer)| is_over(peer)).map(|(id, _)| *id).collect();
        for id in over {
            self.set_state(now, id, State::Dead);
            let peer = &self.peers[&id];
            let dead = Event::Dead(peer.identity, peer.incarnation, Reason::NotRefuted);
            self.event(dead);
        }
    }

    /// Step 4: are most others gone? More likely it is us.
    pub(super) fn check_fence(&mut self) {
        let counted = self.peers.values().filter(|peer| peer.state != State::Left);
        let (others, bad) = counted.fold((0, 0), |(others, bad), peer| {
            (others + 1, bad + usize::from(matches!(peer.state, State::Suspected | State::Dead)))
        });
        let is_fenced = bad * 2 > others;
        if is_fenced != self.is_fenced {
            self.is_fenced = is_fenced;
            self.event(if is_fenced { Event::Lonely } else { Event::Reunited });
        }
    }

    /// What we asked for others without an answer.
    fn check_favours(&mut self, now: Instant) {
        let overdue: Vec<u32> = self
            .favours
            .iter()
            .filter(|(_, favour)| favour.until <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in overdue {
            let Some(favour) = self.favours.remove(&number) else { continue };
            self.send(favour.asker, favour.addr, Message::Nack { number: favour.number }, Vec::new());
        }
    }

    /// Step 5: the next one that is alive, round-robin.
    fn probe_next(&mut self, now: Instant) {
        let alive = |from: Option<NodeId>| {
            let later = self.peers.iter().filter(move |(id, _)| from.is_none_or(|from| **id > from));
            later.filter(|(_, peer)| peer.state == State::Alive).map(|(id, _)| *id).next()
        };
        let Some(target) = alive(self.last_probed).or_else(|| alive(None)) else { return };
        self.last_probed = Some(target);
        if self.direct.values().any(|probe| probe.target == target) {
            // The last one is still open: a second would only put off its end.
            return;
        }
        let peer = &self.peers[&target];
        let (identity, addr) = (peer.identity, peer.info.addr);
        let number = self.next_number();
        self.direct.insert(number, Probe { target, until: now + self.config.probe_timeout });
        self.send(identity, addr, Message::Ping { number }, Vec::new());
    }

    /// Seeds are asked as long as nobody is there.
    fn look_for_others(&mut self) {
        let is_alone = !self.peers.values().any(|peer| peer.state.is_present());
        if is_alone && self.strangers.is_empty() && self.introductions.is_empty() {
            let ours = self.info.addr;
            self.strangers.extend(self.seeds.iter().copied().filter(|seed| *seed != ours));
        }
        self.introduce();
    }

    pub(super) fn set_state(&mut self, now: Instant, id: NodeId, state: State) {
        if let Some(peer) = self.peers.get_mut(&id)
            && peer.state != state
        {
            (peer.state, peer.state_changed_at) = (state, now);
        }
    }
}
