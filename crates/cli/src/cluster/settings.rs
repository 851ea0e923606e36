//! Which cluster a server belongs to. Nothing of it matters without a node id: then the server is on its own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use model::Invalid;
use serde::Deserialize;
use swim::{Config, NodeId};

use super::keys::{self, KeySource};

/// The cluster of whoever names none.
const NAME_DEFAULT: &str = "tenure";
/// Longest name of a cluster, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Keys for whoever has no file, separated by commas or line ends; not a flag, because flags are seen by everyone on a machine.
const KEY_VARIABLE: &str = "TENURE_CLUSTER_KEY";

/// The flags that concern the cluster.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// This server's number in its cluster, 1 or more and its own for ever; without it the server is on its own
    #[arg(long, env = "TENURE_NODE_ID", hide_env_values = true, value_name = "N")]
    pub(crate) node_id: Option<u32>,
    /// Gossip addresses of some other nodes, as host:port; names are resolved again and again
    #[arg(long, env = "TENURE_JOIN", hide_env_values = true, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) join: Vec<String>,
    /// Nodes of other clusters are not heard [default: tenure]
    #[arg(long, env = "TENURE_CLUSTER_NAME", hide_env_values = true, value_name = "NAME")]
    pub(crate) cluster_name: Option<String>,
    /// Keys, one for each line; the first seals, all open; read again when the file changes. `tenure nodes key` makes one
    #[arg(long, env = "TENURE_CLUSTER_KEY_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) cluster_key_file: Option<PathBuf>,
    /// Address for other nodes, UDP and TCP [default: that of the API, next port]
    #[arg(long, env = "TENURE_GOSSIP_LISTEN", hide_env_values = true, value_name = "ADDR")]
    pub(crate) gossip_listen: Option<String>,
    /// Where other nodes reach this one, if not at the address it listens on
    #[arg(long, env = "TENURE_GOSSIP_ADVERTISE", hide_env_values = true, value_name = "ADDR")]
    pub(crate) gossip_advertise: Option<String>,
    /// How closely nodes watch each other: lan, fast, wan or classic; the same on all [default: lan]
    #[arg(
        long,
        env = "TENURE_GOSSIP_PROFILE",
        hide_env_values = true,
        value_name = "PROFILE",
        hide_possible_values = true
    )]
    pub(crate) gossip_profile: Option<GossipProfile>,
    /// Loses messages on purpose, for tests: lines `to ADDR`, `from ADDR`, `both ADDR`, read again when the file changes
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) gossip_filter_file: Option<PathBuf>,
}

/// `[cluster]` in `tenure.toml`. A key is the name of its flag.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct ClusterFile {
    node_id: Option<u32>,
    join: Vec<String>,
    cluster_name: Option<String>,
    cluster_key_file: Option<PathBuf>,
    gossip_listen: Option<String>,
    gossip_advertise: Option<String>,
    gossip_profile: Option<GossipProfile>,
}

/// How closely nodes watch each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GossipProfile {
    #[default]
    Lan,
    Fast,
    Wan,
    Classic,
}

impl GossipProfile {
    pub(crate) fn config(self) -> Config {
        match self {
            GossipProfile::Lan => Config::lan(),
            GossipProfile::Fast => Config::fast(),
            GossipProfile::Wan => Config::wan(),
            GossipProfile::Classic => Config::classic(),
        }
    }
}

/// The settings of a member, merged and checked.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSettings {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) join: Vec<String>,
    pub(crate) keys: KeySource,
    /// Whether an open network is fine without keys.
    pub(crate) insecure: bool,
    /// The same host as the API, with the next port, if nothing is said.
    pub(crate) listen: SocketAddr,
    pub(crate) advertise: Option<SocketAddr>,
    pub(crate) profile: GossipProfile,
    pub(crate) filter_file: Option<PathBuf>,
}

