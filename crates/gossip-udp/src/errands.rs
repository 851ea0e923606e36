//! What runs beside the loop, each in a task of its own: exchanges over streams, and looking up names. Counted and bounded; all
//! of it ends with the driver.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use swim::{Request, Response, Ticket};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{sleep, timeout};

use crate::seal::Sealer;
use crate::stats::Stats;
use crate::streams::{self, Asked};

/// Most streams that we have open to others; a further request fails at once.
const STREAMS_OUT_MAX: usize = 128;
/// Most streams that others have open to us. For a further one the oldest is closed that has not shown our key yet; if all have,
/// it is closed itself. A member shows it within a round trip, so whoever wants to keep it out has to be quicker than that.
const STREAMS_IN_MAX: usize = 256;
/// Most of these from one address, so that one stranger cannot take them all; otherwise the same.
const STREAMS_IN_PER_IP_MAX: usize = 128;
/// Most requests waiting for the loop; further streams wait in their tasks.
const ASKED_MAX: usize = 64;
/// How long a name may take to be looked up.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// An errand ended.
#[derive(Debug)]
pub(crate) enum Returned {
    /// With the answer to our request, or none.
    Response(Ticket, Option<Response>),
    /// Somebody's stream is closed.
    Answered,
    /// With the addresses that the names have now.
    Resolved(Vec<SocketAddr>),
}

#[derive(Debug)]
pub(crate) struct Errands {
    sealer: Arc<Sealer>,
    stream_timeout: Duration,
    running: JoinSet<Outcome>,
    /// What each task is for; known here, so that even a task that panics is counted and answered for.
    purposes: HashMap<Id, Purpose>,
    /// Streams whose request was received and not answered yet.
    waiting: BTreeMap<Ticket, oneshot::Sender<Response>>,
    streams_out: usize,
    /// Why the last request had no answer.
    last_failure: Option<String>,
    streams_in: HashMap<IpAddr, usize>,
    /// Those streams that have not brought a sealed request yet, the oldest first.
    strangers: VecDeque<Stranger>,
    next_ticket: u64,
    asked: mpsc::Sender<Asked>,
}

#[derive(Debug)]
struct Stranger {
    ticket: Ticket,
    ip: IpAddr,
    task: AbortHandle,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    Ask(Ticket),
    Answer(Ticket, IpAddr),
    Resolve,
}

#[derive(Debug)]
enum Outcome {
    Response(Result<Response, String>),
    Answered(bool),
    Resolved(Vec<SocketAddr>),
}

impl Errands {
    /// Also where the requests come out that others ask.
    pub(crate) fn new(sealer: Arc<Sealer>, stream_timeout: Duration) -> (Self, mpsc::Receiver<Asked>) {
        let (asked, requests) = mpsc::channel(ASKED_MAX);
        let errands = Errands {
            sealer,
            stream_timeout,
            running: JoinSet::new(),
            purposes: HashMap::new(),
            waiting: BTreeMap::new(),
            streams_out: 0,
            last_failure: None,
            streams_in: HashMap::new(),
            strangers: VecDeque::new(),
            next_ticket: 0,
            asked,
        };
        (errands, requests)
    }

    /// Opens a stream to ask; false if there are too many.
    pub(crate) fn ask(&mut self, ticket: Ticket, addr: SocketAddr, request: Request) -> bool {
        let (sealer, time) = (Arc::clone(&self.sealer), self.stream_timeout);
        self.spawn_ask(ticket, async move {
            let asked = streams::ask(&sealer, addr, request, time).await;
            asked
                .inspect_err(|error| tracing::debug!(%addr, %error, "stream failed"))
                .map_err(|error| format!("{addr}: {error}"))
        })
    }

    /// As [`ask`](Self::ask) over a dead link: nothing comes back, not even a refusal.
    pub(crate) fn ask_nobody(&mut self, ticket: Ticket) -> bool {
        let time = self.stream_timeout;
        self.spawn_ask(ticket, async move {
            sleep(time).await;
            Err("the link is cut on purpose".to_owned())
        })
    }

