//! Drives beanstalkd as `tenure bench` drives Tenure: producer here, worker in a process of its own, the same phases,
//! the same figures. Commands are pipelined, so that the peer is measured and not the round trip.
//!
//! `peers beanstalkd ADDRESS JOBS PAYLOAD` prints one JSON object; `peers worker ADDRESS JOBS` is its other half.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Commands sent before their answers are read.
const PIPELINE: usize = 500;
const RATE: u64 = 200;
const LATENCY_JOBS: usize = 2_000;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["beanstalkd", address, jobs, payload] => bench(address, jobs.parse()?, payload.parse()?),
        ["worker", address, jobs] => drain(address, jobs.parse()?),
        ["latency-worker", address, jobs] => drain_stamped(address, jobs.parse()?),
        _ => Err("usage: peers beanstalkd ADDRESS JOBS PAYLOAD".into()),
    }
}

fn bench(address: &str, jobs: usize, payload: usize) -> Result<()> {
    let body = "x".repeat(payload);
    let began = Instant::now();
    put_all(address, jobs, &body)?;
    let enqueue = per_second(jobs, began);

    let mut worker = Worker::start("worker", address, jobs)?;
    let began = worker.go()?;
    worker.line()?;
    let drained = per_second(jobs, began);

    let mut worker = Worker::start("worker", address, jobs)?;
    let began = worker.go()?;
    put_all(address, jobs, &body)?;
    worker.line()?;
    let pipelined = per_second(jobs, began);

    let mut worker = Worker::start("latency-worker", address, LATENCY_JOBS)?;
    worker.go()?;
    let mut producer = Connection::open(address)?;
    let (period, start) = (Duration::from_micros(1_000_000 / RATE), Instant::now());
    for number in 0..LATENCY_JOBS {
        let due = start + period * number as u32;
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        producer.put(&now_nanos().to_string())?;
        producer.flush()?;
        producer.answer("INSERTED")?;
    }
    let line = worker.line()?;
    let (p50, p99) = line.trim().split_once(' ').ok_or("the worker's figures are missing")?;
    println!(
        "{{\"enqueue_per_s\":{enqueue},\"drain_per_s\":{drained},\"pipelined_per_s\":{pipelined},\"start_ms_p50\":{p50},\"start_ms_p99\":{p99}}}"
    );
    Ok(())
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
fn drain(address: &str, jobs: usize) -> Result<()> {
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

fn drain_stamped(address: &str, jobs: usize) -> Result<()> {
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
    delays.sort_unstable();
    let millis = |percent: usize| (delays[(delays.len() * percent).div_ceil(100) - 1] / 10_000) as f64 / 100.0;
    println!("{} {}", millis(50), millis(99));
    Ok(())
}

fn wait_for_go() -> Result<()> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

struct Worker {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(mode: &str, address: &str, jobs: usize) -> Result<Worker> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([mode, address, &jobs.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut worker = Worker { child, lines };
        worker.line()?;
        Ok(worker)
    }

    fn go(&mut self) -> Result<Instant> {
        self.child.stdin.take().ok_or("already going")?.write_all(b"go\n")?;
        Ok(Instant::now())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err("the worker process ended early".into()),
            _ => Ok(line),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Connection {
    reader: BufReader<TcpStream>,
    writer: BufWriter<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection { reader: BufReader::with_capacity(1 << 16, stream.try_clone()?), writer: BufWriter::with_capacity(1 << 16, stream) })
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
        if line.starts_with(expected) { Ok(line) } else { Err(format!("expected {expected}, got {line:?}").into()) }
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

fn per_second(jobs: usize, began: Instant) -> u64 {
    (jobs as f64 / began.elapsed().as_secs_f64()) as u64
}

fn now_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
