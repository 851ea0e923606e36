//! Drives beanstalkd as `tenure bench` drives Tenure: producer here, worker in a process of its own, the same phases,
//! the same figures. Commands are pipelined, so that the peer is measured and not the round trip.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Result;
use crate::figures::{Figures, LATENCY_JOBS, RATE, per_second, percentiles};
use crate::process::Process;

/// Commands sent before their answers are read.
const PIPELINE: usize = 500;

pub(crate) fn bench(address: &str, jobs: usize, payload: usize) -> Result<()> {
    let body = "x".repeat(payload);
    let began = Instant::now();
    put_all(address, jobs, &body)?;
    let enqueue = per_second(jobs, began);

    let mut worker = start("worker", address, jobs)?;
    let began = worker.go()?;
    worker.expect("done")?;
    let drain = per_second(jobs, began);

    let mut worker = start("worker", address, jobs)?;
    let began = worker.go()?;
    put_all(address, jobs, &body)?;
    worker.expect("done")?;
    let pipelined = per_second(jobs, began);

    let mut worker = start("latency-worker", address, LATENCY_JOBS)?;
    worker.go()?;
    let mut producer = Connection::open(address)?;
    let (period, start) = (Duration::from_secs(1) / RATE as u32, Instant::now());
    for number in 0..LATENCY_JOBS {
        let due = start + period * number as u32;
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        producer.put(&now_nanos().to_string())?;
        producer.flush()?;
        producer.answer("INSERTED")?;
    }
    let line = worker.line()?;
    let (p50, p99) = line.trim().split_once(' ').ok_or("the worker's figures are missing")?;
    Figures { enqueue, drain, pipelined, p50: p50.parse()?, p99: p99.parse()? }.print();
    Ok(())
}

/// This program again, as the worker.
fn start(mode: &str, address: &str, jobs: usize) -> Result<Process> {
    let program = std::env::current_exe()?;
    Process::start(&program.to_string_lossy(), [mode, address, &jobs.to_string()])
}

fn put_all(address: &str, jobs: usize, body: &str) -> Result<()> {
    let mut connection = Connection::open(address)?;
    let mut left = jobs;
    while left > 0 {
        let batch = left.min(PIPELINE);
        for _ in 0..batch {
            connection.put(body)?;
        }
        connection.flush()?;
        for _ in 0..batch {
            connection.answer("INSERTED")?;
        }
        left -= batch;
    }
    Ok(())
}

/// The worker process: says ready, waits for a line, takes and deletes all jobs, says done.
pub(crate) fn drain(address: &str, jobs: usize) -> Result<()> {
    let mut connection = Connection::open(address)?;
    wait_for_go()?;
    let mut left = jobs;
    let mut ids = Vec::with_capacity(PIPELINE);
    while left > 0 {
        let batch = left.min(PIPELINE);
        for _ in 0..batch {
            connection.send("reserve\r\n")?;
        }
        connection.flush()?;
        ids.clear();
        for _ in 0..batch {
            ids.push(connection.reserved()?.0);
        }
        for id in &ids {
            connection.send(&format!("delete {id}\r\n"))?;
        }
        connection.flush()?;
        for _ in 0..batch {
            connection.answer("DELETED")?;
        }
        left -= batch;
    }
    println!("done");
    Ok(())
}

pub(crate) fn drain_stamped(address: &str, jobs: usize) -> Result<()> {
    let mut connection = Connection::open(address)?;
    wait_for_go()?;
    let mut delays = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        connection.send("reserve\r\n")?;
        connection.flush()?;
        let (id, body) = connection.reserved()?;
        delays.push(now_nanos().saturating_sub(String::from_utf8(body)?.parse()?));
        connection.send(&format!("delete {id}\r\n"))?;
        connection.flush()?;
        connection.answer("DELETED")?;
    }
    let (p50, p99) = percentiles(&mut delays);
    println!("{p50} {p99}");
    Ok(())
}

fn wait_for_go() -> Result<()> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

struct Connection {
    reader: BufReader<TcpStream>,
    writer: BufWriter<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            reader: BufReader::with_capacity(1 << 16, stream.try_clone()?),
            writer: BufWriter::with_capacity(1 << 16, stream),
        })
    }

    fn send(&mut self, text: &str) -> Result<()> {
        Ok(self.writer.write_all(text.as_bytes())?)
    }

    fn put(&mut self, body: &str) -> Result<()> {
        self.send(&format!("put 0 0 60 {}\r\n{body}\r\n", body.len()))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    fn answer(&mut self, expected: &str) -> Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        if line.starts_with(expected) {
            Ok(line)
        } else {
            Err(format!("expected {expected}, got {line:?}").into())
        }
    }

    fn reserved(&mut self) -> Result<(u64, Vec<u8>)> {
        let line = self.answer("RESERVED")?;
        let mut words = line.split_whitespace().skip(1);
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).ok_or("bad RESERVED line");
        let (id, bytes) = (number()?, number()?);
        let mut body = vec![0; bytes as usize + 2];
        self.reader.read_exact(&mut body)?;
        body.truncate(bytes as usize);
        Ok((id, body))
    }
}

fn now_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
