//! How long one update of the set takes, by the number of workers: `cargo run --release -p muster --example labels`.
//!
//! The worst ordinary case: a tenth of the workers has just been replaced, one version per change, and the others know any of
//! the versions in between, so every label has to be raised through another worker.

use model::{Generation, WorkerKey};
use muster::consensus::Terms;
use muster::{Consensus, Identity, Member, SetId, Version};

fn main() {
    println!(
        "{:>8}  {:>8}  {:>10}  {:>14}  {:>12}",
        "workers", "changes", "one pass", "per worker", "settled pass"
    );
    for workers in [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000] {
        let unsettled = fleet(workers);
        let passes: Vec<f64> = (0..15)
            .map(|_| {
                let mut consensus = unsettled.clone();
                milliseconds(|| consensus.update())
            })
            .collect();
        let pass = passes.iter().copied().fold(f64::INFINITY, f64::min);
        let mut settled = unsettled.clone();
        let members: Vec<Member> = settled.members().collect();
        let current = settled.set();
        for member in members {
            settled.echoed(member, current);
        }
        settled.update();
        let idle = milliseconds(|| settled.update());
        println!(
            "{workers:>8}  {:>8}  {pass:>7.2} ms  {:>11.0} ns  {idle:>9.4} ms",
            workers / 5,
            pass * 1e6 / f64::from(workers)
        );
    }
}

/// A fleet of which a tenth was just replaced.
fn fleet(workers: u32) -> Consensus {
    // Without a queue, so that all the changes are in the history.
    let terms = Terms { batch_after_min: u32::MAX, ..Terms::default() };
    let mut consensus = Consensus::new(Generation(1), terms);
    (0..workers).for_each(|worker| join(&mut consensus, worker));
    consensus.safe_wait_over();
    consensus.update();
    assert!(!consensus.is_waiting(), "nothing happens during the wait");
    let settled = consensus.set();
    (0..workers).for_each(|worker| _ = consensus.echoed(Member(worker), settled));
    let replaced = workers / 10;
    for worker in 0..replaced {
        consensus.lost(Member(worker));
        join(&mut consensus, workers + worker);
    }
    let members: Vec<Member> = consensus.members().collect();
    for member in members {
        let steps = u64::from(member.0.wrapping_mul(2_654_435_761) % (2 * replaced));
        let version = Version(settled.version.0 + steps);
        consensus.echoed(member, SetId { version, ..settled });
        if member.0 >= workers {
            let current = consensus.set();
            consensus.echoed(member, current);
        }
    }
    consensus
}

fn join(consensus: &mut Consensus, worker: u32) {
    let key = WorkerKey::new(&format!("worker-{worker}")).expect("it is a valid key");
    consensus.join(Member(worker), Identity::of(&key), None);
    consensus.fetched(Member(worker));
}

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, outside the core")]
fn milliseconds(work: impl FnOnce()) -> f64 {
    let begin = std::time::Instant::now();
    work();
    begin.elapsed().as_secs_f64() * 1e3
}
