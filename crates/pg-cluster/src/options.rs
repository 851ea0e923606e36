//! What can be chosen about a cluster before it starts.

use crate::cluster::Cluster;
use crate::error::ClusterError;

/// How many connections a cluster takes. More than PostgreSQL's own default, since many tests share one cluster and each of them
/// may run several servers with their pools.
const CONNECTIONS_MAX: u32 = 200;

/// What can be chosen; the default suits tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether commits survive a power failure, as they must where speed is measured. Without it they survive
    /// [`Cluster::kill`] all the same, since what was written is the kernel's. Default: false.
    pub fsync: bool,
    /// Further settings for `postgresql.conf`, name and value. They win over those that are set here.
    pub settings: Vec<(String, String)>,
    /// Whether clients may ask for TLS; none has to. The certificate for `localhost` and `127.0.0.1` signs itself, is made by
    /// `openssl`, and lies in `data/server.crt` below [`Cluster::home`]. Default: false.
    pub tls: bool,
}

impl Options {
    /// Starts a cluster like this. Returns when it accepts connections.
    pub fn start(&self) -> Result<Cluster, ClusterError> {
        Cluster::start_with(self)
    }

    /// The lines for `postgresql.conf`, where the last one of a name counts.
    pub(crate) fn lines(&self) -> String {
        let connections = CONNECTIONS_MAX.to_string();
        let switch = |is_on| if is_on { "on" } else { "off" };
        let ours = [
            ("fsync", switch(self.fsync)),
            ("ssl", switch(self.tls)),
            ("max_connections", &connections),
            // In files below the cluster's own directory, since a killed server leaves it behind.
            ("dynamic_shared_memory_type", "mmap"),
            // How soon a standby tries again to reach a primary that was away. PostgreSQL's own default is 5 s.
            ("wal_retrieve_retry_interval", "100ms"),
        ];
        let theirs = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        ours.into_iter().chain(theirs).map(|(name, value)| line(name, value)).collect()
    }
}

/// One line for `postgresql.conf`.
pub(crate) fn line(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\\', r"\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_quotes_what_would_end_its_value() {
        assert_eq!(line("search_path", r#""it's", \"#), "search_path = '\"it''s\", \\\\'\n");
    }

    #[test]
    fn settings_come_last_and_so_win() {
        let options = Options { settings: vec![("fsync".to_owned(), "on".to_owned())], ..Options::default() };
        let lines = options.lines();
        let fsync: Vec<&str> = lines.lines().filter(|line| line.starts_with("fsync")).collect();
        assert_eq!(fsync, ["fsync = 'off'", "fsync = 'on'"]);
    }
}
