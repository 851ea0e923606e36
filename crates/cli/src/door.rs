//! The settings of `serve` that are about its port: where it is, and who may speak to it.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;
use model::Invalid;
use node::DoorConfig;

use crate::config::LISTEN_DEFAULT;
use crate::{memory, size};

/// The flags. Absent means: ask the environment, then the file, then the default.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DoorFlags {
    /// Answer requests for this host name too, besides IP addresses, localhost and the names in --listen and --advertise; may be
    /// repeated
    #[arg(
        long,
        env = "TENURE_ALLOW_HOST",
        hide_env_values = true,
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) allow_host: Vec<String>,
    /// Connections from one address; more are refused [default: 256, on loopback nearly all 10240]
    #[arg(long, env = "TENURE_CONNECTIONS_PER_ADDRESS", hide_env_values = true, value_name = "N")]
    pub(crate) connections_per_address: Option<usize>,
    /// Memory for requests and answers on their way, over all connections; when it is used up, large ones are answered 503
    /// [default: a quarter of the memory, at most 1GiB]
    #[arg(long, env = "TENURE_MAX_INFLIGHT_BYTES", hide_env_values = true, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_inflight_bytes: Option<u64>,
}

impl DoorFlags {
    /// What these say, and where they are silent, what the others do.
    pub(crate) fn or(self, file: DoorFlags) -> DoorFlags {
        DoorFlags {
            allow_host: if self.allow_host.is_empty() { file.allow_host } else { self.allow_host },
            connections_per_address: self.connections_per_address.or(file.connections_per_address),
            max_inflight_bytes: self.max_inflight_bytes.or(file.max_inflight_bytes),
        }
    }

    /// The settings of a server that listens there. Whoever has it listen at a name may call it by that.
    pub(crate) fn config(self, listen: &str) -> DoorConfig {
        let named = listen.rsplit_once(':').map(|(name, _)| name.to_owned());
        let named = named.filter(|name| !name.is_empty() && !name.contains(':'));
        let inflight_bytes = self.max_inflight_bytes.unwrap_or_else(|| inflight_default(memory::limit()));
        DoorConfig {
            hosts: self.allow_host.into_iter().chain(named).collect(),
            connections_per_address: self.connections_per_address,
            inflight_bytes_max: usize::try_from(inflight_bytes).unwrap_or(usize::MAX),
            ..DoorConfig::default()
        }
    }
}

/// A quarter of the memory, within its bounds.
fn inflight_default(memory: u64) -> u64 {
    (memory / 4).clamp(DoorConfig::INFLIGHT_BYTES_LEAST as u64, DoorConfig::INFLIGHT_BYTES_DEFAULT as u64)
}

/// The address to listen on.
pub(crate) fn resolve_listen(text: &str) -> Result<SocketAddr, Invalid> {
    let wrong = || Invalid::new(format!("{text:?} is not an address to listen on, such as {LISTEN_DEFAULT}"));
    text.to_socket_addrs().map_err(|_| wrong())?.next().ok_or_else(wrong)
}

/// Beyond this machine only with permission.
pub(crate) fn refuse_open_network(listen: SocketAddr, insecure: bool) -> Result<(), Invalid> {
    if insecure || listen.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "refusing to listen on {listen} without TLS and authentication; listen on 127.0.0.1, or pass --insecure if \
         this network is trusted"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_to_listen_at_is_one_to_be_called_by() {
        let hosts = |flags: &[&str], listen: &str| {
            let allow_host = flags.iter().map(|name| (*name).to_owned()).collect();
            DoorFlags { allow_host, ..DoorFlags::default() }.config(listen).hosts
        };
        assert_eq!(hosts(&["jobs"], "tenure.lan:7117"), ["jobs", "tenure.lan"]);
        assert_eq!(hosts(&["jobs"], "127.0.0.1:7117"), ["jobs", "127.0.0.1"]);
        assert_eq!(hosts(&[], "[::1]:7117"), Vec::<String>::new());
    }

    #[test]
    fn flags_win_over_the_file() {
        let names = |name: &str| DoorFlags { allow_host: vec![name.to_owned()], ..DoorFlags::default() };
        assert_eq!(names("flag").or(names("file")).allow_host, ["flag"]);
        assert_eq!(DoorFlags::default().or(names("file")).allow_host, ["file"]);
    }

    #[test]
    fn what_may_be_on_its_way_follows_the_memory() {
        assert_eq!(inflight_default(64 << 30), 1 << 30);
        assert_eq!(inflight_default(512 << 20), 128 << 20);
        assert_eq!(inflight_default(1 << 20), 64 << 20);
    }
}
