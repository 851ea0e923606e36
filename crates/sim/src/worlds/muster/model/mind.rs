//! What a scheduler knows of its workers: the very `muster::Consensus` that ships, explored through its own methods.
//!
//! The same few thousand minds occur in millions of states. So each is kept once, with what can be asked of it, and remembers what
//! became of it when something happened to it.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use model::Generation;
use muster::consensus::Terms;
use muster::{Consensus, Member, Mutation};

use super::code::{Codes, Id, Instance, Instances, MEMBERS_MAX, has};
use super::symmetry::{ORDERS_MAX, Order};
use crate::explore::fingerprint;

/// Something that happens to a scheduler and that its consensus is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// First heard of, with the id it brings.
    Join(Instance, Id),
    /// All that it runs is known.
    Fetched(Instance),
    /// It says which id it keeps.
    Echoed(Instance, Id),
    /// It has certainly stopped.
    Lost(Instance),
    /// It is given work from now on.
    Healthy(Instance),
    /// It does badly.
    Unwell(Instance),
    /// Whoever has not been heard of has certainly stopped.
    SafeWaitOver,
    /// One pass.
    Update,
    /// Newcomers have to queue.
    CloseQueue,
}

/// A scheduler's knowledge, and what follows from it.
pub(super) struct Mind {
    pub(super) print: u64,
    consensus: Consensus,
    /// Heard of, and not lost.
    pub(super) known: Instances,
    /// Those among them whose tasks are known.
    pub(super) fetched: Instances,
    /// Those among them that were given work.
    pub(super) latched: Instances,
    /// The safe wait is over.
    pub(super) is_safe: bool,
    /// It has left its wait.
    pub(super) is_over: bool,
    /// Those who may be given work.
    pub(super) permitted: Instances,
    /// What each is to be told.
    pub(super) current: [Id; MEMBERS_MAX],
    origin: Origin,
    became: Mutex<Vec<(Op, Weak<Mind>)>>,
    renamed: [OnceLock<Weak<Mind>>; ORDERS_MAX],
}

/// Where a mind came from.
enum Origin {
    Start,
    Step(Arc<Mind>, Op),
}

/// All minds there are.
pub(super) struct Minds {
    codes: Codes,
    terms: Terms,
    mutation: Option<Mutation>,
    all: Mutex<BTreeMap<u64, Arc<Mind>>>,
}

/// What two minds must have in common to be one.
#[derive(Hash)]
struct Content<'a>(&'a Consensus, [Instances; 3], bool);

impl Minds {
    pub(super) fn new(codes: Codes, terms: Terms, mutation: Option<Mutation>) -> Self {
        Minds { codes, terms, mutation, all: Mutex::default() }
    }

    pub(super) fn codes(&self) -> &Codes {
        &self.codes
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        locked(&self.all).len()
    }

    /// The mind of a scheduler that has just started.
    pub(super) fn begin(&self, generation: u8) -> Arc<Mind> {
        let generation = Generation(u64::from(generation));
        let consensus = match self.mutation {
            Some(mutation) => Consensus::broken(generation, self.terms, mutation),
            None => Consensus::new(generation, self.terms),
        };
        self.keep(consensus, [0; 3], false, Origin::Start)
    }

    /// What becomes of it.
    pub(super) fn after(&self, mind: &Arc<Mind>, op: Op) -> Arc<Mind> {
        let remembered =
            locked(&mind.became).iter().find(|(other, _)| *other == op).map(|(_, it)| it.upgrade());
        if let Some(Some(became)) = remembered {
            return became;
        }
        let became = self.compute(mind, op);
        locked(&mind.became).push((op, Arc::downgrade(&became)));
        became
    }

    fn compute(&self, mind: &Arc<Mind>, op: Op) -> Arc<Mind> {
        let mut consensus = mind.consensus.clone();
        let (mut known, mut fetched, mut latched) = (mind.known, mind.fetched, mind.latched);
        let member = |instance: Instance| Member(u32::from(instance));
        match op {
            Op::Join(who, id) => {
                consensus.join(member(who), self.codes.identity(who), self.codes.set_id(id));
                known |= 1 << who;
            }
            Op::Fetched(who) => {
                consensus.fetched(member(who));
                fetched |= 1 << who;
            }
            Op::Echoed(who, id) => {
                if let Some(id) = self.codes.set_id(id) {
                    consensus.echoed(member(who), id);
                }
            }
            Op::Lost(who) => {
                consensus.lost(member(who));
                [&mut known, &mut fetched, &mut latched].into_iter().for_each(|set| *set &= !(1 << who));
            }
            Op::Healthy(who) => {
                consensus.healthy(member(who));
                latched |= 1 << who;
            }
            Op::Unwell(who) => consensus.unhealthy(member(who)),
            Op::SafeWaitOver => consensus.safe_wait_over(),
            Op::Update => consensus.update(),
            Op::CloseQueue => consensus.close_queue(),
        }
        let is_safe = mind.is_safe || op == Op::SafeWaitOver;
        self.keep(consensus, [known, fetched, latched], is_safe, Origin::Step(mind.clone(), op))
    }

    fn keep(&self, consensus: Consensus, sets: [Instances; 3], is_safe: bool, origin: Origin) -> Arc<Mind> {
        let print = fingerprint(&Content(&consensus, sets, is_safe));
        let mut all = locked(&self.all);
        let new = || {
            let [known, fetched, latched] = sets;
            let there = || (0..MEMBERS_MAX as u8).filter(|instance| has(known, *instance));
            let member = |instance: Instance| Member(u32::from(instance));
            let mut current = [Id::NONE; MEMBERS_MAX];
            there().for_each(|it| current[usize::from(it)] = self.codes.code(consensus.current(member(it))));
            let permitted = there().filter(|it| consensus.permits(member(*it)).is_ok());
            Arc::new(Mind {
                print,
                known,
                fetched,
                latched,
                is_safe,
                is_over: !consensus.is_waiting(),
                permitted: permitted.fold(0, |set, it| set | 1 << it),
                current,
                consensus,
                origin,
                became: Mutex::default(),
                renamed: Default::default(),
            })
        };
        all.entry(print).or_insert_with(new).clone()
    }

    /// The mind that would have come about had the workers been others: what happened happens again, to those others.
    pub(super) fn renamed(&self, mind: &Arc<Mind>, order: &Order) -> Arc<Mind> {
        let place = &mind.renamed[order.number];
        if let Some(renamed) = place.get().and_then(Weak::upgrade) {
            return renamed;
        }
        let renamed = match &mind.origin {
            Origin::Start => mind.clone(),
            Origin::Step(before, op) => self.after(&self.renamed(before, order), order.op(*op)),
        };
        place.get_or_init(|| Arc::downgrade(&renamed));
        renamed
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked ends the search, whatever it left behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
