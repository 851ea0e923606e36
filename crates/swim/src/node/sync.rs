//! Comparing views over a stream, so that whoever missed a rumour learns it all the same.
//!
//! Every datagram carries a digest of the sender's view. If it differs from ours for a while we send the hashes of our view
//! in buckets, get the entries of those that differ, and send back what we know better.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::Instant;

use super::evidence::Source;
use super::suspicion::Suspected;
use super::{Exchange, Node, Phase};
use crate::identity::{Identity, NodeId};
use crate::io::State;
use crate::message::{Request, Response, Status, Update};
use crate::table::{Entry, bucket_of, hash_of};
use crate::timers::Timer;

/// About so many members share a bucket.
const MEMBERS_PER_BUCKET: usize = 16;
/// Most buckets of a comparison; a request with more is answered as if it had that many.
const BUCKETS_MAX: usize = 1_024;
/// Most buckets when no difference is expected.
const BUCKETS_WHEN_EQUAL_MAX: usize = 16;
/// Most comparisons and pushes that are answered in a period; beyond, the asker is sent elsewhere.
const REQUESTS_PER_PERIOD_MAX: u32 = 256;
/// Most comparisons of ours under way.
const COMPARING_MAX: u32 = 3;
/// How often the pause doubles while comparisons bring nothing.
const FRUITLESS_MAX: u32 = 10;

/// Our comparisons.
#[derive(Debug)]
pub(super) struct Comparing {
    differs_since: Option<Instant>,
    next_at: Instant,
    under_way: u32,
    fruitless: u32,
    answered: u32,
    answered_since: Instant,
}

impl Comparing {
    pub(super) fn new(now: Instant) -> Self {
        Comparing {
            differs_since: None,
            next_at: now,
            under_way: 0,
            fruitless: 0,
            answered: 0,
            answered_since: now,
        }
    }
}

impl Node {
    /// A datagram showed somebody's digest.
    pub(super) fn note_digest(&mut self, from: Identity, addr: SocketAddr, digest: u64) {
        if digest == self.digest() {
            self.sync.differs_since = None;
            self.sync.fruitless = 0;
            self.sync.next_at = self.sync.next_at.min(self.now + self.config.sync.pause);
            return;
        }
        let since = *self.sync.differs_since.get_or_insert(self.now);
        let lasted = self.now.since(since);
        let rule = self.config.sync;
        let stranger = self.table.get(from.id).is_none_or(|entry| entry.epoch < from.epoch);
        let due = stranger
            || self.is_young()
            || lasted >= rule.differs_for
            || self.queue.is_empty() && lasted >= rule.differs_for / 4;
        if due && self.now >= self.sync.next_at {
            self.compare_with(addr);
        }
    }

    /// Compares with whoever is there.
    pub(super) fn compare_with(&mut self, peer: SocketAddr) {
        if self.phase != Phase::Member || self.sync.under_way >= COMPARING_MAX {
            return;
        }
        let pause = self.config.sync.pause * (1 << self.sync.fruitless.min(FRUITLESS_MAX));
        self.sync.next_at = self.now + pause.min(self.config.sync.every);
        self.sync.under_way += 1;
        let mut count = (self.members_present() / MEMBERS_PER_BUCKET).next_power_of_two().min(BUCKETS_MAX);
        if self.sync.differs_since.is_none() && !self.is_young() {
            // By all we hear there is no difference: a few hashes are enough to be sure of it.
            count = count.min(BUCKETS_WHEN_EQUAL_MAX);
        }
        let buckets = self.buckets(count);
        let request = Request::Compare { from: self.about_me(), buckets: buckets.clone() };
        self.request(peer, request, Exchange::Compare { peer, buckets });
    }

    pub(super) fn sync_with_somebody(&mut self) {
        let jitter = self.random.within(self.config.sync.every / 4);
        self.timers.set(self.now + self.config.sync.every - jitter, Timer::Sync);
        self.compare_with_anybody();
    }

    fn compare_with_anybody(&mut self) {
        if let Some((_, addr)) = self.some_members(1, |entry| entry.state == State::Alive).pop() {
            self.compare_with(addr);
        }
    }

    /// Answers a comparison. Whoever asks tells of itself: this is how a node joins.
    pub(super) fn differences(&mut self, from: Update, theirs: &[u64]) -> Response {
        if !self.may_answer() || !theirs.len().is_power_of_two() || theirs.len() > BUCKETS_MAX {
            return Response::Busy;
        }
        if self.phase != Phase::Member {
            return Response::Busy;
        }
        let asker = from.node;
        let its_addr = from.info.as_ref().map(|info| info.addr);
        self.learn(from, Source::Rumour);
        if self.phase != Phase::Member {
            return Response::Busy;
        }
        let ours = self.buckets(theirs.len());
        let buckets: Vec<u32> = (0..theirs.len())
            .filter(|bucket| ours[*bucket] != theirs[*bucket])
            .map(|bucket| bucket as u32)
            .collect();
        let mut entries: Vec<Update> = self.word_to(asker).into_iter().collect();
        // What it knows about itself it knows best, unless somebody else goes by its name: then it must hear of that.
        let twin =
            |entry: &Update| entry.node == asker && entry.info.as_ref().map(|info| info.addr) != its_addr;
        let entries_of = self.entries_of(&buckets, theirs.len());
        entries.extend(entries_of.filter(|entry| entry.node.id != asker.id || twin(entry)));
        entries.truncate(self.config.members_max);
        Response::Differences { from: self.me, buckets, entries }
    }

