//! One client's stream: what it submits and acknowledges in, how its jobs end out.
//!
//! There is no task of its own: whoever sends the answers asks for the next one, and meanwhile frames are dealt with.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, stream};
use model::{ClientId, JobId};
use rpc::ApiError;
use rpc::wire::{End, SubmitAnswer, SubmitFrame};
use store::Past;
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tonic::Status;

use super::ends;
use crate::api::{ANSWER_WAIT, Answer, Api};
use crate::shield::to_the_end;

/// Ends in one answer at most, and bytes after which it is closed.
const ANSWER_ENDS_MAX: usize = 1_000;
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// When a client comes again for whose jobs there was no room. Nobody who runs jobs waits for that: there is all the backlog that
/// there can be.
const POSTPONED_MS: u32 = 100;

/// Opens the stream that the first frame announces. What has ended and is not acknowledged comes first, then everything as it
/// ends; what falls in between is told twice.
pub(crate) async fn open<S>(
    api: Arc<Api>,
    mut frames: S,
) -> Answer<impl Stream<Item = Result<SubmitAnswer, Status>> + use<S>>
where
    S: Stream<Item = Result<SubmitFrame, Status>> + Send + Unpin + 'static,
{
    let first = api.first_frame(&mut frames).await?;
    let client = client(&first.client)?;
    let ends = api.ends.follow(client);
    let mut desk = Desk { api, frames, ends, answer: SubmitAnswer::default(), answer_wait: None };
    desk.take(first).await?;
    let Past { memory, ended } = desk.api.store.past_of(client).await?;
    let generation = desk.api.generation;
    let mut past = vec![Ok(SubmitAnswer { generation, memory, ..std::mem::take(&mut desk.answer) })];
    let mut ended = ended.iter().map(ends::end).peekable();
    while ended.peek().is_some() {
        past.push(Ok(SubmitAnswer { ends: as_many_as_fit(|| ended.next()), ..Default::default() }));
    }
    let closing = desk.api.closing.clone().cancelled_owned();
    let answers = stream::unfold(Some(desk), |desk| async move {
        let mut desk = desk?;
        match desk.next().await {
            Ok(answer) => answer.map(|answer| (Ok(answer), Some(desk))),
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    Ok(stream::iter(past).chain(answers.take_until(closing)))
}

fn client(any_id: &str) -> Answer<ClientId> {
    let id: JobId = any_id.parse()?;
    let client = id.submission().map(|(client, _)| client).filter(|client| client.is_awaited());
    client.ok_or_else(|| {
        ApiError::invalid(format!("{id} is not the id of a volatile job that its client numbered"))
    })
}

/// One client is served here.
struct Desk<S> {
    api: Arc<Api>,
    frames: S,
    ends: mpsc::Receiver<End>,
    /// What was dealt with and the client does not know.
    answer: SubmitAnswer,
    /// When it must go out at the latest. Left as it is when it went out earlier: a timer for each would cost more than they do.
    answer_wait: Option<Pin<Box<Sleep>>>,
}

impl<S> Desk<S>
where
    S: Stream<Item = Result<SubmitFrame, Status>> + Send + Unpin,
{
    /// The next answer; `None` when there will be no more.
    async fn next(&mut self) -> Answer<Option<SubmitAnswer>> {
        loop {
            tokio::select! {
                end = self.ends.recv() => {
                    // Too slow for all that ends, it was given up; it finds what it missed when it comes back.
                    let Some(end) = end else { return Ok(None) };
                    let mut first = Some(end);
                    self.answer.ends = as_many_as_fit(|| first.take().or_else(|| self.ends.try_recv().ok()));
                    return Ok(Some(std::mem::take(&mut self.answer)));
                }
                frame = self.frames.next() => match frame {
                    // Whoever says no more has heard what it wanted.
                    None => return Ok(None),
                    Some(frame) => {
                        let is_urgent = self.take(frame?).await?;
                        if is_urgent {
                            return Ok(Some(std::mem::take(&mut self.answer)));
                        }
                        self.answer_wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(ANSWER_WAIT)));
                    }
                },
                () = async { self.answer_wait.as_mut().expect("it waits").await }, if self.answer_wait.is_some() => {
                    self.answer_wait = None;
                    if self.answer != SubmitAnswer::default() {
                        return Ok(Some(std::mem::take(&mut self.answer)));
                    }
                }
            }
        }
    }

    /// Deals with a frame, whether or not its client stays. Whether the answer is waited for: by a client that has nothing else
    /// to say, that has said more than one thing, or that must give something up.
    async fn take(&mut self, frame: SubmitFrame) -> Answer<bool> {
        let is_urgent = frame.jobs.is_empty() || self.answer.frames > 0;
        let api = Arc::clone(&self.api);
        let not_taken = to_the_end(async move { api.take_submissions(frame).await }).await?;
        self.answer.frames += 1;
        self.answer.refusals.extend(not_taken.refused);
        if !not_taken.postponed.is_empty() {
            self.answer.postponed.extend(not_taken.postponed);
            self.answer.retry_after_ms = POSTPONED_MS;
        }
        Ok(is_urgent || !self.answer.refusals.is_empty() || !self.answer.postponed.is_empty())
    }
}

/// What fits one answer.
fn as_many_as_fit(mut next: impl FnMut() -> Option<End>) -> Vec<End> {
    let (mut ends, mut bytes) = (Vec::new(), 0);
    while ends.len() < ANSWER_ENDS_MAX
        && bytes < ANSWER_BYTES_MAX
        && let Some(end) = next()
    {
        bytes += end.result.len() + end.error.len();
        ends.push(end);
    }
    ends
}
