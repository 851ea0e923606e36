//! Waiting for jobs to end, over lost connections. Used by `enqueue --wait` and `jobs wait`.

use std::collections::HashSet;
use std::time::Duration;

use model::{ErrorKind, State};
use rpc::wire;
use tokio::time::{Instant, sleep, timeout};
use worker::{Client, ClientError};

use crate::output::Output;

/// Jobs watched by one call; more are waited for in turns.
const WATCHED_MAX: usize = 1_000;
/// A server that was reached once may be away this long (a restart, say) before waiting fails.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// Pause between two tries to watch.
const AWAY_PAUSE: Duration = Duration::from_millis(500);

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// All jobs have ended.
    Ended,
    /// The time was over before this many jobs had ended.
    TimedOut { left: usize },
}

/// True for the states a job does not leave by itself.
pub(crate) fn has_ended(state: &str) -> bool {
    State::from_word(state).is_some_and(State::is_terminal)
}

/// All of those.
pub(crate) fn ended_states() -> Vec<String> {
    [State::Completed, State::Cancelled, State::Dead].map(|state| state.word().to_owned()).to_vec()
}

/// Hands each job to `ended` when it has ended, in the order of their ends. An unknown id is an error.
pub(crate) async fn for_all(
    client: &Client,
    output: &Output,
    ids: &[String],
    limit: Option<Duration>,
    mut ended: impl FnMut(wire::Job) -> anyhow::Result<()>,
) -> anyhow::Result<Waited> {
    let mut seen = HashSet::new();
    let ids: Vec<String> = ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect();
    let mut left = ids.len();
    let all = async {
        for chunk in ids.chunks(WATCHED_MAX) {
            let mut vigil = Vigil::new(client, output, chunk);
            vigil
                .keep(&mut |job| {
                    left -= 1;
                    ended(job)
                })
                .await?;
        }
        anyhow::Ok(())
    };
    let in_time = match limit {
        None => Ok(all.await),
        Some(limit) => timeout(limit, all).await,
    };
    match in_time {
        Ok(result) => result.map(|()| Waited::Ended),
        Err(_) => Ok(Waited::TimedOut { left }),
    }
}

/// A watch over some jobs that outlives its streams.
struct Vigil<'a> {
    client: &'a Client,
    output: &'a Output,
    /// Those that have not ended yet.
    open: HashSet<String>,
    reached: bool,
    /// Set while the server is away.
    away_until: Option<Instant>,
}

impl<'a> Vigil<'a> {
    fn new(client: &'a Client, output: &'a Output, ids: &[String]) -> Self {
        Vigil { client, output, open: ids.iter().cloned().collect(), reached: false, away_until: None }
    }

    async fn keep(&mut self, ended: &mut impl FnMut(wire::Job) -> anyhow::Result<()>) -> anyhow::Result<()> {
        while !self.open.is_empty() {
            match self.watch(ended).await {
                Ok(()) => {}
                Err(error) => self.bear(error)?,
            }
            if !self.open.is_empty() {
                // The next watch starts with the present states, so that nothing of the pause is missed.
                sleep(AWAY_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Watches until all have ended or the server ends the stream.
    async fn watch(&mut self, ended: &mut impl FnMut(wire::Job) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let ids = self.open.iter().cloned().collect();
        let mut events = self
            .client
            .watch(wire::WatchRequest { ids, states: ended_states(), ..Default::default() })
            .await?;
        self.reached = true;
        self.away_until = None;
        while !self.open.is_empty() {
            let Some(event) = events.next().await? else {
                return Ok(());
            };
            if !has_ended(&event.state) || !self.open.contains(&event.id) {
                continue;
            }
            let job = self.client.get(wire::GetJobRequest { id: event.id.clone() }).await?;
            // Someone may have retried it since.
            if has_ended(&job.state) {
                self.open.remove(&event.id);
                ended(job)?;
            }
        }
        Ok(())
    }

    /// Passes over what a server coming back would mend, for a while; any other error ends the vigil.
    fn bear(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let may_pass = match error.downcast_ref::<ClientError>() {
            Some(ClientError::Unreachable { .. }) => true,
            Some(ClientError::Api(api)) => api.kind == ErrorKind::Unavailable,
            None => false,
        };
        if !may_pass || !self.reached {
            return Err(error);
        }
        let output = self.output;
        let until = *self.away_until.get_or_insert_with(|| {
            output.note("lost the server; waiting for it to come back");
            Instant::now() + AWAY_MAX
        });
        if Instant::now() > until { Err(error) } else { Ok(()) }
    }
}
