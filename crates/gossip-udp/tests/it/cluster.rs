//! Drivers that form a cluster over loopback.

use std::sync::mpsc;

use bytes::Bytes;
use gossip_udp::{ClusterError, Cuts, Driver, Ending, Filter, Options, Seal, Sockets, StartError, View};
use swim::{Event, Info, META_BYTES_MAX, State};
use tokio::net::TcpStream;

use crate::support::{Node, Plan, config, form, identity, is_doubt, machine, sealed};

#[tokio::test]
async fn two_nodes_find_each_other_and_one_sees_the_other_die() {
    let mut nodes = form(2, &sealed(1)).await;
    let second = nodes.pop().expect("two");
    let first = &mut nodes[0];
    let dead = second.me;
    second.crash().await;
    first.sees_state(dead, State::Dead).await;
    let events = first.events_so_far();
    assert_eq!(events.first(), Some(&Event::Joined(dead)));
    assert!(events.iter().any(|event| matches!(event, Event::Dead(who, ..) if *who == dead)), "{events:?}");
}

#[tokio::test]
async fn five_nodes_see_a_death_a_return_and_a_departure() {
    let mut nodes = form(5, &sealed(1)).await;
    let crashed = nodes.pop().expect("five");
    let dead = crashed.me;
    crashed.crash().await;
    for node in &nodes {
        node.sees_state(dead, State::Dead).await;
        assert_eq!(node.cluster.view().counts.alive, 4, "only the one that died");
    }

    let mut plan = Plan::new(5, sealed(1)).joining(nodes[2].addr);
    plan.me = identity(5, 2);
    let returned = plan.start().await;
    for node in nodes.iter().chain([&returned]) {
        node.sees_alive(5).await;
    }

    let leaver = nodes.remove(0);
    leaver.cluster.leave().await;
    for node in nodes.iter().chain([&returned]) {
        node.sees_state(leaver.me, State::Left).await;
    }
    assert_eq!(leaver.cluster.expel(identity(2, 1)).await, Err(ClusterError::Ended));
    assert_eq!(leaver.ended().await.0, Ending::Left);
}

#[tokio::test]
async fn what_a_node_tells_of_itself_reaches_the_others() {
    let nodes = form(3, &Seal::Open).await;
    let news = Bytes::from_static(b"version 2");
    nodes[0].cluster.set_meta(news.clone()).await.expect("short enough");
    for node in &nodes {
        let knows = |view: &View| view.members[0].info.meta == news;
        node.sees("the news", knows).await;
    }
    let long = nodes[0].cluster.set_meta(Bytes::from(vec![0; META_BYTES_MAX + 1])).await;
    assert_eq!(long, Err(ClusterError::MetaTooLong(META_BYTES_MAX + 1)));
}

#[tokio::test]
async fn an_expelled_node_ends_and_returns_on_the_same_sockets() {
    let mut nodes = form(3, &sealed(1)).await;
    let expelled = nodes.pop().expect("three");
    let gone = expelled.me;
    let mut events = expelled.cluster.events();
    nodes[0].cluster.expel(gone).await.expect("running");
    let (ending, sockets) = expelled.ended().await;
    assert!(matches!(ending, Ending::Expelled(_)), "{ending:?}");
    let mut told = Vec::new();
    while let Ok(event) = events.recv().await {
        told.push(event);
    }
    assert_eq!(told.last(), Some(&Event::Expelled), "and then the channel is closed");

    let mut plan = Plan::new(3, sealed(1)).joining(nodes[0].addr);
    plan.me = identity(3, 2);
    let returned = plan.start_on(sockets);
    for node in nodes.iter().chain([&returned]) {
        node.sees_alive(3).await;
    }
}

#[tokio::test]
async fn an_event_is_told_after_the_view_that_shows_it() {
    let mut first = Plan::new(1, sealed(1)).start().await;
    let _second = Plan::new(2, sealed(1)).joining(first.addr).start().await;
    let event = first.events.recv().await.expect("running");
    assert_eq!(event, Event::Joined(identity(2, 1)));
    assert!(first.cluster.view().member(identity(2, 1).id).is_some());
}

