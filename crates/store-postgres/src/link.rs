//! A lane's connection: made, lost, given up when the database does not answer, and made again by itself.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Backoff;
use store::StoreError;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::db::{Session, Shared, Tx};
use crate::error::Trouble;
use crate::open::{Connector, Habits, OnCommit};

/// How long an answer of the database is waited for, of most sorts.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often a transaction is run that meets conflicts.
const RUNS_MAX: u32 = 8;
/// The longest pause before the second run; it doubles with each.
const PAUSE_AFTER_CONFLICT: Duration = Duration::from_millis(10);
/// How long requests wait for a connection that was just lost. Most come back at once; after it requests are refused.
const RECONNECT_PATIENCE: Duration = Duration::from_secs(1);

/// What a lane runs in one transaction.
pub(crate) trait Work: Send {
    type Answer: Send;

    /// How many callers wait for it.
    fn requests(&self) -> usize {
        1
    }

    /// Whether its statements need no common transaction.
    fn is_separate(&self) -> bool;

    /// Whether it waits for nobody's locks, or hardly: others wait for its end.
    fn is_hurried(&self) -> bool {
        false
    }

    fn run<'a>(
        &'a mut self,
        tx: &'a Tx<'a>,
    ) -> impl Future<Output = Result<Self::Answer, Trouble>> + Send + 'a;
}

/// A request that can be answered without running it.
pub(crate) trait Refuse: Send {
    fn refuse(self, error: StoreError);
}

/// See the module.
pub(crate) struct Link {
    connector: Arc<Connector>,
    shared: Arc<Shared>,
    habits: Habits,
    session: Option<Session>,
    /// Why the last attempt to connect failed.
    away: Option<String>,
    backoff: Backoff,
    on_commit: Option<OnCommit>,
}

impl Link {
    /// Connects when it is first asked for something.
    pub(crate) fn new(
        connector: Arc<Connector>,
        shared: Arc<Shared>,
        habits: Habits,
        on_commit: Option<OnCommit>,
    ) -> Self {
        Link { connector, shared, habits, session: None, away: None, backoff: Backoff::default(), on_commit }
    }

    /// The next request, when there is a connection to run it on; `None` when nobody can ask any more. While there is no
    /// connection, requests are refused.
    pub(crate) async fn next<R: Refuse>(&mut self, inbox: &mut mpsc::Receiver<R>) -> Option<R> {
        loop {
            match &mut self.session {
                Some(session) if !session.is_lost() => {
                    tokio::select! {
                        biased;
                        request = inbox.recv() => return request,
                        () = session.lost() => self.session = None,
                    }
                }
                lost => {
                    *lost = None;
                    if !self.reconnect(inbox).await {
                        return None;
                    }
                }
            }
        }
    }

    /// One attempt to connect, and the pause after it if it fails. False when nobody can ask any more.
    async fn reconnect<R: Refuse>(&mut self, inbox: &mut mpsc::Receiver<R>) -> bool {
        let patience = if self.away.is_none() { RECONNECT_PATIENCE } else { Duration::ZERO };
        let connecting = "connecting to the database takes long; see whether it can be reached";
        let reason = self.away.clone().unwrap_or_else(|| connecting.to_owned());
        let attempt = {
            let mut attempt = pin!(self.connector.connect(&self.shared, self.habits));
            match timeout(patience, &mut attempt).await {
                Ok(done) => done,
                Err(_) => match refuse_during(attempt, inbox, &reason).await {
                    Some(done) => done,
                    None => return false,
                },
            }
        };
        match attempt {
            Ok(session) => {
                if self.away.take().is_some() {
                    tracing::info!("connected to the database again");
                }
                self.backoff.reset();
                self.session = Some(session);
                true
            }
            Err(reason) => {
                let delay = jittered(self.backoff.next_delay());
                if self.away.as_ref() != Some(&reason) {
                    tracing::warn!(%reason, "cannot connect to the database; trying again");
                }
                let waited = refuse_during(pin!(sleep(delay)), inbox, &reason).await;
                self.away = Some(reason);
                waited.is_some()
            }
        }
    }

    /// Runs the work in a transaction and commits it; again if it meets a conflict.
    pub(crate) async fn run<W: Work>(&mut self, work: &mut W) -> Result<W::Answer, Trouble> {
        let mut run = 1;
        loop {
            match self.run_once(work).await {
                Err(trouble) if trouble.is_conflict() && run < RUNS_MAX => {
                    tracing::debug!(error = %trouble, run, "a transaction met a conflict; running it again");
                    sleep(jittered(PAUSE_AFTER_CONFLICT * 2u32.pow(run - 1))).await;
                    run += 1;
                }
                done => return done,
            }
        }
    }

    async fn run_once<W: Work>(&mut self, work: &mut W) -> Result<W::Answer, Trouble> {
        let Some(session) = &self.session else {
            return Err(Trouble::Away("the connection to the database was lost".to_owned()));
        };
        let (requests, started) = (work.requests(), Instant::now());
        let limit = self.habits.answer_within;
        let tx = match (work.is_separate(), work.is_hurried()) {
            (true, _) => session.separate(),
            (false, false) => session.transaction(),
            (false, true) => session.hurried(),
        };
        let done = timeout(limit, async {
            let answer = work.run(&tx).await?;
            tx.commit().await?;
            Ok(answer)
        });
        let trouble = match done.await.unwrap_or(Err(Trouble::TimedOut(limit))) {
            Ok(answer) => {
                if let Some(on_commit) = self.on_commit.as_ref() {
                    on_commit(started.elapsed(), requests);
                }
                return Ok(answer);
            }
            Err(trouble) => trouble,
        };
        let usable =
            !trouble.loses_connection() && matches!(timeout(limit, tx.roll_back()).await, Ok(Ok(())));
        if !usable {
            self.session = None;
        }
        Err(trouble)
    }

    /// What callers are told.
    pub(crate) fn explain(&self, trouble: &Trouble) -> StoreError {
        let error = trouble.to_store_error();
        tracing::warn!(%error, cause = %trouble, "a transaction failed");
        error
    }
}

/// Waits for something and refuses all requests meanwhile. `None` when nobody can ask any more.
async fn refuse_during<F: Future + Unpin, R: Refuse>(
    mut wait: F,
    inbox: &mut mpsc::Receiver<R>,
    reason: &str,
) -> Option<F::Output> {
    loop {
        tokio::select! {
            biased;
            done = &mut wait => return Some(done),
            request = inbox.recv() => request?.refuse(StoreError::Unavailable(reason.to_owned())),
        }
    }
}

/// Between half and all of it, so that many do not come back together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}
