//! Faults on purpose, for tests of what happens when a message is lost: hidden from users, off unless asked for.

use std::sync::atomic::{AtomicU32, Ordering};

use model::Invalid;

/// How many of each kind of message are still to be lost.
#[derive(Debug, Default)]
pub struct Faults {
    assignments: AtomicU32,
    answers: AtomicU32,
}

impl Faults {
    /// Faults from text such as `drop-assignments=3,drop-answers=1`.
    pub fn parse(text: &str) -> Result<Faults, Invalid> {
        let faults = Faults::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let unknown =
                || Invalid::new(format!("fault {part:?} is not drop-assignments=N or drop-answers=N"));
            let (name, count) = part.split_once('=').ok_or_else(unknown)?;
            let count = count.parse().map_err(|_| unknown())?;
            match name {
                "drop-assignments" => faults.assignments.store(count, Ordering::Relaxed),
                "drop-answers" => faults.answers.store(count, Ordering::Relaxed),
                _ => return Err(unknown()),
            }
        }
        Ok(faults)
    }

    /// Whether this frame of assignments is to be lost on its way.
    pub(crate) fn drops_assignments(&self) -> bool {
        take_one(&self.assignments)
    }

    /// Whether this answer to a heartbeat is to be lost on its way.
    pub(crate) fn drops_answer(&self) -> bool {
        take_one(&self.answers)
    }
}

fn take_one(left: &AtomicU32) -> bool {
    left.load(Ordering::Relaxed) > 0
        && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_happens_as_often_as_asked() {
        let faults = Faults::parse("drop-answers=2").unwrap();
        assert_eq!([(); 3].map(|()| faults.drops_answer()), [true, true, false]);
        assert!(!faults.drops_assignments());
        for bad in ["drop-answers", "drop-answers=x", "drop-everything=1"] {
            assert!(Faults::parse(bad).is_err(), "{bad}");
        }
    }
}
