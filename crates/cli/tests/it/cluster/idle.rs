//! What a cluster costs that has nothing to do.

use std::time::{Duration, Instant};

use super::Cluster;

/// What the kernel counts in, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// How long it is measured; `TENURE_SOAK_SECONDS` asks for the long form, which also judges.
fn soak() -> Option<u64> {
    std::env::var("TENURE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok())
}

/// Clock ticks that a process has used, as the kernel counts them.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is running");
    // The name may have spaces; what follows it has not.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    [11, 12].iter().map(|index| fields[*index].parse::<u64>().expect("a number")).sum()
}

async fn bytes_sent(cluster: &Cluster) -> f64 {
    let mut bytes = 0.0;
    for id in cluster.ids() {
        bytes += cluster.metric(id, "tenure_gossip_bytes_total", "direction=\"out\"").await;
    }
    bytes
}

#[tokio::test]
async fn an_idle_cluster_costs_next_to_nothing() {
    let mut cluster = Cluster::plain(5, &["--gossip-profile", "lan"]).await;
    let span = Duration::from_secs(if soak().is_some() { 10 } else { 2 });
    let pids: Vec<i32> = cluster
        .ids()
        .iter()
        .map(|id| cluster.nodes[id].server.process.pid().expect("it is running").as_raw_nonzero().get())
        .collect();
    let bytes_before = bytes_sent(&cluster).await;
    let (began, before): (Instant, Vec<u64>) = (Instant::now(), pids.iter().map(|pid| ticks(*pid)).collect());
    // The length of the measurement.
    tokio::time::sleep(span).await;
    let took = began.elapsed().as_secs_f64();
    let mut worst: f64 = 0.0;
    for (pid, before) in pids.iter().zip(before) {
        worst = worst.max((ticks(*pid) - before) as f64 / TICKS_PER_SECOND / took);
    }
    let bytes = bytes_sent(&cluster).await - bytes_before;
    println!(
        "five idle nodes: at most {:.2} % of a core and on average {:.0} bytes/s sent each",
        worst * 100.0,
        bytes / took / 5.0
    );
    assert!(cluster.node(1).eye.view.are_alive(&[1, 2, 3, 4, 5]));
    if soak().is_some() {
        assert!(worst < 0.01, "an idle node takes {:.2} % of a core", worst * 100.0);
    }
}