#[tokio::test]
async fn the_cluster_is_found_by_name() {
    let first = Plan::new(1, sealed(1)).start().await;
    let mut plan = Plan::new(2, sealed(1));
    plan.seeds = vec!["no-such-host.invalid:1".to_owned(), format!("localhost:{}", first.addr.port())];
    let second = plan.start().await;
    second.sees_alive(2).await;
    let third = Plan::new(3, sealed(1)).start().await;
    third.cluster.set_seeds(vec![first.addr.to_string()]).await.expect("running");
    third.sees_alive(3).await;
}

#[tokio::test]
async fn whoever_was_stopped_doubts_himself_and_nobody_else() {
    let mut nodes = form(2, &sealed(1)).await;
    for node in &nodes {
        node.hears(4).await;
    }
    // Nothing runs in this thread meanwhile, as if the process had been stopped.
    let (_nobody, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(config().period * 5).is_err());
    for node in &mut nodes {
        node.counts("the lag", |stats| stats.lags > 0).await;
        node.hears(4).await;
        let events = node.events_so_far();
        assert!(!events.iter().any(is_doubt), "{}: {events:?}", node.me);
    }
}

#[tokio::test]
async fn a_driver_ends_with_its_last_handle() {
    let node = Plan::new(1, sealed(1)).start().await;
    let Node { cluster, running, .. } = node;
    let another = cluster.clone();
    drop(cluster);
    another.stop().await;
    let (ending, _) = running.await.expect("does not panic");
    assert_eq!(ending, Ending::Stopped);

    let Node { cluster, running, .. } = Plan::new(1, sealed(1)).start().await;
    drop(cluster);
    assert_eq!(running.await.expect("does not panic").0, Ending::Stopped);
}

#[tokio::test]
async fn a_cut_link_is_seen_and_healed() {
    let mut nodes = form(2, &sealed(1)).await;
    let there = nodes[1].addr;
    nodes[0].filter.set(Cuts { from: [there].into(), to: [there].into() });
    nodes[0].sees_state(nodes[1].me, State::Dead).await;
    nodes[1].sees_state(nodes[0].me, State::Dead).await;
    nodes[0].counts("filtered datagrams", |stats| stats.dropped.filtered > 0).await;
    nodes[0].filter.set(Cuts::default());
    nodes[0].sees_state(nodes[1].me, State::Alive).await;
    nodes[1].sees_state(nodes[0].me, State::Alive).await;
    assert!(nodes[0].events_so_far().iter().any(is_doubt));
}

#[tokio::test]
async fn strangers_who_only_connect_do_not_keep_others_out() {
    let first = Plan::new(1, sealed(1)).start().await;
    // More than are let in at once; each is silent.
    let mut strangers = Vec::new();
    for _ in 0..200 {
        strangers.push(TcpStream::connect(first.addr).await.expect("listening"));
    }
    first.counts("those turned away", |stats| stats.streams_failed >= 72).await;
    let second = Plan::new(2, sealed(1)).joining(first.addr).start().await;
    second.sees_alive(2).await;
    first.counts("the silent ones hung up on", |stats| stats.streams_failed >= 200).await;
    assert_eq!(first.cluster.stats().streams_refused, 0, "the oldest made room");
}

#[tokio::test]
async fn nothing_open_listens_where_others_can_reach_it() {
    let start = async |insecure| {
        let sockets = Sockets::bind("0.0.0.0:0".parse().expect("an address")).await.expect("a free port");
        let info = Info { addr: sockets.local_addr().expect("bound"), meta: Bytes::new() };
        let machine = machine(identity(1, 1), info);
        let options = Options {
            label: "test".to_owned(),
            seal: Seal::Open,
            insecure,
            seeds: Vec::new(),
            filter: Filter::default(),
        };
        Driver::new(sockets, machine, &config(), options).map(|_| ())
    };
    assert!(matches!(start(false).await, Err(StartError::Insecure(_))));
    assert!(start(true).await.is_ok());
}
