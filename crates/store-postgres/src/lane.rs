//! Lanes: tasks that own a connection each and run what waits in their inbox.
//!
//! A [`Lane`] runs any verb, one after another, each in a transaction of its own. A [`MergingLane`] is for one hot verb and
//! runs all requests that wait in one transaction. Once a request is in an inbox it happens, whether or not the caller
//! stays to hear of it. While the database is known to be away everything is refused at once, with the reason.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::db::Tx;
use crate::error::{Trouble, stopped};
use crate::link::{Link, Refuse, Work};

/// Requests that may wait for a lane; further callers wait for a place.
const INBOX_REQUESTS_MAX: usize = 1024;
/// A transaction takes no further request once it has this many jobs, so that no caller waits too long for its commit.
const GROUP_JOBS_MAX: usize = 4096;
/// Nor once they have this many bytes: the database takes no message of a gigabyte, and we keep the group in memory twice.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// Bytes that may wait for a lane, counted in kilobytes; further callers wait for room. A request with more has all of it.
const INBOX_KILOBYTES_MAX: u32 = 64 << 10;
/// How long the members of a group that failed are run one by one; the rest is then refused.
const ONE_BY_ONE_FOR: Duration = Duration::from_secs(5);

/// Something to do in the database. It can be run more than once; only the last run counts.
pub(crate) trait Verb: Send + Sync + 'static {
    /// What the caller wants to know.
    type Answer: Send + 'static;

    /// A read needs no transaction; each of its statements sees what was committed when it starts.
    const READS: bool = false;

    /// A single statement is a transaction by itself.
    const ONE_STATEMENT: bool = false;

    /// Runs inside a transaction that someone else commits; may be run again after a conflict, so it keeps nothing.
    fn run<'a>(&'a self, tx: &'a Tx<'a>) -> impl Future<Output = Result<Self::Answer, Trouble>> + Send + 'a;
}

/// A verb of which all that wait are run together.
pub(crate) trait Merge: Send + Sync + Sized + 'static {
    /// What the caller wants to know.
    type Answer: Send + 'static;

    /// Most requests in one transaction; the others wait for the next.
    const GROUP_REQUESTS_MAX: usize = 1024;

    /// How many jobs it is about.
    fn jobs(&self) -> usize;

    /// About how many bytes it brings.
    fn bytes(&self) -> usize {
        0
    }

    /// Whether these need one statement only, which then is a transaction of its own.
    fn is_one_statement(_group: &[Self]) -> bool {
        false
    }

    /// As [`Verb::run`], for all of these; answers one for each, in order.
    fn run<'a>(
        group: &'a [Self],
        tx: &'a Tx<'a>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Trouble>> + Send + 'a;
}

type Reply<A> = oneshot::Sender<Result<A, StoreError>>;

/// The way to a lane for any verb.
#[derive(Clone)]
pub(crate) struct Lane {
    inbox: mpsc::Sender<Request>,
}

impl Lane {
    /// Starts the task, which ends when every way to it is gone and everything sent is answered.
    pub(crate) fn start(mut link: Link) -> (Self, JoinHandle<()>) {
        let (inbox, mut requests) = mpsc::channel::<Request>(INBOX_REQUESTS_MAX);
        let task = tokio::spawn(async move {
            while let Some(mut request) = link.next(&mut requests).await {
                let done = link.run(&mut request).await;
                request.0.answer(done.map_err(|trouble| link.explain(&trouble)));
            }
        });
        (Lane { inbox }, task)
    }

    /// Runs a verb and answers when it is committed.
    pub(crate) async fn run<V: Verb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request(Box::new(Pending { verb, answer: None, reply }));
        self.inbox.send(request).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// A verb with someone waiting for it.
struct Request(Box<dyn AnyRequest>);

trait AnyRequest: Send {
    fn is_separate(&self) -> bool;
    fn run<'a>(&'a mut self, tx: &'a Tx<'a>) -> BoxFuture<'a, Result<(), Trouble>>;
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

struct Pending<V: Verb> {
    verb: V,
    answer: Option<V::Answer>,
    reply: Reply<V::Answer>,
}

impl<V: Verb> AnyRequest for Pending<V> {
    fn is_separate(&self) -> bool {
        V::READS || V::ONE_STATEMENT
    }

    fn run<'a>(&'a mut self, tx: &'a Tx<'a>) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move {
            self.answer = Some(self.verb.run(tx).await?);
            Ok(())
        })
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Pending { answer, reply, .. } = *self;
        // A caller that went away does not want its answer; what it asked for is done all the same.
        let _ = reply.send(committed.map(|()| answer.expect("a committed verb was run")));
    }
}

impl Work for Request {
    type Answer = ();

