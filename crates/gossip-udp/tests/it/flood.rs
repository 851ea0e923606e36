//! Somebody without a key does his worst: nobody is doubted, nobody comes back, everything is counted.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use gossip_udp::Sockets;
use gossip_udp::codec::packet;
use gossip_udp::seal::Sealer;
use swim::State;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use crate::generate::Generator;
use crate::relay::Relay;
use crate::support::{LABEL, Node, Plan, is_doubt, sealed};

/// How much comes in a second.
const DATAGRAMS_PER_SECOND: u32 = 50_000;
const FLOOD: Duration = Duration::from_secs(2);
/// The attacker changes his port, so that not everything is dropped unread.
const PORTS: usize = 64;

/// Two nodes, the second of which is reached only through a relay that records what the first says.
async fn recorded_pair() -> (Node, Node, Relay) {
    let loopback = "127.0.0.1:0".parse().expect("an address");
    let before = Sockets::bind(loopback).await.expect("a free port");
    let home = Sockets::bind(loopback).await.expect("a free port");
    let first = Plan::new(1, sealed(1)).start().await;
    let relay = Relay::start(before, home.local_addr().expect("bound"), first.addr);
    let mut plan = Plan::new(2, sealed(1)).joining(first.addr);
    plan.advertised = Some(relay.addr);
    let second = plan.start_on(home);
    first.sees_alive(2).await;
    second.sees_alive(2).await;
    (first, second, relay)
}

#[tokio::test]
async fn words_said_again_change_nothing() {
    let (first, mut second, relay) = recorded_pair().await;
    second.hears(20).await;
    let gone = first.me;
    first.cluster.leave().await;
    second.sees_state(gone, State::Left).await;
    let before = second.cluster.stats().dropped;
    let recorded = relay.recorded();
    assert!(recorded.len() >= 5, "the relay stands between them");
    second.events_so_far();

    let elsewhere = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    for datagram in recorded.iter().take(40) {
        elsewhere.send_to(datagram, second.addr).expect("loopback");
    }
    let sent = recorded.len().min(40) as u64;
    second.counts("all of them", |stats| stats.dropped.replayed >= before.replayed + sent).await;
    assert_eq!(second.events_so_far(), [], "nothing happened");
    second.sees_state(gone, State::Left).await;
}

#[tokio::test]
async fn a_flood_of_rubbish_changes_nothing() {
    let (first, second, relay) = recorded_pair().await;
    second.hears(20).await;
    let target = &second;
    let heard = |node: &Node| {
        let stats = node.cluster.stats();
        stats.datagrams_in - stats.dropped.total()
    };
    let (before, heard_before) = (target.cluster.stats(), heard(target));

    let (done, over) = oneshot::channel();
    let (to, recorded) = (target.addr, relay.recorded());
    let attacker = thread::spawn(move || {
        let sent = attack(to, &recorded);
        // The test may have failed meanwhile.
        let _ = done.send(());
        sent
    });
    over.await.expect("the attacker ends in time");
    let sent = attacker.join().expect("does not panic");
    let heard_during = heard(target) - heard_before;
    println!("{sent} datagrams sent; {heard_during} others heard meanwhile; {:#?}", target.cluster.stats());

    let mut nodes = [first, second];
    for node in &mut nodes {
        node.sees_alive(2).await;
        let events = node.events_so_far();
        assert!(!events.iter().any(is_doubt), "{}: {events:?}", node.me);
    }
    // In each period of 0.4 s it pings and is acked, and is pinged about as often.
    assert!(heard_during >= 5, "heard only {heard_during} datagrams in {FLOOD:?}");
    let target = &nodes[1];
    target
        .counts("each kind of rubbish", |stats| {
            let (now, then) = (stats.dropped, before.dropped);
            now.wrong_version > then.wrong_version
                && now.malformed > then.malformed
                && now.wrong_key > then.wrong_key
                && now.wrong_cluster > then.wrong_cluster
                && now.forged > then.forged
                && now.replayed > then.replayed
                && now.oversized > then.oversized
                && now.rate_limited > then.rate_limited
        })
        .await;
    target.hears(4).await;
}

/// Sends rubbish of every kind for a while; returns how much.
fn attack(to: SocketAddr, recorded: &[Vec<u8>]) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let sockets: Vec<_> =
            (0..PORTS).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
        let rubbish = rubbish(recorded);
        let mut tick = interval(Duration::from_millis(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < FLOOD {
            tick.tick().await;
            for _ in 0..DATAGRAMS_PER_SECOND / 1_000 {
                let datagram = &rubbish[sent as usize % rubbish.len()];
                // A full buffer loses it, as on any network.
                let _ = sockets[sent as usize % PORTS].send_to(datagram, to);
                sent += 1;
            }
        }
        sent
    })
}

/// Noise, cut off, too long, of another key, of our key but another cluster, damaged, recorded.
fn rubbish(recorded: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut generator = Generator::new(9);
    let (stranger, neighbour) = (Sealer::new(LABEL, sealed(2)), Sealer::new("other", sealed(1)));
    let mut rubbish = Vec::new();
    for original in recorded.iter().take(20) {
        rubbish.push((0..200).map(|_| generator.next() as u8 & 0x7f).collect());
        rubbish.push(original[..10].to_vec());
        rubbish.push(vec![original[0]; 3_000]);
        for sealer in [&stranger, &neighbour] {
            let mut datagram = Vec::new();
            sealer.seal_datagram(&mut datagram, |out| packet::encode(1, &generator.packet(), out));
            rubbish.push(datagram);
        }
        let mut damaged = original.clone();
        damaged[20] ^= 1;
        rubbish.push(damaged);
        rubbish.push(original.clone());
    }
    rubbish
}
