//! The database's URL: what PostgreSQL's own clients understand, as far as it concerns us.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, TargetSessionAttrs};

use crate::error::OpenError;
use crate::tls::SYSTEM;

/// How a connection is secured, as `sslmode` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// Never.
    Disable,
    /// If the server can; whoever it is.
    Prefer,
    /// Always; whoever the server is.
    Require,
    /// Always, and the server's certificate is signed by someone we trust.
    VerifyCa,
    /// Always, and the certificate is for the host we asked for, too.
    VerifyFull,
}

/// A URL taken apart.
#[derive(Clone)]
pub(crate) struct DatabaseUrl {
    /// One for each host, in the order of the URL.
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) tls: TlsMode,
    /// Whom we trust, from `sslrootcert`.
    pub(crate) root_certificates: Option<PathBuf>,
}

/// How to reach one host.
#[derive(Clone)]
pub(crate) struct HostConfig {
    /// For people.
    pub(crate) name: String,
    pub(crate) config: Config,
}

impl FromStr for DatabaseUrl {
    type Err = OpenError;

    fn from_str(url: &str) -> Result<Self, OpenError> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(wrong("it must begin with postgresql://"));
        }
        let (rest, tls, root_certificates) = take_tls(url)?;
        // The error of the parser names parts of the URL, but never quotes it.
        let config = Config::from_str(&rest).map_err(|error| wrong(&crate::error::text(&error)))?;
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(wrong("target_session_attrs=read-only cannot be: jobs are written"));
        }
        Ok(DatabaseUrl { hosts: hosts(&config)?, tls, root_certificates })
    }
}

/// The hosts of a URL that somebody on the network in between could pretend to be: not on this machine, and not asked for a
/// certificate with their name. Such a one reads the jobs, and may pass on what the password proves.
pub fn unverified_hosts(url: &str) -> Result<Vec<String>, OpenError> {
    let url: DatabaseUrl = url.parse()?;
    if url.tls == TlsMode::VerifyFull {
        return Ok(Vec::new());
    }
    Ok(url.hosts.into_iter().filter(|host| !is_here(&host.config)).map(|host| host.name).collect())
}

/// True if what is said to this host stays on this machine.
fn is_here(config: &Config) -> bool {
    if let [address] = config.get_hostaddrs() {
        return address.to_canonical().is_loopback();
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
        }
    })
}

/// The URL without its parameters about TLS, of which the parser knows too little.
fn take_tls(url: &str) -> Result<(String, TlsMode, Option<PathBuf>), OpenError> {
    let (mut mode, mut root) = (None, None);
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), TlsMode::Prefer, None));
    };
    let mut others = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=').unwrap_or((parameter, "")) {
            ("sslmode", value) => {
                mode = Some(match value {
                    "disable" => TlsMode::Disable,
                    // It differs from `prefer` in what is tried first, and neither is safe from anyone.
                    "allow" | "prefer" => TlsMode::Prefer,
                    "require" => TlsMode::Require,
                    "verify-ca" => TlsMode::VerifyCa,
                    "verify-full" => TlsMode::VerifyFull,
                    _ => {
                        return Err(wrong(
                            "sslmode is one of disable, prefer, require, verify-ca, verify-full",
                        ));
                    }
                });
            }
            ("sslrootcert", value) => root = Some(decode(value)?),
            (name @ ("sslcert" | "sslkey" | "sslcrl" | "sslcrldir" | "sslpassword"), _) => {
                return Err(wrong(&format!("{name} is not supported; log in by password")));
            }
            _ => others.push(parameter),
        }
    }
    let mode = match (mode, &root) {
        // Anybody can have a certificate that the system trusts; only the name in it says whose it is.
        (None | Some(TlsMode::VerifyFull), Some(root)) if root == SYSTEM => TlsMode::VerifyFull,
        (Some(_), Some(root)) if root == SYSTEM => {
            return Err(wrong(
                "sslrootcert=system needs sslmode=verify-full: any weaker mode would trust everybody",
            ));
        }
        // As everywhere: whoever names a root certificate wants it to be used.
        (Some(TlsMode::Require), Some(_)) => TlsMode::VerifyCa,
        (Some(mode), _) => mode,
        (None, _) => TlsMode::Prefer,
    };
    let rest = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    Ok((rest, mode, root.map(PathBuf::from)))
}

/// A value with its `%2F` and the like put back.
fn decode(value: &str) -> Result<String, OpenError> {
    let bad = || wrong("a % in it is not followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(bad)?;
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// One configuration for each host, so that an error can be told for each.
fn hosts(all: &Config) -> Result<Vec<HostConfig>, OpenError> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = hosts.len().max(addresses.len());
    if count == 0 {
        return Err(wrong("it names no host"));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(wrong("it must name one port, or one for each host"));
    }
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err(wrong("it must name as many hostaddr as hosts"));
    }
    let mut configs = Vec::with_capacity(count);
    for place in 0..count {
        let port = ports.get(place).or(ports.first()).copied().unwrap_or(5432);
        let mut config = Config::new();
        config.port(port);
        let mut name = String::new();
        if let Some(address) = addresses.get(place) {
            config.hostaddr(*address);
            name = address.to_string();
        }
        match hosts.get(place) {
            Some(Host::Tcp(host)) => {
                config.host(host);
                name.clone_from(host);
            }
            Some(Host::Unix(path)) => {
                config.host_path(path);
                name = path.display().to_string();
            }
            None => {}
        }
        settle(&mut config, all);
        configs.push(HostConfig { name: format!("{name}:{port}"), config });
    }
    Ok(configs)
}