impl ClusterSettings {
    /// Merges flags and file; `api` is where the API listens. None without a node id.
    pub(crate) fn merge(
        flags: ClusterFlags,
        file: ClusterFile,
        api: SocketAddr,
        insecure: bool,
    ) -> Result<Option<ClusterSettings>, Invalid> {
        let join = if flags.join.is_empty() { file.join } else { flags.join };
        let join: Vec<String> =
            join.iter().map(|seed| seed.trim().to_owned()).filter(|seed| !seed.is_empty()).collect();
        let Some(id) = flags.node_id.or(file.node_id) else {
            if join.is_empty() {
                return Ok(None);
            }
            return Err(Invalid::new("a server needs a number of its own to join others: pass --node-id"));
        };
        if id == 0 {
            return Err(Invalid::new("node ids begin at 1"));
        }
        let keys = match flags.cluster_key_file.or(file.cluster_key_file) {
            Some(path) => KeySource::File(path),
            None => from_environment()?,
        };
        let listen = match flags.gossip_listen.or(file.gossip_listen) {
            Some(text) => resolve(&text, "listen on")?,
            None => beside(api),
        };
        let advertise = flags.gossip_advertise.or(file.gossip_advertise);
        let advertise = advertise.map(|text| resolve(&text, "be reached at")).transpose()?;
        let name = flags.cluster_name.or(file.cluster_name).unwrap_or_else(|| NAME_DEFAULT.to_owned());
        check_name(&name)?;
        for seed in &join {
            check_seed(seed)?;
        }
        check_reachable(listen, advertise, &join)?;
        if keys.is_none() && !insecure && !listen.ip().to_canonical().is_loopback() {
            return Err(Invalid::new(format!(
                "refusing to gossip on {listen} without keys, because anyone could take part; pass --cluster-key-file \
                 (`tenure nodes key` makes a key), or --insecure if this network is trusted"
            )));
        }
        Ok(Some(ClusterSettings {
            id: NodeId(id),
            name,
            join,
            keys,
            insecure,
            listen,
            advertise,
            profile: flags.gossip_profile.or(file.gossip_profile).unwrap_or_default(),
            filter_file: flags.gossip_filter_file,
        }))
    }
}

fn from_environment() -> Result<KeySource, Invalid> {
    let text = std::env::var(KEY_VARIABLE).unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(KeySource::None);
    }
    let keys = keys::parse(&text.replace(',', "\n"));
    keys.map(KeySource::Given).map_err(|error| Invalid::new(format!("{KEY_VARIABLE}: {}", error.0)))
}

/// The address beside the API's. A free port beside one that is chosen freely.
fn beside(api: SocketAddr) -> SocketAddr {
    let port = if api.port() == 0 { 0 } else { api.port().checked_add(1).unwrap_or(0) };
    SocketAddr::new(api.ip(), port)
}

fn resolve(text: &str, to_do: &str) -> Result<SocketAddr, Invalid> {
    let wrong = || Invalid::new(format!("{text:?} is not an address to {to_do}, such as 10.0.0.5:7118"));
    text.to_socket_addrs().map_err(|_| wrong())?.next().ok_or_else(wrong)
}

/// A name need not resolve now, but must have a port.
fn check_seed(seed: &str) -> Result<(), Invalid> {
    let port =
        seed.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(1..)) => Ok(()),
        _ => Err(Invalid::new(format!("{seed:?} is not a node to join, such as 10.0.0.5:7118"))),
    }
}

