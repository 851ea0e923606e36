//! Lists of large jobs: neither the server nor the command keeps more of one in memory than a few pages.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rpc::wire;
use rustix::process::Pid;

use crate::support::{Fleet, tenure};

const JOBS: usize = 80;
const PAYLOAD: usize = 1_000_000;
/// What a list may add, in KiB: five pages of 4 MiB, a quarter of all that is listed.
const GROWTH_MAX: u64 = 20 << 10;

/// A figure of a process's memory, in KiB.
fn memory(process: Pid, figure: &str) -> u64 {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path).expect("it runs");
    let line = status.lines().find(|line| line.starts_with(figure)).expect("the kernel says so");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_all_jobs_takes_a_few_pages_of_memory_however_many_there_are() {
    let fleet = Fleet::start(&[]).await;
    let payload = rpc::convert::payload(&format!("\"{}\"", "x".repeat(PAYLOAD - 2)));
    let job = wire::NewJob { queue: "q".to_owned(), payload, ..Default::default() };
    for _ in 0..JOBS / 8 {
        let request = wire::EnqueueRequest { jobs: vec![job.clone(); 8], ..Default::default() };
        fleet.client.enqueue(request).await.expect("the enqueue is accepted");
    }
    let server = fleet.server.process.pid().expect("it runs");
    // The highest from now on.
    fs::write(format!("/proc/{}/clear_refs", server.as_raw_nonzero()), "5").expect("it is ours");
    let before = memory(server, "VmRSS:");

    let few = peak(&fleet.server.url, &["--limit", "2"], 2);
    let all = peak(&fleet.server.url, &["--all"], JOBS);
    let grown = memory(server, "VmHWM:").saturating_sub(before);
    println!("the server grew by {grown} KiB; the command needed {few} KiB for two jobs, {all} KiB for all");
    assert!(grown < GROWTH_MAX, "the server needed {grown} KiB more");
    assert!(all - few < GROWTH_MAX, "the command needed {few} KiB for two jobs, and {all} KiB for all");
}

/// The most memory that the command had when it had written all but the last of so many jobs.
fn peak(server: &str, more: &[&str], jobs: usize) -> u64 {
    let mut command = Command::new(tenure());
    command.args(["jobs", "list", "--json", "--server", server]).args(more);
    let mut list = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(list.stdout.take().expect("it is piped"));
    let (mut line, mut peak) = (Vec::new(), 0);
    for number in 1..=jobs {
        // The last line is larger than a pipe, so until it is read the command is still there.
        if number == jobs {
            peak = memory(Pid::from_child(&list), "VmHWM:");
        }
        line.clear();
        lines.read_until(b'\n', &mut line).expect("its output");
        assert!(line.len() > PAYLOAD, "the whole job");
    }
    assert!(list.wait().expect("it ends").success());
    peak
}