fn settle(config: &mut Config, all: &Config) {
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(database) = all.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = all.get_options() {
        config.options(options);
    }
    config
        .application_name(all.get_application_name().unwrap_or("tenure"))
        .connect_timeout(all.get_connect_timeout().copied().unwrap_or(crate::open::CONNECT_WITHIN))
        .tcp_user_timeout(all.get_tcp_user_timeout().copied().unwrap_or(crate::link::ANSWER_WITHIN))
        .keepalives_idle(crate::open::KEEPALIVE_IDLE)
        .keepalives_interval(crate::open::KEEPALIVE_INTERVAL)
        .keepalives_retries(3)
        .ssl_negotiation(all.get_ssl_negotiation())
        .channel_binding(ChannelBinding::Disable)
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
}

fn wrong(what: &str) -> OpenError {
    OpenError::Url(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> DatabaseUrl {
        url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn every_host_has_a_configuration_of_its_own() {
        let url = parse("postgresql://me:secret@one:1,two:2/jobs?connect_timeout=3");
        let names: Vec<&str> = url.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["one:1", "two:2"]);
        for host in &url.hosts {
            assert_eq!(host.config.get_dbname(), Some("jobs"));
            assert_eq!(host.config.get_password(), Some(&b"secret"[..]));
            assert_eq!(host.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
            assert_eq!(host.config.get_connect_timeout(), Some(&std::time::Duration::from_secs(3)));
        }
        assert_eq!(parse("postgresql:///jobs?host=/run/postgresql").hosts[0].name, "/run/postgresql:5432");
    }

    #[test]
    fn hosts_beyond_this_machine_must_be_verified_by_name() {
        let unverified = |url: &str| unverified_hosts(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        for here in [
            "postgresql://me:secret@localhost/db",
            "postgresql://127.0.0.1:5433,[::1]/db?sslmode=disable",
            "postgresql:///db?host=/run/postgresql",
            "postgresql://%2Frun%2Fpostgresql/db",
            "postgresql://db.example/db?hostaddr=127.0.0.1",
            "postgresql://db.example/db?sslmode=verify-full&sslrootcert=/ca",
            "postgresql://db.example/db?sslrootcert=system",
        ] {
            assert_eq!(unverified(here), Vec::<String>::new(), "{here}");
        }
        for mode in ["", "?sslmode=disable", "?sslmode=require", "?sslmode=verify-ca&sslrootcert=/ca"] {
            let url = format!("postgresql://me:secret@localhost,db.example:5433,10.0.0.5/db{mode}");
            assert_eq!(unverified(&url), ["db.example:5433", "10.0.0.5:5432"], "{mode}");
        }
        assert_eq!(unverified("postgresql://localhost/db?hostaddr=10.0.0.5"), ["localhost:5432"]);
        assert!(unverified_hosts("postgresql://").is_err());
    }

    #[test]
    fn tls_is_as_the_url_says() {
        let tls = |url: &str| parse(url).tls;
        assert_eq!(tls("postgres://host/db"), TlsMode::Prefer);
        assert_eq!(tls("postgres://host/db?sslmode=disable"), TlsMode::Disable);
        assert_eq!(tls("postgres://host/db?sslmode=require&application_name=x"), TlsMode::Require);
        assert_eq!(tls("postgres://host/db?sslmode=require&sslrootcert=/ca"), TlsMode::VerifyCa);
        let full = parse("postgres://host/db?sslrootcert=%2Fetc%2Fmy%20ca.pem&sslmode=verify-full");
        assert_eq!(full.tls, TlsMode::VerifyFull);
        assert_eq!(full.root_certificates, Some(PathBuf::from("/etc/my ca.pem")));
        assert_eq!(tls("postgres://host/db?sslrootcert=system"), TlsMode::VerifyFull);
        assert_eq!(tls("postgres://host/db?sslrootcert=system&sslmode=verify-full"), TlsMode::VerifyFull);
    }

    #[test]
    fn what_cannot_be_understood_is_refused_without_the_password() {
        for url in [
            "mysql://u:hunter2@host/db",
            "host=x password=hunter2",
            "postgres://u:hunter2@host/db?sslmode=sometimes",
            "postgres://u:hunter2@host/db?nonsense=1",
            "postgres://u:hunter2@host:port/db",
            "postgres://u:hunter2@host/db?sslcert=x",
            "postgres://u:hunter2@host/db?sslrootcert=%2",
            "postgres://u:hunter2@host/db?sslrootcert=system&sslmode=prefer",
            "postgres://u:hunter2@host/db?sslrootcert=system&sslmode=require",
            "postgres://u:hunter2@host/db?sslrootcert=system&sslmode=verify-ca",
            "postgres://u:hunter2@host/db?target_session_attrs=read-only",
            "postgres://u:hunter2@/db",
        ] {
            let Err(error) = url.parse::<DatabaseUrl>() else { panic!("{url} must be refused") };
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
