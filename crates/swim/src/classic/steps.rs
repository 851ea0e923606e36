//! The five steps.

use std::net::SocketAddr;

use model::Instant;
use model::splitmix::mix;

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
            if std::mem::take(&mut self.has_returned) {
                self.ask_one_of_the_dead();
            }
        }
        if self.next_reach_out <= now {
            let jitter = self.lots.within(self.config.reach_out_every / 4);
            self.next_reach_out = now + self.config.reach_out_every - jitter;
            self.reach_out(now);
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
        let Some((target, place)) = self.next_in_order(self.last_probed, State::Alive) else { return };
        self.last_probed = Some(place);
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

    /// The one behind this place in our own order of all nodes who is in that state, and its place.
    fn next_in_order(&self, after: Option<u64>, state: State) -> Option<(NodeId, u64)> {
        let in_state = self.peers.iter().filter(|(_, peer)| peer.state == state);
        let places = in_state.map(|(id, _)| (place_of(self.salt, *id), *id));
        // Those that are not behind it come in the next round.
        let (_, place, id) =
            places.map(|(place, id)| (after.is_some_and(|after| place <= after), place, id)).min()?;
        Some((id, place))
    }

    /// One of the dead, a seed that we do not see, and somebody whose list of members is compared with ours, in turn and for
    /// ever: two halves that were apart for longer than it takes to condemn would never find each other again.
    fn reach_out(&mut self, now: Instant) {
        self.forget(now);
        if !self.strangers.is_empty() {
            self.introduce();
            return;
        }
        self.reached_out = self.reached_out.wrapping_add(1);
        let _ = match self.reached_out % 3 {
            0 => self.ask_one_of_the_dead() || self.ask_a_seed(),
            1 => self.ask_a_seed() || self.ask_one_of_the_dead(),
            _ => self.compare_with_somebody(),
        };
    }

    /// Whom do you know? Two who joined while the seeds were down may each be known to others, and not to each other.
    fn compare_with_somebody(&mut self) -> bool {
        let Some((id, place)) = self.next_in_order(self.last_compared, State::Alive) else { return false };
        self.last_compared = Some(place);
        self.strangers.push_back(self.peers[&id].info.addr);
        self.introduce();
        true
    }

    /// Forgets who is long gone.
    fn forget(&mut self, now: Instant) {
        let (dead, left) = (self.config.forget_dead_after, self.config.forget_left_after);
        let is_over = |peer: &Peer| match peer.state {
            State::Dead => peer.state_changed_at + dead <= now,
            State::Left => peer.state_changed_at + left <= now,
            State::Alive | State::ProbeFailed | State::Suspected => false,
        };
        let over = self.peers.values().filter(|peer| is_over(peer)).map(|peer| peer.identity);
        for identity in over.collect::<Vec<_>>() {
            self.peers.remove(&identity.id);
            self.event(Event::Forgotten(identity));
        }
    }

    /// Its answer shows that it is there, and our question shows it that we are.
    fn ask_one_of_the_dead(&mut self) -> bool {
        let Some((id, place)) = self.next_in_order(self.last_dead, State::Dead) else { return false };
        self.last_dead = Some(place);
        let peer = &self.peers[&id];
        let (identity, addr) = (peer.identity, peer.info.addr);
        let number = self.next_number();
        self.send(identity, addr, Message::Ping { number }, Vec::new());
        true
    }

    /// The next seed at whose address nobody is seen. Over a stream: it may be somebody whom we never heard of.
    fn ask_a_seed(&mut self) -> bool {
        let seen = |seed: &SocketAddr| {
            let mut present = self.peers.values().filter(|peer| peer.state.is_present());
            *seed == self.info.addr || present.any(|peer| peer.info.addr == *seed)
        };
        let count = self.seeds.len();
        let unseen =
            (1..=count).map(|step| (self.last_seed + step) % count).find(|at| !seen(&self.seeds[*at]));
        let Some(at) = unseen else { return false };
        self.last_seed = at;
        self.strangers.push_back(self.seeds[at]);
        self.introduce();
        true
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

/// Where a node is in our order of all nodes.
pub(super) fn place_of(salt: u64, id: NodeId) -> u64 {
    mix(salt ^ u64::from(id.0))
}
