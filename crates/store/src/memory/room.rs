//! How much memory the jobs of a volatile store may take, and what goes when that is not enough.
//!
//! Every row is counted with all that it carries. Who submits when there is no room is told to come again; what is here stays
//! here and goes on: only by ending does it make room. What has ended goes first, the oldest first:
//!
//! | | goes |
//! |---|---|
//! | nobody comes back for it | at once |
//! | its client has not said that it knows | after [`KEPT_AT_LEAST`], as long as its worker keeps the result; [`Past`](crate::Past) tells the client |
//!
//! What is not counted has bounds of its own: results of jobs that are not here, answers to requests, and what is known of clients.

use std::time::Duration;

use model::{JobId, NewJob};

use super::clock::Now;
use super::mutation::Mutation;
use super::row::Row;
use super::tables::{Tables, is_awaited};
use crate::error::StoreError;
use crate::port::EnqueueBatch;

/// How long an end is kept for its client though there is no room.
pub(super) const KEPT_AT_LEAST: Duration = Duration::from_secs(600);
/// What is kept besides takes this part of what jobs may take, each: ends that nobody waits for, results of jobs that are not here,
/// answers to requests.
pub(super) const PART: usize = 4;
/// Most jobs that one call forgets: the next one goes on.
const FORGOTTEN_MAX: usize = 10_000;

impl Tables {
    /// Refuses a batch for which there is no room.
    pub(super) fn find_room(&mut self, now: Now, batch: &EnqueueBatch) -> Result<(), StoreError> {
        if self.has_room_for(batch.jobs.iter().map(Row::bytes_of).sum()) {
            return Ok(());
        }
        if batch.request_id.as_ref().is_some_and(|request| self.requests.answer(request).is_some()) {
            return Ok(());
        }
        let wanted = batch.jobs.iter().filter(|job| self.is_new(job)).map(Row::bytes_of).sum();
        if wanted == 0 {
            return Ok(());
        }
        self.make_more_room(now, wanted);
        if self.has_room_for(wanted) {
            return Ok(());
        }
        let max = self.bytes_max() >> 20;
        Err(StoreError::Full(format!(
            "the jobs of volatile queues take all the memory they may have, {max} MiB; try again when some have ended and their \
             clients know, or give them more (tenure serve --volatile-memory)"
        )))
    }

    /// Removes ended jobs that nobody comes back for when there are too many.
    pub(super) fn trim_ended(&mut self) {
        while let Some(id) = self.inherited.as_mut().and_then(|inherited| inherited.ended.pop_surplus()) {
            self.remove_ended(id);
        }
    }

    /// Removes a job that has ended, though its client may still come for it.
    pub(super) fn forget_end(&mut self, id: JobId) {
        let is_silent = self.has(Mutation::EndForgottenSilently);
        if let Some(inherited) = &mut self.inherited
            && is_awaited(id)
            && !is_silent
        {
            inherited.clients.forget_end(id);
        }
        self.remove(id);
    }

    /// The bytes that the jobs of a volatile store may take.
    pub(super) fn bytes_max(&self) -> usize {
        self.inherited.as_ref().map_or(usize::MAX, |inherited| inherited.bytes_max())
    }

    fn has_room_for(&self, wanted: usize) -> bool {
        self.bytes.saturating_add(wanted) <= self.bytes_max() || self.has(Mutation::RoomWithoutEnd)
    }

    /// Whether this job would take room: it is not here, and its client waits for its end.
    fn is_new(&self, job: &NewJob) -> bool {
        let is_known = self.inherited.as_ref().is_some_and(|inherited| inherited.clients.know_end_of(job.id));
        !is_known && self.taken_by(job).is_none()
    }

    fn make_more_room(&mut self, now: Now, wanted: usize) {
        for _ in 0..FORGOTTEN_MAX {
            if self.has_room_for(wanted) {
                return;
            }
            if let Some(id) = self.inherited().ended.pop() {
                self.remove_ended(id);
                continue;
            }
            let kept_at_least =
                if self.has(Mutation::EndsMakeRoomAtOnce) { Duration::ZERO } else { KEPT_AT_LEAST };
            let until = now.wall - kept_at_least;
            let ends = [self.index.finished.first(), self.index.buried.first()];
            let Some((_, id)) = ends.into_iter().flatten().min().filter(|(at, _)| *at <= until) else {
                return;
            };
            self.forget_end(id);
        }
    }

    /// Removes a job that had ended when it was noted, if it has not been called back.
    fn remove_ended(&mut self, id: JobId) {
        // To be changed, so that it is at hand when it is removed.
        if self.jobs.get_mut(id).is_some_and(|row| row.state.is_terminal()) {
            self.remove(id);
        }
    }
}