    /// The answer to our comparison.
    pub(super) fn compared(&mut self, peer: SocketAddr, ours: &[u64], response: Option<Response>) {
        self.sync.under_way = self.sync.under_way.saturating_sub(1);
        let Some(Response::Differences { from, buckets, entries }) = response else {
            self.comparison_failed(response == Some(Response::Busy));
            return;
        };
        self.hear(from.id);
        self.join.found(peer, from);
        self.join.is_in(self.now);
        let theirs: BTreeMap<NodeId, (Identity, Status, u32)> = entries
            .iter()
            .map(|entry| (entry.node.id, (entry.node, entry.status, entry.incarnation.0)))
            .collect();
        let mut news = 0;
        for entry in entries.into_iter().take(self.config.members_max) {
            news += usize::from(self.learn(entry, Source::Sync));
            if self.phase != Phase::Member {
                return;
            }
        }
        let known = |update: &Update| {
            let said = theirs.get(&update.node.id);
            // The dead whom they do not know are no news to them.
            said == Some(&(update.node, update.status, update.incarnation.0))
                || said.is_none() && update.status.is_gone()
        };
        let mut better: Vec<Update> =
            self.entries_of(&buckets, ours.len()).filter(|update| !known(update)).collect();
        better.truncate(self.config.members_max);
        if news == 0 && better.is_empty() {
            self.sync.fruitless += 1;
            return;
        }
        self.sync.fruitless = 0;
        if !better.is_empty() {
            self.request(peer, Request::Push { from: self.me, entries: better }, Exchange::Push);
        }
    }

    fn comparison_failed(&mut self, busy: bool) {
        if self.is_alone() {
            self.seed_was_busy(busy);
        } else if busy && self.is_young() {
            self.compare_with_anybody();
        }
    }

    pub(super) fn take_push(&mut self, from: Identity, entries: Vec<Update>) -> Response {
        if !self.may_answer() {
            return Response::Busy;
        }
        self.hear(from.id);
        for entry in entries.into_iter().take(self.config.members_max) {
            self.learn(entry, Source::Sync);
            if self.phase == Phase::Silent {
                return Response::Busy;
            }
        }
        Response::Done
    }

    fn may_answer(&mut self) -> bool {
        if self.now.since(self.sync.answered_since) >= self.config.period {
            self.sync.answered_since = self.now;
            self.sync.answered = 0;
        }
        self.sync.answered += 1;
        self.sync.answered <= REQUESTS_PER_PERIOD_MAX
    }

    fn buckets(&self, count: usize) -> Vec<u64> {
        let mut buckets = self.table.buckets(count);
        buckets[bucket_of(self.me.id, count)] ^= hash_of(self.me, self.incarnation);
        buckets
    }

    /// What we know about the nodes in these of `count` buckets, ourselves included.
    fn entries_of(&self, buckets: &[u32], count: usize) -> impl Iterator<Item = Update> {
        let mut wanted = vec![false; count];
        for bucket in buckets {
            if let Some(wanted) = wanted.get_mut(*bucket as usize) {
                *wanted = true;
            }
        }
        let me = wanted[bucket_of(self.me.id, count)].then(|| self.about_me());
        let others = self.table.iter().filter(move |entry| wanted[bucket_of(entry.id, count)]);
        others.filter_map(|entry| self.as_update(entry)).chain(me)
    }

    /// An entry as others may learn it. A death whose contradiction we know, and do not believe yet, is only ours.
    fn as_update(&self, entry: &Entry) -> Option<Update> {
        if entry.state == State::Dead && self.flaps.is_held(entry.id) {
            // ... unless it was judged as unreliable: the judgement is everybody's.
            // When its time is over even that is of the past: whoever forgot it would keep the node out once more.
            let runs = entry.unreliable && self.is_serving(entry.id);
            let incarnation = self.flaps.judgement(entry.id).filter(|_| runs)?;
            return Some(Update {
                node: entry.identity(),
                incarnation,
                status: Status::Unreliable,
                by: self.me.id,
                info: Some(entry.info.clone()),
            });
        }
        let status = match entry.state {
            State::Alive | State::ProbeFailed => Status::Alive,
            State::Suspected => Status::Suspect,
            State::Dead if entry.unreliable => Status::Unreliable,
            State::Dead => Status::Dead,
            State::Left => Status::Left,
        };
        let by = match status {
            // Whoever still holds it learns by this that it need not.
            Status::Alive if self.flaps.voucher(entry.id).is_some() => self.me.id,
            Status::Alive | Status::Left => entry.id,
            Status::Suspect | Status::Dead | Status::Unreliable => {
                self.suspicions.get(&entry.id).map_or(self.me.id, Suspected::accuser)
            }
        };
        Some(Update {
            node: entry.identity(),
            incarnation: entry.incarnation,
            status,
            by,
            info: Some(entry.info.clone()),
        })
    }
}