    /// Why the last request that had no answer had none.
    pub(crate) fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// Answers on a stream that somebody opened, unless there are too many; then it is closed.
    pub(crate) fn accept(&mut self, stream: TcpStream, addr: SocketAddr) -> bool {
        let ip = addr.ip();
        let from_there = self.streams_in.get(&ip).copied().unwrap_or(0);
        if from_there >= STREAMS_IN_PER_IP_MAX && !self.turn_away(|stranger| stranger.ip == ip) {
            return false;
        }
        if self.streams_in.values().sum::<usize>() >= STREAMS_IN_MAX && !self.turn_away(|_| true) {
            return false;
        }
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let (sealer, asked, time) = (Arc::clone(&self.sealer), self.asked.clone(), self.stream_timeout);
        let task = self.running.spawn(async move {
            let answered = streams::answer(&sealer, stream, (ticket, addr), asked, time).await;
            let answered = answered.inspect_err(|error| tracing::debug!(%addr, %error, "stream failed"));
            Outcome::Answered(answered.is_ok())
        });
        self.purposes.insert(task.id(), Purpose::Answer(ticket, ip));
        *self.streams_in.entry(ip).or_default() += 1;
        self.strangers.push_back(Stranger { ticket, ip, task });
        true
    }

    /// Keeps a stream open until its request is answered or its time is over.
    pub(crate) fn keep(&mut self, ticket: Ticket, reply: oneshot::Sender<Response>) {
        self.strangers.retain(|stranger| stranger.ticket != ticket);
        self.waiting.insert(ticket, reply);
    }

    /// Answers a request that is kept.
    pub(crate) fn respond(&mut self, ticket: Ticket, response: Response) {
        if let Some(reply) = self.waiting.remove(&ticket) {
            // The other side may have hung up; then nobody needs the answer.
            let _ = reply.send(response);
        }
    }

    /// Looks up which addresses the names have now.
    pub(crate) fn resolve(&mut self, names: Vec<String>) {
        let task = self.running.spawn(async move {
            let mut addrs = Vec::new();
            for name in names {
                match timeout(LOOKUP_TIMEOUT, lookup_host(name.as_str())).await {
                    Ok(Ok(found)) => addrs.extend(found),
                    Ok(Err(error)) => tracing::debug!(name, %error, "name not found"),
                    Err(_) => tracing::debug!(name, "name not found in time"),
                }
            }
            addrs.sort();
            addrs.dedup();
            Outcome::Resolved(addrs)
        });
        self.purposes.insert(task.id(), Purpose::Resolve);
    }

    /// Waits for an errand to end; for ever if there is none.
    pub(crate) async fn next(&mut self, stats: &mut Stats) -> Returned {
        let Some(joined) = self.running.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let (id, outcome) = match joined {
            Ok((id, outcome)) => (id, Some(outcome)),
            Err(panicked) => (panicked.id(), None),
        };
        match (self.purposes.remove(&id), outcome) {
            (Some(Purpose::Ask(ticket)), outcome) => {
                self.streams_out -= 1;
                let response = match outcome {
                    Some(Outcome::Response(Ok(response))) => Some(response),
                    Some(Outcome::Response(Err(why))) => {
                        self.last_failure = Some(why);
                        None
                    }
                    _ => None,
                };
                stats.streams_failed += u64::from(response.is_none());
                Returned::Response(ticket, response)
            }
            (Some(Purpose::Answer(ticket, ip)), outcome) => {
                self.strangers.retain(|stranger| stranger.ticket != ticket);
                self.waiting.remove(&ticket);
                self.closed(ip);
                stats.streams_failed += u64::from(!matches!(outcome, Some(Outcome::Answered(true))));
                Returned::Answered
            }
            (Some(Purpose::Resolve), Some(Outcome::Resolved(addrs))) => Returned::Resolved(addrs),
            (Some(Purpose::Resolve), _) => Returned::Resolved(Vec::new()),
            // Turned away, and its place taken.
            (None, _) => {
                stats.streams_failed += 1;
                Returned::Answered
            }
        }
    }

