//! The submitter: what users hold, and what its conversations with the server share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::SystemClock;
use model::{ClientId, Clock, ErrorKind, JobId};
use rpc::{ApiError, wire};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::driver;
use super::submissions::Submissions;
use super::ticket::{Caller, End, Ticket};
use crate::client::{Client, MESSAGE_BYTES_MAX};
use crate::error::ClientError;

/// Submissions that have not ended, at a time.
const IN_FLIGHT_DEFAULT: usize = 10_000;
/// What a message needs beside a payload.
const MESSAGE_BYTES_SPARE: usize = 64 << 10;

/// How a submitter works.
#[derive(Clone, Debug)]
pub struct SubmitOptions {
    in_flight_max: usize,
}

/// Submits jobs to volatile queues and sees them through to their end, over restarts of the server. Clones share it.
///
/// When the last clone is dropped it takes no more, and goes on with what it has until all of that has ended, as long as the
/// runtime does.
#[derive(Clone, Debug)]
pub struct Submitter {
    handle: Arc<Handle>,
}

/// Closes the submitter when its last clone is gone.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

/// What the users of a submitter and its conversations share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Client,
    book: Mutex<Book>,
    /// One for each submission that may be made; closed with the submitter.
    room: Semaphore,
    /// Something is to be said.
    pub(super) due: Notify,
    /// Fires when it is closed and everything has ended.
    pub(super) done: CancellationToken,
}

/// The submissions, and who waits for their ends.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) submissions: Submissions,
    callers: HashMap<JobId, Caller>,
    is_closed: bool,
}

impl SubmitOptions {
    /// How many submissions may be in flight at a time; more of them wait in [`Submitter::submit`]. All are kept in memory.
    /// 10,000 when not given; at least one.
    pub fn in_flight_max(mut self, submissions: usize) -> Self {
        self.in_flight_max = submissions.clamp(1, Semaphore::MAX_PERMITS);
        self
    }
}

impl Default for SubmitOptions {
    fn default() -> Self {
        SubmitOptions { in_flight_max: IN_FLIGHT_DEFAULT }
    }
}

impl Submitter {
    /// Starts a submitter inside the present runtime.
    pub(crate) fn start(client: Client, options: &SubmitOptions) -> Submitter {
        let id = ClientId::new(SystemClock.wall(), rand::random());
        let submissions = Submissions::new(id, options.in_flight_max);
        let shared = Arc::new(Shared {
            client,
            book: Mutex::new(Book { submissions, callers: HashMap::new(), is_closed: false }),
            room: Semaphore::new(options.in_flight_max),
            due: Notify::new(),
            done: CancellationToken::new(),
        });
        driver::spawn(&shared);
        Submitter { handle: Arc::new(Handle { shared }) }
    }

    /// Submits a job to a volatile queue. Waits while too many submissions are in flight, and for nothing else: the job is sent
    /// in the background, together with others, until a server takes it.
    ///
    /// An `Invalid` error says what can be seen from here; what the server finds ends the ticket. `Refused` after
    /// [`close`](Self::close).
    pub async fn submit(&self, job: wire::NewJob) -> Result<Ticket, ClientError> {
        check(&job)?;
        let shared = &self.handle.shared;
        let room = shared.room.acquire().await.map_err(|_| closed())?;
        let (caller, end) = oneshot::channel();
        let id = shared.book().submit(job, caller)?;
        // It is given back by whoever notices the end.
        room.forget();
        shared.due.notify_one();
        Ok(Ticket::new(id, end))
    }

    /// Takes no more, and waits until everything that was submitted has ended and is acknowledged.
    pub async fn close(&self) {
        self.handle.shared.close();
        self.handle.shared.done.cancelled().await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is room for so many more.
    pub(super) fn free(&self, submissions: usize) {
        self.room.add_permits(submissions);
        self.rest();
    }

    /// Acknowledgements wait no longer.
    pub(super) fn hurry(&self) {
        if self.book().submissions.hurry() {
            self.due.notify_one();
        }
    }

    fn close(&self) {
        self.book().is_closed = true;
        self.room.close();
        self.hurry();
        self.rest();
    }

    /// Ends the conversations if nothing is left to talk about.
    fn rest(&self) {
        let book = self.book();
        if book.is_closed && book.submissions.is_idle() {
            self.done.cancel();
        }
    }
}

impl Book {
    fn submit(&mut self, job: wire::NewJob, caller: Caller) -> Result<JobId, ClientError> {
        if self.is_closed {
            return Err(closed());
        }
        let id = self.submissions.submit(job);
        self.callers.insert(id, caller);
        Ok(id)
    }

    /// A job has ended: its caller is told, once. Whether that is news.
    pub(super) fn end(&mut self, end: End) -> bool {
        let is_news = self.submissions.end(end.id);
        if is_news {
            self.tell(end.id, Ok(end));
        }
        is_news
    }

    /// The server will never take this job: its caller is told. Whether we still wanted it.
    pub(super) fn refuse(&mut self, id: JobId, why: ApiError) -> bool {
        let is_wanted = self.submissions.refused(id);
        if is_wanted {
            self.tell(id, Err(why.into()));
        }
        is_wanted
    }

    /// Whether acknowledgements must not wait for jobs to go with: there are many, or no more jobs come.
    pub(super) fn is_urgent(&self) -> bool {
        self.submissions.has_many_acks() || (self.is_closed && self.submissions.has_acks())
    }

    /// How it went. A caller that dropped its ticket does not want to know.
    fn tell(&mut self, id: JobId, end: Result<End, ClientError>) {
        if let Some(caller) = self.callers.remove(&id) {
            let _ = caller.send(end);
        }
    }
}

/// What the server would refuse, or never get to see.
fn check(job: &wire::NewJob) -> Result<(), ApiError> {
    let bytes_max = MESSAGE_BYTES_MAX - MESSAGE_BYTES_SPARE;
    if !job.id.is_empty() {
        return Err(ApiError::invalid("a submitter numbers its jobs itself; leave the id empty"));
    }
    if job.payload.len() > bytes_max {
        let bytes = job.payload.len();
        return Err(ApiError::invalid(format!(
            "payload has {bytes} bytes; no message takes more than {bytes_max}"
        )));
    }
    Ok(())
}

fn closed() -> ClientError {
    ApiError::new(ErrorKind::Refused, "the submitter is closed").into()
}
