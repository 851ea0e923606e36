//! **The promise:** every claim of a job has a higher fence than all claims before it, whatever happened to the job, the
//! clocks or the store in between. So a writer with the highest fence it has ever seen can be told from all others.

use model::Hold;

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::{JobBook, shown};

pub(super) const LAW: &str = "fence_went_back";

/// A claim was made; `book` is from before it.
pub(in super::super) fn check(book: &JobBook, hold: Hold) -> Verdict {
    holds(LAW, hold.fence > book.fence, || {
        format!("{} was claimed although fence {} had been given out before", shown(hold), book.fence)
    })
}

#[cfg(test)]
mod tests {
    use model::{Fence, State, WorkerKey};

    use super::*;
    use crate::worlds::jobs::books::{Books, job_id};

    /// The store mints fences by its clock and by the row, so no single bug of it breaks this law; hence a test of it.
    #[test]
    fn the_same_fence_and_a_lower_one_are_noticed() {
        let mut books = Books::default();
        let hold = |fence| Hold { job: job_id(1), fence: Fence::new(fence) };
        books.draft(job_id(1));
        books.claimed(hold(5), &WorkerKey::new("w").expect("a valid key"), false);
        books.moved(job_id(1), State::Available);
        let verdict = |fence| check(books.job(job_id(1)), hold(fence));
        assert_eq!(verdict(6), Ok(()));
        assert!(verdict(5).is_err() && verdict(4).is_err());
    }
}
