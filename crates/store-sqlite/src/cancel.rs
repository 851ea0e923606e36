//! Calling jobs off.

use std::collections::HashMap;
use std::fmt::Write;

use model::{Fence, Hold, JobId, State, WorkerKey};
use rusqlite::params;
use store::Cancelled;

use crate::error::Trouble;
use crate::row;
use crate::writer::{Tx, Verb};

const LOOK: &str = "
    SELECT jobs.id, jobs.state, jobs.queue, jobs.fence, h.key
    FROM json_each(?1) chosen
    JOIN jobs ON jobs.id = unhex(chosen.value)
    LEFT JOIN holders h ON h.no = jobs.holder";

const CANCEL_WAITING: &str = "
    UPDATE jobs SET state = 4, finished_at = ?2
    WHERE id IN (SELECT unhex(value) FROM json_each(?1)) AND state IN (0, 1)";

const ASK_RUNNING: &str = "
    UPDATE jobs SET cancel_requested = 1
    WHERE id IN (SELECT unhex(value) FROM json_each(?1)) AND state = 2";

pub(crate) const STATEMENTS: &[&str] = &[LOOK, CANCEL_WAITING, ASK_RUNNING];

/// See [`store::JobStore::cancel`].
pub(crate) struct Cancel(pub(crate) Vec<JobId>);

impl Verb for Cancel {
    type Answer = Vec<Cancelled>;

    fn jobs(&self) -> usize {
        self.0.len()
    }

    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Cancelled>, Trouble> {
        let db = tx.db;
        let ids = json(&self.0);
        let mut found = HashMap::new();
        let mut look = db.prepare(LOOK)?;
        let mut rows = look.query([&ids])?;
        while let Some(row) = rows.next()? {
            let (id, state) = (row::job_id(row, 0)?, row::state(row, 1)?);
            let holder: Option<String> = row.get(4)?;
            let hold = Hold { job: id, fence: Fence::new(row.get(3)?) };
            let answer = match holder {
                Some(holder) => Cancelled::Asked { hold, holder: row::valid(WorkerKey::new(&holder))? },
                None if state.is_terminal() => Cancelled::AlreadyEnded(state),
                None => Cancelled::Now,
            };
            if found.insert(id, answer).is_none() && !state.is_terminal() && state != State::Running {
                tx.books.moves.shift(row.get(2)?, state, State::Cancelled);
            }
        }
        drop(rows);
        db.prepare(CANCEL_WAITING)?.execute(params![ids, tx.now.wall.as_millis()])?;
        db.prepare(ASK_RUNNING)?.execute(params![ids])?;
        let answers = self.0.iter().map(|id| match found.get_mut(id) {
            Some(Cancelled::Now) => {
                // Named twice, it had ended the second time.
                found.insert(*id, Cancelled::AlreadyEnded(State::Cancelled));
                Cancelled::Now
            }
            Some(answer) => answer.clone(),
            None => Cancelled::Unknown,
        });
        Ok(answers.collect())
    }
}

/// The ids as a list of texts in hex.
fn json(ids: &[JobId]) -> String {
    let mut text = String::from("[");
    for id in ids {
        let comma = if text.len() > 1 { "," } else { "" };
        write!(text, "{comma}\"{:032x}\"", id.to_u128()).expect("writing to a string does not fail");
    }
    text.push(']');
    text
}
