//! The checker on toys whose answers are known.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use super::{Limits, Model, Outcome, Progress, search};

/// Two processes that want into one room. Each looks whether the other has raised its flag, raises its own, enters, leaves.
struct Room {
    /// Raise the flag before looking, as one must.
    flag_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    Outside,
    Ready,
    Inside,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Prepare(usize),
    Enter(usize),
    Leave(usize),
}

/// Where each of the two is, and whether its flag is up.
type Both = [(Place, bool); 2];

impl Model for Room {
    type State = Both;
    type Action = Step;

    fn initial(&self) -> Both {
        [(Place::Outside, false); 2]
    }

    fn actions(&self, _: &Both, into: &mut Vec<Step>) {
        into.extend((0..2).flat_map(|who| [Step::Prepare(who), Step::Enter(who), Step::Leave(who)]));
    }

    fn next(&self, state: &Both, action: &Step) -> Option<Both> {
        let mut next = *state;
        match *action {
            Step::Prepare(who) => {
                let other_flag = state[1 - who].1;
                let may = state[who].0 == Place::Outside && (self.flag_first || !other_flag);
                may.then(|| next[who] = (Place::Ready, self.flag_first))?;
            }
            Step::Enter(who) => {
                let other_flag = state[1 - who].1;
                let may = state[who].0 == Place::Ready && (!self.flag_first || !other_flag);
                may.then(|| next[who] = (Place::Inside, true))?;
            }
            Step::Leave(who) => {
                // One that sees the other's flag gives up too.
                let may = state[who].0 == Place::Inside || state[who] == (Place::Ready, true);
                may.then(|| next[who] = (Place::Outside, false))?;
            }
        }
        Some(next)
    }

    fn check(&self, state: &Both) -> Result<(), String> {
        let inside = state.iter().filter(|(place, _)| *place == Place::Inside).count();
        if inside < 2 { Ok(()) } else { Err("alone: both are inside".to_owned()) }
    }

    fn canonical(&self, mut state: Both) -> Both {
        state.sort();
        state
    }
}

fn whole<M: Model>(model: &M) -> Outcome<M::Action> {
    search(model, Limits::default(), |_| ControlFlow::Continue(()))
}

#[test]
fn a_broken_exclusion_is_told_in_as_few_steps_as_it_takes() {
    let broken = whole(&Room { flag_first: false });
    let story = broken.violation.expect("both look before either raises its flag");
    assert_eq!(story.violation, "alone: both are inside");
    assert_eq!(story.actions.len(), 4, "two preparations and two entries: {story}");
    assert!(!broken.is_complete);
    let told = story.to_string();
    assert!(told.starts_with("   1  Prepare(") && told.contains("   4  Enter("), "{told}");
}

#[test]
fn a_right_exclusion_is_explored_to_its_end() {
    let right = whole(&Room { flag_first: true });
    assert!(right.is_complete && right.violation.is_none());
    // Both outside; one ready; both ready; one inside; one inside and one ready. Which one it is cannot be told apart.
    assert_eq!((right.states, right.depth), (5, 3));
}

/// A square of numbers, reached by counting up two counters.
struct Square(u32);

impl Model for Square {
    type State = (u32, u32);
    type Action = bool;

    fn initial(&self) -> (u32, u32) {
        (0, 0)
    }

    fn actions(&self, _: &(u32, u32), into: &mut Vec<bool>) {
        into.extend([false, true]);
    }

    fn next(&self, &(a, b): &(u32, u32), action: &bool) -> Option<(u32, u32)> {
        let next = if *action { (a + 1, b) } else { (a, b + 1) };
        (next.0.max(next.1) < self.0).then_some(next)
    }

    fn check(&self, _: &(u32, u32)) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn every_state_is_visited_once_on_any_number_of_threads() {
    for threads in [1, 2, 5] {
        let limits = Limits { threads: NonZeroUsize::new(threads), ..Limits::default() };
        let square = search(&Square(600), limits, |_| ControlFlow::Continue(()));
        assert!(square.is_complete);
        assert_eq!((square.states, square.depth), (360_000, 1_198));
        assert_eq!(square.transitions, 2 * 600 * 599);
    }
}

#[test]
fn limits_end_a_search_and_it_says_so() {
    let limits = Limits { states_max: 1_000, ..Limits::default() };
    let few = search(&Square(600), limits, |_| ControlFlow::Continue(()));
    assert!(!few.is_complete && (1_000..1_200).contains(&few.states), "{}", few.states);
    let mut heard = Progress::default();
    let stopped = search(&Square(600), Limits::default(), |progress| {
        heard = *progress;
        if progress.depth == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(!stopped.is_complete);
    assert_eq!((heard.depth, heard.states), (20, stopped.states));
}
