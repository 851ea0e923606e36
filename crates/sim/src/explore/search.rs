//! The search: level by level, the states of one level shared among threads.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Model;
use super::counterexample::{Counterexample, replay};
use super::fingerprint::fingerprint;
use super::visited::{NOBODY, Visited};

/// How many states a thread takes at a time.
const BATCH: usize = 1_024;
/// How many batches one thread takes before it is asked whether to go on.
const BATCHES_PER_TURN: usize = 256;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The search ends, incomplete, soon after so many states; by then every one of them has been asked.
    pub states_max: u64,
    /// Over how many threads; as many as there are cores when `None`.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { states_max: u64::MAX, threads: None }
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Different states that were reached.
    pub states: u64,
    /// Steps that were taken, whether or not they led to something new.
    pub transitions: u64,
    /// Steps from the beginning to the farthest state.
    pub depth: u32,
    /// States that wait to be expanded.
    pub waiting: u64,
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Outcome<A> {
    /// Different states that were reached, all of them asked.
    pub states: u64,
    /// Steps that were taken, whether or not they led to something new.
    pub transitions: u64,
    /// Steps from the beginning to the farthest state.
    pub depth: u32,
    /// Whether nothing was left to visit.
    pub is_complete: bool,
    /// A shortest way to an unlawful state; the search ends at the first one.
    pub violation: Option<Counterexample<A>>,
}

/// What one thread found at one level.
struct Found<S> {
    next: Vec<S>,
    transitions: u64,
    /// An unlawful state's fingerprint, and what is wrong with it.
    unlawful: Option<(u64, String)>,
}

/// Visits everything. `progress` hears from time to time how far it has come and says whether to go on.
pub fn search<M: Model>(
    model: &M,
    limits: Limits,
    mut progress: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Outcome<M::Action> {
    let visited = Visited::new();
    let first = model.canonical(model.initial());
    visited.insert(fingerprint(&first), NOBODY);
    let mut unlawful = model.check(&first).err().map(|what| (fingerprint(&first), what));
    let mut level = vec![first];
    let mut reached = Progress { states: 1, waiting: 1, ..Progress::default() };
    let mut is_stopped = false;
    while !level.is_empty() && unlawful.is_none() && !is_stopped {
        let mut next = Vec::new();
        // The rest of a level is taken a turn at a time, from its end, so that what was expanded leaves its room.
        while !level.is_empty() && unlawful.is_none() && !is_stopped {
            let turn = level.split_off(level.len().saturating_sub(BATCH * BATCHES_PER_TURN));
            for found in expand(model, &visited, &turn, limits.threads) {
                reached.states += found.next.len() as u64;
                reached.transitions += found.transitions;
                next.extend(found.next);
                // Which thread came first must not decide which one is told.
                unlawful = [unlawful, found.unlawful].into_iter().flatten().min();
            }
            reached.waiting = (level.len() + next.len()) as u64;
            is_stopped = reached.states >= limits.states_max || progress(&reached).is_break();
        }
        reached.depth += u32::from(!next.is_empty());
        next.append(&mut level);
        level = next;
    }
    Outcome {
        states: reached.states,
        transitions: reached.transitions,
        depth: reached.depth,
        is_complete: level.is_empty() && unlawful.is_none(),
        violation: unlawful.map(|(print, what)| replay(model, &visited.path_to(print), what)),
    }
}

/// Everything new that follows from these states.
fn expand<M: Model>(
    model: &M,
    visited: &Visited,
    states: &[M::State],
    threads: Option<NonZeroUsize>,
) -> Vec<Found<M::State>> {
    let threads = threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let batches: Vec<&[M::State]> = states.chunks(BATCH).collect();
    let taken = AtomicUsize::new(0);
    let work = || {
        let mut found = Found { next: Vec::new(), transitions: 0, unlawful: None };
        let mut actions = Vec::new();
        while let Some(batch) = batches.get(taken.fetch_add(1, Ordering::Relaxed)) {
            batch.iter().for_each(|state| step(model, visited, state, &mut actions, &mut found));
        }
        found
    };
    if threads == 1 || batches.len() == 1 {
        return vec![work()];
    }
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(batches.len())).map(|_| scope.spawn(work)).collect();
        let mut all = vec![work()];
        all.extend(others.into_iter().map(|other| other.join().expect("a model does not panic")));
        all
    })
}

/// Everything new that follows from this state.
fn step<M: Model>(
    model: &M,
    visited: &Visited,
    state: &M::State,
    actions: &mut Vec<M::Action>,
    found: &mut Found<M::State>,
) {
    let from = fingerprint(state);
    model.actions(state, actions);
    for action in actions.drain(..) {
        let Some(next) = model.next(state, &action) else { continue };
        let next = model.canonical(next);
        found.transitions += 1;
        let print = fingerprint(&next);
        if !visited.insert(print, from) {
            continue;
        }
        if let Err(what) = model.check(&next) {
            found.unlawful = [found.unlawful.take(), Some((print, what))].into_iter().flatten().min();
        }
        found.next.push(next);
    }
}