    fn spawn_ask(
        &mut self,
        ticket: Ticket,
        asking: impl Future<Output = Result<Response, String>> + Send + 'static,
    ) -> bool {
        if self.streams_out >= STREAMS_OUT_MAX {
            return false;
        }
        let task = self.running.spawn(async move { Outcome::Response(asking.await) });
        self.purposes.insert(task.id(), Purpose::Ask(ticket));
        self.streams_out += 1;
        true
    }

    /// Closes the oldest such stream that has not shown our key; false if there is none.
    fn turn_away(&mut self, is_such: impl Fn(&Stranger) -> bool) -> bool {
        let oldest = self.strangers.iter().position(is_such);
        let Some(stranger) = oldest.and_then(|place| self.strangers.remove(place)) else { return false };
        stranger.task.abort();
        self.purposes.remove(&stranger.task.id());
        self.closed(stranger.ip);
        true
    }

    fn closed(&mut self, ip: IpAddr) {
        if let Some(open) = self.streams_in.get_mut(&ip) {
            *open -= 1;
            if *open == 0 {
                self.streams_in.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use swim::{Epoch, Identity, NodeId};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::seal::{Key, KeyRing, Seal};

    const ME: Identity = Identity { id: NodeId(1), epoch: Epoch(1) };
    const PATIENCE: Duration = Duration::from_secs(60);

    fn sealer() -> Arc<Sealer> {
        let ring = KeyRing::new(&[Key::from_bytes([1; 32])]).expect("one key");
        Arc::new(Sealer::new("a", Seal::Keys(ring)))
    }

    /// Streams to `errands`, as many as one address may have, each of them taken.
    async fn fill(errands: &mut Errands, listener: &TcpListener) -> Vec<TcpStream> {
        let mut streams = Vec::new();
        for _ in 0..STREAMS_IN_PER_IP_MAX {
            let (opened, accepted) =
                tokio::join!(TcpStream::connect(listener.local_addr().expect("bound")), listener.accept());
            let (stream, addr) = accepted.expect("loopback");
            assert!(errands.accept(stream, addr));
            streams.push(opened.expect("loopback"));
        }
        streams
    }

    #[tokio::test]
    async fn strangers_who_say_nothing_keep_no_member_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (mut errands, mut asked) = Errands::new(sealer(), PATIENCE);
        let mut silent = fill(&mut errands, &listener).await;

        let (there, sealer) = (listener.local_addr().expect("bound"), sealer());
        let member = tokio::spawn(async move {
            streams::ask(&sealer, there, Request::Ping { from: ME, to: ME }, PATIENCE).await
        });
        let (stream, addr) = listener.accept().await.expect("loopback");
        assert!(errands.accept(stream, addr), "the oldest makes room");
        let Asked { ticket, reply, .. } = asked.recv().await.expect("it has the key");
        errands.keep(ticket, reply);
        errands.respond(ticket, Response::Done);
        assert_eq!(member.await.expect("no panic").expect("an answer"), Response::Done);

        // Two have ended: the one that was turned away, and the member's.
        let mut stats = Stats::default();
        for _ in 0..2 {
            errands.next(&mut stats).await;
        }
        assert_eq!(stats.streams_failed, 1);
        let mut heard = Vec::new();
        let closed = timeout(PATIENCE, silent[0].read_to_end(&mut heard)).await;
        assert!(closed.is_ok(), "the oldest is closed");
        assert_eq!(errands.streams_in.values().sum::<usize>(), STREAMS_IN_PER_IP_MAX - 1);
        assert_eq!(errands.strangers.len(), STREAMS_IN_PER_IP_MAX - 1);
    }

    #[tokio::test]
    async fn who_has_shown_the_key_is_not_turned_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (mut errands, _asked) = Errands::new(sealer(), PATIENCE);
        let _streams = fill(&mut errands, &listener).await;
        let tickets: Vec<Ticket> = errands.strangers.iter().map(|stranger| stranger.ticket).collect();
        for ticket in tickets {
            errands.keep(ticket, oneshot::channel().0);
        }
        let (_opened, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().expect("bound")), listener.accept());
        let (stream, addr) = accepted.expect("loopback");
        assert!(!errands.accept(stream, addr), "there are too many");
    }
}
