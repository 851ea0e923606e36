//! What runs beside the loop, each in a task of its own: exchanges over streams, and looking up names. Counted and bounded; all
//! of it ends with the driver.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use swim::{Request, Response, Ticket};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};
use tokio::time::{sleep, timeout};

use crate::seal::Sealer;
use crate::stats::Stats;
use crate::streams::{self, Asked};

/// Most streams that we have open to others; a further request fails at once.
const STREAMS_OUT_MAX: usize = 128;
/// Most streams that others have open to us; a further one is closed at once.
const STREAMS_IN_MAX: usize = 256;
/// Most of these from one address, so that one stranger cannot take them all.
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
    streams_in: HashMap<IpAddr, usize>,
    next_ticket: u64,
    asked: mpsc::Sender<Asked>,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    Ask(Ticket),
    Answer(Ticket, IpAddr),
    Resolve,
}

#[derive(Debug)]
enum Outcome {
    Response(Option<Response>),
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
            streams_in: HashMap::new(),
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
            asked.inspect_err(|error| tracing::debug!(%addr, %error, "stream failed")).ok()
        })
    }

    /// As [`ask`](Self::ask) over a dead link: nothing comes back, not even a refusal.
    pub(crate) fn ask_nobody(&mut self, ticket: Ticket) -> bool {
        let time = self.stream_timeout;
        self.spawn_ask(ticket, async move {
            sleep(time).await;
            None
        })
    }

    /// Answers on a stream that somebody opened, unless there are too many; then it is closed.
    pub(crate) fn accept(&mut self, stream: TcpStream, addr: SocketAddr) -> bool {
        let from_there = self.streams_in.get(&addr.ip()).copied().unwrap_or(0);
        let all = self.streams_in.values().sum::<usize>();
        if from_there >= STREAMS_IN_PER_IP_MAX || all >= STREAMS_IN_MAX {
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
        self.purposes.insert(task.id(), Purpose::Answer(ticket, addr.ip()));
        *self.streams_in.entry(addr.ip()).or_default() += 1;
        true
    }

    /// Keeps a stream open until its request is answered or its time is over.
    pub(crate) fn keep(&mut self, ticket: Ticket, reply: oneshot::Sender<Response>) {
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
                    Some(Outcome::Response(response)) => response,
                    _ => None,
                };
                stats.streams_failed += u64::from(response.is_none());
                Returned::Response(ticket, response)
            }
            (Some(Purpose::Answer(ticket, ip)), outcome) => {
                self.waiting.remove(&ticket);
                self.closed(ip);
                stats.streams_failed += u64::from(!matches!(outcome, Some(Outcome::Answered(true))));
                Returned::Answered
            }
            (_, Some(Outcome::Resolved(addrs))) => Returned::Resolved(addrs),
            (_, _) => Returned::Resolved(Vec::new()),
        }
    }

    fn spawn_ask(
        &mut self,
        ticket: Ticket,
        asking: impl Future<Output = Option<Response>> + Send + 'static,
    ) -> bool {
        if self.streams_out >= STREAMS_OUT_MAX {
            return false;
        }
        let task = self.running.spawn(async move { Outcome::Response(asking.await) });
        self.purposes.insert(task.id(), Purpose::Ask(ticket));
        self.streams_out += 1;
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
