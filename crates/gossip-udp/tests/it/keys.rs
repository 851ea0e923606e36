//! Keys are changed while the cluster runs, and nobody gets in without.

use gossip_udp::{KeyRing, Seal};

use crate::support::{Node, Plan, form, is_doubt, key, sealed};

#[tokio::test]
async fn keys_are_changed_in_three_steps_and_nobody_is_doubted() {
    let (old, new) = (key(1), key(2));
    // Each node has a ring of its own, as each process has.
    let rings: Vec<KeyRing> = (0..3).map(|_| KeyRing::new(&[key(1)]).expect("one key")).collect();
    let plan = |id: u32| Plan::new(id, Seal::Keys(rings[id as usize - 1].clone()));
    let mut nodes = vec![plan(1).start().await];
    for id in 2..=3 {
        nodes.push(plan(id).joining(nodes[0].addr).start().await);
    }
    for node in &nodes {
        node.sees_alive(3).await;
    }

    let steps = [vec![old.clone(), new.clone()], vec![new.clone(), old.clone()], vec![new.clone()]];
    for step in steps {
        for ring in &rings {
            ring.replace(&step).expect("different keys");
            // Time for words in both directions while the nodes differ.
            for node in &nodes {
                node.hears(4).await;
            }
        }
    }
    for node in &mut nodes {
        let events = node.events_so_far();
        assert!(!events.iter().any(is_doubt), "{}: {events:?}", node.me);
        assert_eq!(node.cluster.stats().dropped.total(), 0, "{}", node.me);
        node.sees_alive(3).await;
    }

    check_stranger(&mut nodes, Plan::new(9, sealed(1))).await;
    let friend = Plan::new(4, sealed(2)).joining(nodes[0].addr).start().await;
    friend.sees_alive(4).await;
}

#[tokio::test]
async fn neither_another_key_nor_another_label_gets_in() {
    let mut nodes = form(2, &sealed(1)).await;
    check_stranger(&mut nodes, Plan::new(9, sealed(2))).await;
    check_stranger(&mut nodes, Plan::new(9, Seal::Open)).await;
    check_stranger(&mut nodes, Plan { label: "other", ..Plan::new(9, sealed(1)) }).await;
    let mut open = form(2, &Seal::Open).await;
    check_stranger(&mut open, Plan::new(9, sealed(1))).await;
    check_stranger(&mut open, Plan { label: "other", ..Plan::new(9, Seal::Open) }).await;
}

/// It knocks until three streams have failed at its side, and still nobody knows anybody else.
async fn check_stranger(nodes: &mut [Node], plan: Plan) {
    let stranger = plan.joining(nodes[0].addr).start().await;
    stranger.counts("failed streams", |stats| stats.streams_failed >= 3).await;
    assert_eq!(stranger.cluster.members().len(), 1, "it is alone");
    for node in nodes {
        let view = node.cluster.view();
        assert!(view.member(stranger.me.id).is_none(), "{view:#?}");
        assert!(!node.events_so_far().iter().any(is_doubt));
    }
    stranger.crash().await;
}
