//! One job in flight: enqueue it, hear of its end, and only then the next. What is measured is waiting, most of it for the disk
//! where there is one.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rpc::wire;
use worker::{Client, SubmitOptions, Submitter, Watch};

use super::{Bench, QUEUE, SystemArgs};
use crate::percentile::percentile;
use crate::wait::{ended_states, has_ended};

/// How long one store is measured before the next has its turn. So short that what else goes on on the machine, and how fast its
/// disk happens to be, is the same for all of them; so long that the first jobs of a turn, for which nothing is warm, hardly
/// count.
const TURN: Duration = Duration::from_millis(250);

pub(super) struct Single {
    pub(super) per_s: f64,
    /// In milliseconds.
    pub(super) p50: f64,
}

/// Measures all of them, in turns.
pub(super) async fn measure(benches: &[&Bench], args: &SystemArgs) -> Result<Vec<Single>> {
    let mut producers = Vec::new();
    for bench in benches {
        bench.bar.set_message("one by one");
        producers.push(Producer::new(bench).await?);
    }
    let limit = Duration::from_secs(args.single_seconds);
    let mut spent = Duration::ZERO;
    while spent < limit {
        for producer in &mut producers {
            producer.turn().await?;
        }
        spent += TURN;
    }
    let mut singles = Vec::new();
    for producer in producers {
        singles.push(producer.finish().await);
    }
    Ok(singles)
}

/// Each as its clients do it: who submits to a volatile queue keeps the job until it has ended, and the others ask the store,
/// which tells all ends on one stream that stays open.
enum Way<'a> {
    Submit(Submitter),
    Watch(&'a Client, Box<Watch>),
}

struct Producer<'a> {
    way: Way<'a>,
    times: Vec<Duration>,
}

impl<'a> Producer<'a> {
    async fn new(bench: &'a Bench) -> Result<Self> {
        let client = bench.client();
        let way = if bench.forgets {
            Way::Submit(client.submitter(SubmitOptions::default()))
        } else {
            let states = ended_states();
            let request = wire::WatchRequest { queue: QUEUE.to_owned(), states, ..Default::default() };
            Way::Watch(client, Box::new(client.watch(request).await?))
        };
        Ok(Producer { way, times: Vec::new() })
    }

    async fn turn(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < TURN {
            let sent_at = Instant::now();
            self.way.one_job().await?;
            self.times.push(sent_at.elapsed());
        }
        Ok(())
    }

    async fn finish(mut self) -> Single {
        if let Way::Submit(submitter) = self.way {
            submitter.close().await;
        }
        let per_s = self.times.len() as f64 / self.times.iter().sum::<Duration>().as_secs_f64();
        self.times.sort_unstable();
        let p50 = percentile(&self.times, 50).unwrap_or_default().as_secs_f64() * 1e3;
        Single { per_s: (per_s * 10.0).round() / 10.0, p50: (p50 * 1e3).round() / 1e3 }
    }
}

impl Way<'_> {
    async fn one_job(&mut self) -> Result<()> {
        let job = wire::NewJob {
            queue: QUEUE.to_owned(),
            kind: "noop".to_owned(),
            payload: Bytes::from_static(b"1"),
            ..Default::default()
        };
        match self {
            Way::Submit(submitter) => {
                let end = submitter.submit(job).await?.await?;
                ensure!(end.is_completed(), "job {} ended as {}", end.id, end.state.word());
            }
            Way::Watch(client, events) => {
                let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
                let answer = client.enqueue(request).await?;
                let id = &answer.jobs.first().context("the server took the job and did not say so")?.id;
                loop {
                    let event = events.next().await?.context("the server ended the stream of events")?;
                    if event.id == *id && has_ended(&event.state) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
