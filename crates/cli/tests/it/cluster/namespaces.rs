//! Each node on a machine of its own, as far as the network goes: five network namespaces, joined by a bridge.
//!
//! ```text
//!   node 1 … node 5      eth0 ── port1 … port5 ── bridge `net`     what nodes say to each other; it is cut
//!                        eth1 ── desk1 … desk5 ── bridge `desk`    their APIs, at which the test looks; it never is
//! ```
//!
//! The test starts itself again in namespaces in which it may do all that; links, bridges and processes end with it, however it
//! ends. Where namespaces are not allowed it says so and checks nothing.

use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::{Cluster, Node, write_private};

const NAME: &str = "cluster::namespaces::nodes_on_machines_of_their_own_notice_what_fails";
/// Set where the test is inside.
const INSIDE: &str = "TENURE_TEST_INSIDE";

const ALL: [u32; 5] = [1, 2, 3, 4, 5];

#[test]
fn nodes_on_machines_of_their_own_notice_what_fails() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        return runtime.block_on(inside());
    }
    match enter() {
        Ok(mut enter) => {
            let this = std::env::current_exe().expect("a test has a file");
            let ended = enter.arg(this).args(["--exact", NAME, "--nocapture"]).env(INSIDE, "1").output();
            let ended = ended.expect("it started before");
            let (out, error) =
                (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
            assert!(ended.status.success(), "{out}{error}");
            assert!(out.contains("1 passed"), "nothing was tested: {out}");
            print!("{out}");
        }
        Err(why) => println!("network namespaces are not allowed here, so nothing was checked: {why}"),
    }
}

/// A command that runs another in namespaces of its own, in which links can be made and cut; or why there is none.
fn enter() -> Result<Command, String> {
    const LINKS: &str = "ip link add net type bridge && ip link add port1 type veth peer name far && \
                         tc qdisc add dev port1 root blackhole";
    let mut why = String::new();
    // Who is not allowed to is in a user namespace of its own, where that is allowed.
    for more in [&[][..], &["--user", "--map-root-user"]] {
        let command = || {
            let mut command = Command::new("unshare");
            // Whoever is inside ends with the first of them.
            command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]).args(more);
            command
        };
        match command().args(["sh", "-c", LINKS]).output() {
            Ok(tried) if tried.status.success() => return Ok(command()),
            Ok(tried) => why = String::from_utf8_lossy(&tried.stderr).trim().replace('\n', "; "),
            Err(error) => why = format!("unshare: {error}"),
        }
    }
    Err(why)
}

