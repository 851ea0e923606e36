//! The names that a server answers to.
//!
//! A web page of `http://evil.example` can have that name mean 127.0.0.1 while it is open ("DNS rebinding"), and then counts as
//! the same origin as our port. What it cannot change is the name that its browser sends. So a request must name an IP address,
//! `localhost`, or a name that the operator gave us. Any port is fine: it may be forwarded, and nothing can be rebound by it.

use std::net::{IpAddr, Ipv6Addr};

use model::Invalid;

/// The name that every machine gives to itself; nobody else can have it mean something.
const LOCALHOST: &str = "localhost";

/// Names besides IP addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Box<[String]>);

impl Hosts {
    /// These names, and that of the address by which others reach us.
    pub(crate) fn new(names: &[String], address: &str) -> Self {
        let ours = address.split_once("://").map_or(address, |(_, rest)| rest);
        let ours = name_of(ours.split('/').next().unwrap_or_default());
        Hosts(names.iter().map(String::as_str).chain(ours).map(str::to_owned).collect())
    }

    /// Whether this is one of our names, or cannot be anybody's: `host` or `host:port`, as requests carry it.
    pub(crate) fn allow(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else {
            return false;
        };
        name.eq_ignore_ascii_case(LOCALHOST)
            || is_address(name)
            || self.0.iter().any(|ours| ours.eq_ignore_ascii_case(name))
    }
}

/// Refuses what can never be the name in a request.
pub(crate) fn check_name(name: &str) -> Result<(), Invalid> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Invalid::new(format!(
            "{name:?} is not the name of a host; give it without scheme and port, such as tenure.example.com"
        )));
    }
    Ok(())
}

/// The part before the port; of an IPv6 address with its brackets. None if it is not written as a host is.
fn name_of(host: &str) -> Option<&str> {
    let end = match host.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, rest) = host.split_at(end);
    let port = rest.strip_prefix(':').unwrap_or(rest);
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && (rest.is_empty() || rest.len() > 1);
    (!name.is_empty() && is_port && rest.starts_with(':') != rest.is_empty()).then_some(name)
}

fn is_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(name) => name.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_given_names_are_answered() {
        let hosts = Hosts::new(&["jobs.lan".to_owned()], "http://tenure.example.com:7117/");
        for host in [
            "127.0.0.1:7117",
            "127.0.0.1",
            "[::1]:7117",
            "[::1]",
            "10.0.0.5:1",
            "localhost",
            "LocalHost:80",
            "jobs.lan",
            "JOBS.lan:99",
            "tenure.example.com:7117",
            "tenure.example.com",
        ] {
            assert!(hosts.allow(host), "{host}");
        }
    }

    #[test]
    fn other_names_and_what_only_looks_like_an_address_are_not() {
        let hosts = Hosts::new(&["jobs.lan".to_owned()], "http://10.0.0.5:7117");
        for host in [
            "",
            ":",
            ":80",
            "evil.test",
            "evil.test:7117",
            "jobs.lan.evil.test",
            "xjobs.lan",
            "127.0.0.1.evil.test",
            "localhost.evil.test",
            "evil.localhost",
            "localhost:",
            "localhost:x",
            "localhost:1:2",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]7117",
            "[evil.test]",
            "[127.0.0.1]",
            "127.1",
            "0x7f000001",
            "2130706433",
            "0177.0.0.1",
            "a@127.0.0.1",
            "127.0.0.1@evil.test",
            "127.0.0.1 ",
            "localhost,evil.test",
        ] {
            assert!(!hosts.allow(host), "{host:?}");
        }
    }

    #[test]
    fn a_server_without_names_has_none() {
        for address in ["", "http://", "nonsense://:"] {
            assert!(Hosts::new(&[], address).0.is_empty(), "{address}");
        }
        assert!(check_name("tenure-1.example_x.com").is_ok());
        for name in ["", "http://x", "x:1", "*.x", "x y", "[::1]"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