/// What others are told must lead here, and not to wherever they are themselves.
fn check_reachable(
    listen: SocketAddr,
    advertise: Option<SocketAddr>,
    join: &[String],
) -> Result<(), Invalid> {
    let told = advertise.unwrap_or(listen);
    if told.ip().is_unspecified() {
        return Err(Invalid::new(format!(
            "{listen} is no address that other nodes could use; say which one with --gossip-advertise"
        )));
    }
    if advertise.is_some_and(|address| address.port() == 0) {
        return Err(Invalid::new(format!(
            "other nodes cannot reach {told}: --gossip-advertise needs a port"
        )));
    }
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    let elsewhere = |seed: &&String| seed.parse().is_ok_and(|address| !is_loopback(address));
    match join.iter().find(elsewhere) {
        Some(seed) if is_loopback(told) => Err(Invalid::new(format!(
            "{seed} is on another machine, which would look for this node at {told}, where it finds itself; say where this \
             node is with --gossip-listen or --gossip-advertise"
        ))),
        _ => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), Invalid> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "{name:?} cannot name a cluster; use 1 to {NAME_BYTES_MAX} of the characters A-Z a-z 0-9 . _ -"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(flags: ClusterFlags, api: &str, insecure: bool) -> Result<Option<ClusterSettings>, Invalid> {
        ClusterSettings::merge(flags, ClusterFile::default(), api.parse().unwrap(), insecure)
    }

    fn node(id: u32) -> ClusterFlags {
        ClusterFlags { node_id: Some(id), ..ClusterFlags::default() }
    }

    #[test]
    fn without_a_number_there_is_no_cluster() {
        assert!(merge(ClusterFlags::default(), "127.0.0.1:7117", false).unwrap().is_none());
        let flags = ClusterFlags { join: vec!["a:7118".into()], ..ClusterFlags::default() };
        assert!(merge(flags, "127.0.0.1:7117", false).unwrap_err().0.contains("--node-id"));
        assert!(merge(node(0), "127.0.0.1:7117", false).is_err());
    }

    #[test]
    fn other_nodes_are_heard_on_the_next_port() {
        let listen = |api| merge(node(1), api, false).unwrap().unwrap().listen.to_string();
        assert_eq!(listen("127.0.0.1:7117"), "127.0.0.1:7118");
        assert_eq!(listen("[::1]:7117"), "[::1]:7118");
        assert_eq!(listen("127.0.0.1:0"), "127.0.0.1:0", "a free port");
        assert_eq!(listen("127.0.0.1:65535"), "127.0.0.1:0", "there is no next one");
    }

    #[test]
    fn an_open_network_needs_keys_or_permission() {
        let error = merge(node(1), "10.0.0.5:7117", false).unwrap_err().0;
        assert!(error.contains("without keys") && error.contains("--insecure"), "{error}");
        assert!(merge(node(1), "10.0.0.5:7117", true).is_ok());
        let keyed = ClusterFlags { cluster_key_file: Some("keys".into()), ..node(1) };
        assert!(merge(keyed, "10.0.0.5:7117", false).is_ok());
    }

    #[test]
    fn all_addresses_at_once_is_nowhere_in_particular() {
        let error = merge(node(1), "0.0.0.0:7117", true).unwrap_err().0;
        assert!(error.contains("--gossip-advertise"), "{error}");
        let flags = ClusterFlags { gossip_advertise: Some("10.0.0.5:7118".into()), ..node(1) };
        let settings = merge(flags, "0.0.0.0:7117", true).unwrap().unwrap();
        assert_eq!(settings.advertise, Some("10.0.0.5:7118".parse().unwrap()));
    }

    #[test]
    fn others_are_not_sent_to_themselves() {
        let joining = |advertise: Option<&str>| ClusterFlags {
            join: vec!["127.0.0.1:7118".into(), "10.0.0.5:7118".into()],
            gossip_advertise: advertise.map(Into::into),
            ..node(1)
        };
        let error = merge(joining(None), "127.0.0.1:7117", false).unwrap_err().0;
        assert!(
            error.starts_with("10.0.0.5:7118 is on another machine") && error.contains("--gossip-listen")
        );
        assert!(merge(joining(Some("10.0.0.6:7118")), "127.0.0.1:7117", false).is_ok());
        let error = merge(joining(Some("10.0.0.6:0")), "127.0.0.1:7117", false).unwrap_err().0;
        assert!(error.contains("needs a port"), "{error}");
    }

    #[test]
    fn names_and_nodes_to_join_are_checked() {
        for seed in ["a", "a:", ":7118", "a:x", "a:0"] {
            let flags = ClusterFlags { join: vec![seed.into()], ..node(1) };
            assert!(
                merge(flags, "127.0.0.1:7117", false).unwrap_err().0.contains("not a node to join"),
                "{seed}"
            );
        }
        let flags = ClusterFlags { join: vec!["seed.example:7118".into(), "[::1]:7118".into()], ..node(1) };
        assert_eq!(merge(flags, "127.0.0.1:7117", false).unwrap().unwrap().join.len(), 2);
        let flags = ClusterFlags { cluster_name: Some("a b".into()), ..node(1) };
        assert!(merge(flags, "127.0.0.1:7117", false).is_err());
    }
}