/// Runs a line of shell that must succeed.
fn run(line: &str) {
    let ended = Command::new("sh").args(["-c", line]).output().expect("there is a shell");
    assert!(ended.status.success(), "{line}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// The machine of a node: whoever keeps its namespace in being, so that links outlive the node.
struct Machine {
    id: u32,
    keeper: Child,
}

impl Machine {
    async fn new(id: u32) -> Machine {
        let mut keeper = tokio::process::Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("unshare is there");
        let mut lines = BufReader::new(keeper.stdout.as_mut().expect("piped")).lines();
        let said = lines.next_line().await.expect("readable");
        assert_eq!(said.as_deref(), Some("ready"));
        let machine = Machine { id, keeper };
        let pid = machine.pid();
        for (bridge, port, name, net) in [("net", "port", "eth0", 77), ("desk", "desk", "eth1", 78)] {
            run(&format!("ip link add {port}{id} type veth peer name {name} netns {pid}"));
            run(&format!("ip link set {port}{id} master {bridge} up"));
            machine.run(&format!("ip address add 10.{net}.0.{id}/24 dev {name}"));
            machine.run(&format!("ip link set {name} up"));
        }
        machine.run("ip link set lo up");
        machine
    }

    fn pid(&self) -> u32 {
        self.keeper.id().expect("it runs")
    }

    /// Runs a command on this machine.
    fn run(&self, command: &str) {
        run(&format!("nsenter --target {} --net {command}", self.pid()));
    }

    /// How its link fails, and how that ends; of its two ends, one way is dropped at that of the machine, the other way at that of
    /// the bridge.
    fn cut(&self, way: Way) {
        let id = self.id;
        match way {
            Way::Both => run(&format!("ip link set port{id} down")),
            Way::Out => self.run("tc qdisc replace dev eth0 root blackhole"),
            Way::In => run(&format!("tc qdisc replace dev port{id} root blackhole")),
        }
    }

    fn heal(&self, way: Way) {
        let id = self.id;
        match way {
            Way::Both => run(&format!("ip link set port{id} up")),
            Way::Out => self.run("tc qdisc delete dev eth0 root"),
            Way::In => run(&format!("tc qdisc delete dev port{id} root")),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Both,
    Out,
    In,
}

/// Starts a node on its machine.
async fn start(cluster: &Cluster, id: u32) -> Node {
    let (api, gossip) = (format!("10.78.0.{id}:7117"), format!("10.77.0.{id}:7118"));
    cluster.spawn(id, &format!("node{id}"), &["--listen", &api, "--gossip-listen", &gossip]).await
}

/// Starts one node, and all others at once, which know only that one.
async fn storm(cluster: &mut Cluster) {
    let first = start(cluster, 1).await;
    cluster.nodes.insert(1, first);
    let (two, three, four, five) =
        tokio::join!(start(cluster, 2), start(cluster, 3), start(cluster, 4), start(cluster, 5));
    for node in [two, three, four, five] {
        cluster.nodes.insert(node.id, node);
    }
}

/// Waits until all others take the node for dead, and nobody else.
async fn is_dead(cluster: &mut Cluster, id: u32, since: Instant, what: &str) {
    for other in cluster.others(id) {
        let eye = &mut cluster.node(other).eye;
        eye.until("it is dead", |view| view.state(id) == "dead").await;
        let dead: Vec<_> =
            eye.accused().into_iter().filter(|(event, who)| *event == "dead" && *who != id).collect();
        assert_eq!(dead, [], "{what}: seen by node {other}: {:?}", eye.heard);
        eye.heard.clear();
    }
    println!("{what}: all others know after {:?}", since.elapsed());
}

/// Waits until all see all.
async fn is_well(cluster: &mut Cluster, since: Instant, what: &str) {
    cluster.all_see(&ALL).await;
    println!("{what}: all see all after {:?}", since.elapsed());
    for id in ALL {
        cluster.node(id).eye.heard.clear();
    }
}

async fn inside() {
    for (bridge, net) in [("net", 77), ("desk", 78)] {
        run(&format!("ip link add {bridge} type bridge && ip link set {bridge} up"));
        run(&format!("ip address add 10.{net}.0.254/24 dev {bridge}"));
    }
    let mut cluster = Cluster::empty(&[]);
    cluster.has_filters = false;
    let keys = cluster.path("keys");
    write_private(&keys, &"ab".repeat(32));
    cluster.flags.extend(["--cluster-key-file".to_owned(), keys.to_str().expect("UTF-8").to_owned()]);
    let mut machines = Vec::new();
    for id in ALL {
        let machine = Machine::new(id).await;
        let there = format!("exec env TENURE_INSECURE=true nsenter --target {} --net", machine.pid());
        cluster.launch(id, &there);
        machines.push(machine);
    }
    let began = Instant::now();
    storm(&mut cluster).await;
    is_well(&mut cluster, began, "five start at once").await;

    let began = Instant::now();
    cluster.kill(5).await;
    is_dead(&mut cluster, 5, began, "SIGKILL").await;
    let began = Instant::now();
    let again = start(&cluster, 5).await;
    cluster.nodes.insert(5, again);
    is_well(&mut cluster, began, "started again").await;

    let began = Instant::now();
    cluster.signal(4, Signal::STOP);
    is_dead(&mut cluster, 4, began, "SIGSTOP").await;
    let began = Instant::now();
    cluster.signal(4, Signal::CONT);
    is_well(&mut cluster, began, "SIGCONT").await;

    for (id, way) in [(3, Way::Both), (2, Way::Out), (1, Way::In)] {
        let machine = &machines[id as usize - 1];
        let before = cluster.node(5).eye.view.0[&id].clone();
        let began = Instant::now();
        machine.cut(way);
        is_dead(&mut cluster, id, began, &format!("link cut, {way:?}")).await;
        if !matches!(way, Way::Out) {
            cluster.node(id).eye.hear("lonely", id).await;
        }
        let began = Instant::now();
        machine.heal(way);
        is_well(&mut cluster, began, &format!("link restored, {way:?}")).await;
        let after = &cluster.node(5).eye.view.0[&id];
        assert!(
            after.epoch == before.epoch && after.incarnation > before.incarnation,
            "it contradicted: {after:?}"
        );
    }
}
