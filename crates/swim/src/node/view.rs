//! What others may see of us.

use super::{Node, Phase};
use crate::identity::{Epoch, Identity, Incarnation, NodeId};
use crate::io::{Member, State};
use crate::machine::Counts;
use crate::mutation::Mutation;
use crate::table::{Entry, hash_of};

impl Node {
    pub(crate) fn me(&self) -> Identity {
        self.me
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(crate) fn digest(&self) -> u64 {
        self.table.digest() ^ hash_of(self.me, self.incarnation)
    }

    pub(crate) fn health(&self) -> u32 {
        self.health.score()
    }

    pub(crate) fn superseded_by(&self) -> Option<Epoch> {
        self.superseded_by
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            alive: self.table.in_state(State::Alive) + 1,
            probe_failed: self.table.in_state(State::ProbeFailed),
            suspected: self.table.in_state(State::Suspected),
            dead: self.table.in_state(State::Dead),
            left: self.table.in_state(State::Left),
        }
    }

    /// All in order of id, ourselves included.
    pub(crate) fn members(&self) -> Vec<Member> {
        let mut members: Vec<Member> = self.table.iter().map(|entry| self.as_member(entry)).collect();
        members.push(self.myself());
        members.sort_unstable_by_key(|member| member.identity.id);
        members
    }

    pub(crate) fn member(&self, id: NodeId) -> Option<Member> {
        if id == self.me.id {
            return Some(self.myself());
        }
        self.table.get(id).map(|entry| self.as_member(entry))
    }

    pub(crate) fn leader_preference(&self) -> NodeId {
        let deaths_count = !self.is_broken(Mutation::LeaderIgnoresDeaths);
        self.table
            .iter()
            .filter(|entry| matches!(entry.state, State::Alive | State::ProbeFailed) || !deaths_count)
            .map(|entry| entry.id)
            .fold(self.me.id, NodeId::min)
    }

    fn as_member(&self, entry: &Entry) -> Member {
        Member {
            identity: entry.identity(),
            incarnation: entry.incarnation,
            state: entry.state,
            since: entry.since,
            info: entry.info.clone(),
            on_probation: entry.state.is_present() && self.flaps.is_on_probation(self.now, entry.id),
        }
    }

    fn myself(&self) -> Member {
        Member {
            identity: self.me,
            incarnation: self.incarnation,
            state: if self.phase == Phase::Member { State::Alive } else { State::Left },
            since: self.began,
            info: self.info.clone(),
            on_probation: false,
        }
    }
}
