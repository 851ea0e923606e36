//! The network's promises: order, breaks, blocks, closes; and that datagrams promise nothing.

use super::*;
use crate::queue::Queue;

const A: Node = Node(0);
const B: Node = Node(1);

/// A network with its queue, and all that arrived.
struct Scene {
    net: Net<u32>,
    queue: Queue<Wake>,
    arrived: Vec<Arrival<u32>>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        Scene { net: Net::new(2, Rng::stream(seed, 0, "net")), queue: Queue::new(), arrived: Vec::new() }
    }

    fn now(&self) -> Time {
        self.queue.now()
    }

    /// Lets time pass.
    fn until(&mut self, millis: u64) {
        self.queue.push(Time::from_millis(millis), Wake::Datagram(0));
        loop {
            while let Some((at, wake)) = self.net.poll_wake() {
                self.queue.push(at, wake);
            }
            let Some((now, wake)) = self.queue.pop() else { return };
            self.arrived.extend(self.net.wake(now, wake));
            if now == Time::from_millis(millis) && wake == Wake::Datagram(0) {
                return;
            }
        }
    }

    fn numbers(&self) -> Vec<u32> {
        self.arrived
            .iter()
            .filter_map(|arrival| match arrival {
                Arrival::Message { message, .. } | Arrival::Datagram { message, .. } => Some(*message),
                _ => None,
            })
            .collect()
    }

    fn told_of_break(&self, node: Node) -> usize {
        self.arrived.iter().filter(|it| matches!(it, Arrival::Broken { to, .. } if *to == node)).count()
    }
}

fn spiky() -> Delays {
    Delays { spikes: 0.5, spike_max: Duration::from_secs(2), ..Delays::CALM }
}

#[test]
fn a_connection_keeps_order_whatever_the_delays() {
    let mut scene = Scene::new(1);
    scene.net.set_delays(A, B, spiky());
    let connection = scene.net.open(scene.now(), A, B);
    for number in 0..100 {
        scene.net.send(scene.now(), connection, Side::Opener, number);
        scene.until(u64::from(number) * 20);
    }
    scene.until(60_000);
    assert_eq!(scene.arrived[0], Arrival::Opened { connection, to: B });
    assert_eq!(scene.numbers(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_break_loses_what_is_on_its_way_and_each_side_learns_it_once() {
    for seed in 0..20 {
        let mut scene = Scene::new(seed);
        let connection = scene.net.open(scene.now(), A, B);
        scene.until(10);
        scene.net.send(scene.now(), connection, Side::Opener, 1);
        scene.until(20);
        scene.net.send(scene.now(), connection, Side::Opener, 2);
        scene.net.send(scene.now(), connection, Side::Acceptor, 3);
        scene.net.break_connection(scene.now(), connection);
        scene.net.send(scene.now(), connection, Side::Opener, 4);
        scene.until(20 + 251);
        assert_eq!(scene.told_of_break(A), 1, "who uses it learns soon");
        scene.until(60_000);
        assert_eq!(scene.numbers(), [1]);
        assert_eq!((scene.told_of_break(A), scene.told_of_break(B)), (1, 1));
        assert_eq!(scene.net.connections_of(A).count(), 0);
    }
}

#[test]
fn a_block_is_one_way_and_holds_back_what_a_connection_sends() {
    let mut scene = Scene::new(2);
    let connection = scene.net.open(scene.now(), A, B);
    scene.until(10);
    scene.net.block(scene.now(), A, B);
    scene.net.block(scene.now(), A, B);
    for number in [1, 2] {
        scene.net.send(scene.now(), connection, Side::Opener, number);
    }
    scene.net.send(scene.now(), connection, Side::Acceptor, 7);
    scene.until(5_000);
    scene.net.unblock(scene.now(), A, B);
    scene.net.send(scene.now(), connection, Side::Opener, 3);
    scene.until(6_000);
    assert_eq!(scene.numbers(), [7], "one of two blocks is still there");
    scene.net.unblock(scene.now(), A, B);
    scene.until(6_010);
    assert_eq!(scene.numbers(), [7, 1, 2, 3]);
}

#[test]
fn a_block_that_lasts_breaks_what_waited() {
    let mut scene = Scene::new(3);
    let idle = scene.net.open(scene.now(), A, B);
    let used = scene.net.open(scene.now(), A, B);
    scene.until(10);
    scene.net.block(scene.now(), A, B);
    scene.net.send(scene.now(), used, Side::Opener, 1);
    scene.until(20_000);
    scene.net.unblock(scene.now(), A, B);
    scene.net.send(scene.now(), idle, Side::Opener, 2);
    scene.until(60_000);
    assert_eq!(scene.numbers(), [2], "the idle one did not notice");
    assert_eq!((scene.told_of_break(A), scene.told_of_break(B)), (1, 1));
}

#[test]
fn what_was_sent_before_a_close_arrives_before_it() {
    let mut scene = Scene::new(4);
    let connection = scene.net.open(scene.now(), A, B);
    scene.until(10);
    scene.net.send(scene.now(), connection, Side::Opener, 1);
    scene.net.send(scene.now(), connection, Side::Acceptor, 2);
    scene.net.close(scene.now(), connection, Side::Opener);
    scene.until(100);
    assert_eq!(scene.numbers(), [1], "who closed reads no more");
    assert_eq!((scene.told_of_break(A), scene.told_of_break(B)), (0, 1));
    assert_eq!(scene.net.connections_of(B).count(), 0);
}

#[test]
fn a_machine_that_died_says_nothing_and_a_process_that_died_is_reported() {
    let mut scene = Scene::new(5);
    let connection = scene.net.open(scene.now(), A, B);
    scene.until(10);
    scene.net.send(scene.now(), connection, Side::Opener, 1);
    scene.net.machine_died(scene.now(), A);
    scene.until(60_000);
    assert_eq!(scene.numbers(), [] as [u32; 0]);
    assert_eq!((scene.told_of_break(A), scene.told_of_break(B)), (0, 1));
    let connection = scene.net.open(scene.now(), A, B);
    scene.net.send(scene.now(), connection, Side::Opener, 2);
    scene.net.process_died(scene.now(), A);
    scene.until(60_010);
    assert_eq!(scene.numbers(), [2]);
    assert_eq!(scene.told_of_break(B), 2);
}

#[test]
fn datagrams_are_lost_doubled_and_overtaken_as_told() {
    let mut scene = Scene::new(6);
    scene.net.set_delays(A, B, spiky());
    scene.net.set_losses(A, B, Losses { lost: 0.2, doubled: 0.1 });
    for number in 0..1_000 {
        scene.net.send_datagram(scene.now(), A, B, number);
        scene.until(u64::from(number));
    }
    scene.until(10_000);
    let numbers = scene.numbers();
    assert!((800..960).contains(&numbers.len()), "{}", numbers.len());
    assert!(!numbers.is_sorted(), "some are overtaken");
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!((750..850).contains(&distinct.len()), "{}", distinct.len());
    scene.net.block(scene.now(), A, B);
    scene.net.send_datagram(scene.now(), A, B, 5_000);
    scene.net.unblock(scene.now(), A, B);
    scene.until(20_000);
    assert!(!scene.numbers().contains(&5_000), "a block loses datagrams for good");
}