    fn is_separate(&self) -> bool {
        self.0.is_separate()
    }

    async fn run<'a>(&'a mut self, tx: &'a Tx<'a>) -> Result<(), Trouble> {
        self.0.run(tx).await
    }
}

impl Refuse for Request {
    fn refuse(self, error: StoreError) {
        self.0.answer(Err(error));
    }
}

/// The way to a lane for one hot verb.
pub(crate) struct MergingLane<M: Merge> {
    inbox: mpsc::Sender<Waiting<M>>,
    /// How many kilobytes may still come in.
    room: Arc<Semaphore>,
}

struct Waiting<M: Merge> {
    request: M,
    caller: Caller<M::Answer>,
}

/// Who waits, with the room that the request takes until it is answered.
struct Caller<A> {
    reply: Reply<A>,
    _room: OwnedSemaphorePermit,
}

impl<A> Caller<A> {
    fn answer(self, answer: Result<A, StoreError>) {
        // A caller that went away does not want its answer; what it asked for is done all the same.
        let _ = self.reply.send(answer);
    }
}

impl<M: Merge> Refuse for Waiting<M> {
    fn refuse(self, error: StoreError) {
        self.caller.answer(Err(error));
    }
}

impl<M: Merge> MergingLane<M> {
    /// Starts the task, which ends when every way to it is gone and everything sent is answered.
    pub(crate) fn start(mut link: Link) -> (Self, JoinHandle<()>) {
        let (inbox, mut requests) = mpsc::channel::<Waiting<M>>(INBOX_REQUESTS_MAX);
        let task = tokio::spawn(async move {
            let (mut group, mut callers) = (Vec::new(), Vec::new());
            while let Some(first) = link.next(&mut requests).await {
                let (mut jobs, mut bytes) = (first.request.jobs(), first.request.bytes());
                group.push(first.request);
                callers.push(first.caller);
                while group.len() < M::GROUP_REQUESTS_MAX
                    && jobs < GROUP_JOBS_MAX
                    && bytes < GROUP_BYTES_MAX
                    && let Ok(next) = requests.try_recv()
                {
                    jobs += next.request.jobs();
                    bytes += next.request.bytes();
                    group.push(next.request);
                    callers.push(next.caller);
                }
                serve(&mut link, &group, callers.drain(..)).await;
                group.clear();
            }
        });
        (MergingLane { inbox, room: Arc::new(Semaphore::new(INBOX_KILOBYTES_MAX as usize)) }, task)
    }

    /// Runs a request and answers when it is committed.
    pub(crate) async fn run(&self, request: M) -> Result<M::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let kilobytes = u32::try_from(request.bytes() >> 10).unwrap_or(u32::MAX).min(INBOX_KILOBYTES_MAX);
        let room = self.room.clone().acquire_many_owned(kilobytes).await.map_err(|_| stopped())?;
        let caller = Caller { reply, _room: room };
        self.inbox.send(Waiting { request, caller }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// Runs the group and answers all of it. A group that fails because of one of its members is run one by one: that one is
/// refused, and the others do not wait for whoever it waits for.
async fn serve<M: Merge>(link: &mut Link, group: &[M], mut callers: impl Iterator<Item = Caller<M::Answer>>) {
    let trouble = match link.run(&mut Group { members: group, is_split: false }).await {
        Ok(answers) => return callers.zip(answers).for_each(|(caller, answer)| caller.answer(Ok(answer))),
        Err(trouble) => trouble,
    };
    let error = link.explain(&trouble);
    if group.len() > 1 && !trouble.is_outage() {
        tracing::warn!("a group of requests failed; running them one by one");
        let until = Instant::now() + ONE_BY_ONE_FOR;
        for request in group {
            if Instant::now() > until {
                break;
            }
            let one = &mut Group { members: std::slice::from_ref(request), is_split: true };
            let done = link.run(one).await.map_err(|trouble| link.explain(&trouble));
            let caller = callers.next().expect("each request has its caller");
            caller.answer(done.map(|mut answers| answers.pop().expect("a request has an answer")));
        }
    }
    callers.for_each(|caller| caller.answer(Err(error.clone())));
}

struct Group<'g, M> {
    members: &'g [M],
    /// It is one of a group that failed.
    is_split: bool,
}

impl<M: Merge> Work for Group<'_, M> {
    type Answer = Vec<M::Answer>;

    fn requests(&self) -> usize {
        self.members.len()
    }

    fn is_separate(&self) -> bool {
        M::is_one_statement(self.members)
    }

    fn is_hurried(&self) -> bool {
        self.is_split
    }

    async fn run<'a>(&'a mut self, tx: &'a Tx<'a>) -> Result<Vec<M::Answer>, Trouble> {
        M::run(self.members, tx).await
    }
}
