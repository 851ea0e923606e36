//! How many events a second the queue takes and gives, with many waiting: `cargo run --release -p sim --example events`.

use std::hint::black_box;
use std::time::Instant;

use sim::queue::Queue;
use sim::rng::Rng;
use sim::time::Time;

const EVENTS: u64 = 10_000_000;

fn main() {
    for waiting in [100, 10_000, 1_000_000] {
        let mut rng = Rng::stream(1, 0, "events");
        let mut queue = Queue::new();
        let ahead = |rng: &mut Rng, now: Time| Time::from_nanos(now.as_nanos() + rng.below(20_000_000_000));
        for number in 0..waiting {
            queue.push(ahead(&mut rng, Time::ZERO), [number; 4]);
        }
        let began = Instant::now();
        for _ in 0..EVENTS {
            let (now, event) = queue.pop().expect("each event pushes another one");
            queue.push(ahead(&mut rng, now), black_box(event));
        }
        let rate = EVENTS as f64 / began.elapsed().as_secs_f64();
        println!("{waiting:>9} waiting: {:.1} M events/s", rate / 1e6);
    }
}
