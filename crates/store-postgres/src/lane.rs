//! Lanes: tasks that own a connection each and run what waits in their inbox.
//!
//! A [`Lane`] runs any verb, one after another, each in a transaction of its own. A [`MergingLane`] is for one hot verb and
//! runs all requests that wait in one transaction. Once a request is in an inbox it happens, whether or not the caller
//! stays to hear of it. While the database is known to be away everything is refused at once, with the reason.

use std::future::Future;
use std::pin::Pin;

use store::StoreError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::db::Tx;
use crate::error::{Trouble, stopped};
use crate::link::{Link, Refuse, Work};

/// Requests that may wait for a lane; further callers wait for a place.
const INBOX_REQUESTS_MAX: usize = 1024;
/// A transaction takes no further request once it has this many jobs, so that no caller waits too long for its commit.
const GROUP_JOBS_MAX: usize = 4096;

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
}

struct Waiting<M: Merge> {
    request: M,
    reply: Reply<M::Answer>,
}

impl<M: Merge> Refuse for Waiting<M> {
    fn refuse(self, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}

impl<M: Merge> MergingLane<M> {
    /// Starts the task, which ends when every way to it is gone and everything sent is answered.
    pub(crate) fn start(mut link: Link) -> (Self, JoinHandle<()>) {
        let (inbox, mut requests) = mpsc::channel::<Waiting<M>>(INBOX_REQUESTS_MAX);
        let task = tokio::spawn(async move {
            let (mut group, mut replies) = (Vec::new(), Vec::new());
            while let Some(first) = link.next(&mut requests).await {
                let mut jobs = first.request.jobs();
                group.push(first.request);
                replies.push(first.reply);
                while group.len() < M::GROUP_REQUESTS_MAX
                    && jobs < GROUP_JOBS_MAX
                    && let Ok(next) = requests.try_recv()
                {
                    jobs += next.request.jobs();
                    group.push(next.request);
                    replies.push(next.reply);
                }
                serve(&mut link, &group, replies.drain(..)).await;
                group.clear();
            }
        });
        (MergingLane { inbox }, task)
    }

    /// Runs a request and answers when it is committed.
    pub(crate) async fn run(&self, request: M) -> Result<M::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Waiting { request, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// Runs the group and answers all of it. A group that fails because of one of its members is run one by one.
async fn serve<M: Merge>(link: &mut Link, group: &[M], replies: impl Iterator<Item = Reply<M::Answer>>) {
    match link.run(&mut Group(group)).await {
        Ok(answers) => {
            for (reply, answer) in replies.zip(answers) {
                let _ = reply.send(Ok(answer));
            }
        }
        Err(trouble) if group.len() > 1 && !trouble.is_outage() => {
            tracing::warn!(error = %trouble, "a group of requests failed; running them one by one");
            for (reply, request) in replies.zip(group) {
                let done = link.run(&mut Group(std::slice::from_ref(request))).await;
                let answer = done.map(|mut answers| answers.pop().expect("a request has an answer"));
                let _ = reply.send(answer.map_err(|trouble| link.explain(&trouble)));
            }
        }
        Err(trouble) => {
            let error = link.explain(&trouble);
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}

struct Group<'g, M>(&'g [M]);

impl<M: Merge> Work for Group<'_, M> {
    type Answer = Vec<M::Answer>;

    fn requests(&self) -> usize {
        self.0.len()
    }

    fn is_separate(&self) -> bool {
        M::is_one_statement(self.0)
    }

    async fn run<'a>(&'a mut self, tx: &'a Tx<'a>) -> Result<Vec<M::Answer>, Trouble> {
        M::run(self.0, tx).await
    }
}
