//! The settings of `serve`, merged once: flags over environment over file over defaults.
//!
//! clap joins flags and environment; this module adds what the file says ([`file`]) and fills in the defaults. What comes
//! out has been checked, so that nothing below asks again.

mod file;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use lease::passive::PassiveConfig;
use model::{Invalid, Limits};
use node::NodeConfig;
use serde::Deserialize;
use store::Retention;

use crate::cluster::{ClusterFlags, ClusterSettings};
use crate::database::{self, DatabaseFlags};
use crate::door::DoorFlags;
use crate::logging::LogArgs;
use crate::volatile::{self, VolatileFlags};
use crate::{door, duration};
use file::File;

/// The file looked for in the data directory.
pub(crate) const FILE_NAME: &str = "tenure.toml";
/// Where data goes when nothing else is said.
pub(crate) const DATA_DEFAULT: &str = "./tenure-data";
/// Loopback, and a port that is free on most machines.
pub(crate) const LISTEN_DEFAULT: &str = "127.0.0.1:7117";

/// The flags of `serve`. Absent means: ask the environment, then the file, then the default.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServeFlags {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7117]
    #[arg(long, env = "TENURE_LISTEN", hide_env_values = true, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Directory of the data; created if it is not there [default: ./tenure-data]
    #[arg(long, env = "TENURE_DATA", hide_env_values = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where jobs live: sqlite, postgres, memory, which forgets them when the server stops, or volatile, which leaves it to
    /// clients and workers to remember [default: postgres with a database URL, else sqlite]
    #[arg(
        long,
        env = "TENURE_STORE",
        hide_env_values = true,
        value_name = "STORE",
        hide_possible_values = true
    )]
    pub(crate) store: Option<StoreKind>,
    #[command(flatten)]
    pub(crate) database: DatabaseFlags,
    /// Where workers and other servers reach this one, if not at the address it listens on
    #[arg(long, env = "TENURE_ADVERTISE", hide_env_values = true, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// How long a silent worker is believed that asks for no lease of its own [default: 20s]
    #[arg(long, env = "TENURE_LEASE", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) lease: Option<Duration>,
    /// How long a job may be on its way to its worker before the server asks whether it arrived [default: 30s]
    #[arg(long, env = "TENURE_VERIFY_AFTER", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) verify_after: Option<Duration>,
    /// New workers per second; more have to wait, those known already do not [default: 500]
    #[arg(long, env = "TENURE_REGISTRATIONS_PER_SECOND", hide_env_values = true, value_name = "N")]
    pub(crate) registrations_per_second: Option<u32>,
    /// When holders that only ping count as gone: aggressive (5s), default (15s) or conservative (30s)
    #[arg(
        long,
        env = "TENURE_PING_TIMEOUT",
        hide_env_values = true,
        value_name = "PRESET",
        hide_possible_values = true
    )]
    pub(crate) ping_timeout: Option<PingPreset>,
    /// Loses messages on purpose, for tests: drop-assignments=N,drop-answers=N
    #[arg(long, hide = true, value_name = "FAULTS")]
    pub(crate) faults: Option<String>,
    /// How long completed and cancelled jobs are kept [default: 1d]
    #[arg(long, env = "TENURE_RETAIN_COMPLETED", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) retain_completed: Option<Duration>,
    /// How long dead jobs are kept [default: 7d]
    #[arg(long, env = "TENURE_RETAIN_DEAD", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) retain_dead: Option<Duration>,
    /// Largest payload of a job, in bytes [default: 1048576]
    #[arg(long, env = "TENURE_MAX_PAYLOAD", hide_env_values = true, value_name = "BYTES")]
    pub(crate) max_payload: Option<usize>,
    /// Queues at most; who would make more is refused, those that are there go on [default: 10000]
    #[arg(long, env = "TENURE_MAX_QUEUES", hide_env_values = true, value_name = "N")]
    pub(crate) max_queues: Option<usize>,
    /// Answer before data is on disk: faster, and a power cut loses acknowledged jobs
    #[arg(long, env = "TENURE_UNSAFE_NO_FSYNC", hide_env_values = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) unsafe_no_fsync: Option<bool>,
    /// Listen beyond this machine although there is no TLS and no authentication
    #[arg(long, env = "TENURE_INSECURE", hide_env_values = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) insecure: Option<bool>,
    /// How the server calls itself to workers and people [default: tenure]
    #[arg(long, env = "TENURE_NAME", hide_env_values = true, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Settings file [default: tenure.toml in the data directory, if there is one]
    #[arg(long, env = "TENURE_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
    #[command(flatten)]
    pub(crate) volatile: VolatileFlags,
    #[command(flatten)]
    pub(crate) door: DoorFlags,
}

/// How patient a server is with holders that only ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PingPreset {
    Aggressive,
    #[default]
    Default,
    Conservative,
}

impl PingPreset {
    fn config(self) -> PassiveConfig {
        match self {
            PingPreset::Aggressive => PassiveConfig::aggressive(),
            PingPreset::Default => PassiveConfig::default(),
            PingPreset::Conservative => PassiveConfig::conservative(),
        }
    }
}

/// Which store a server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    // Plain comments: documented values would make the whole help twice as long.
    // One file in the data directory, durable.
    #[default]
    Sqlite,
    // Nothing survives the process.
    Memory,
    // For several servers at once.
    Postgres,
    // Workers and clients remember what the server forgets.
    Volatile,
}

impl StoreKind {
    /// Its name.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Memory => "memory",
            StoreKind::Postgres => "postgres",
            StoreKind::Volatile => "volatile",
        }
    }
}

/// The settings of one `serve`, merged and checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) store: StoreKind,
    /// With [`StoreKind::Postgres`]. Never shown: it may have a password in it.
    pub(crate) database_url: String,
    /// What should be said once there is a log.
    pub(crate) warnings: Vec<String>,
    pub(crate) fsync: bool,
    pub(crate) log: LogArgs,
    pub(crate) node: NodeConfig,
    /// Bytes that volatile jobs may take.
    pub(crate) volatile_memory: usize,
    /// See `ServeFlags::faults`.
    pub(crate) faults: String,
    /// None if the server is on its own.
    pub(crate) cluster: Option<ClusterSettings>,
}

impl Settings {
    /// Merges what was said with the file and the defaults.
    pub(crate) fn resolve(mut flags: ServeFlags) -> Result<Settings, Invalid> {
        let file = file::find(&flags)?;
        let shown = flags.database.warning();
        flags.database = DatabaseFlags { database_url: flags.database.own()?, database_url_file: None };
        let flags = with_shared_url(flags, &file, database::variable(database::SHARED_URL))?;
        let mut settings = Self::merge(flags, file)?;
        settings.warnings.extend(shown.map(str::to_owned));
        settings.warnings.extend(database::unverified(&settings.database_url));
        Ok(settings)
    }

    fn merge(flags: ServeFlags, file: File) -> Result<Settings, Invalid> {
        let defaults = NodeConfig::default();
        let named_store = named_store(&flags, &file)?;
        let volatile = flags.volatile.or(file.volatile());
        let door = DoorFlags {
            allow_host: file.allow_host,
            connections_per_address: file.connections_per_address,
            max_inflight_bytes: file.max_inflight_bytes,
        };
        let volatile_memory = volatile.memory()?;
        let is_elsewhere =
            |store: StoreKind| store != StoreKind::Postgres && flags.database.database_url.is_some();
        if let Some(store) = named_store.filter(|store| is_elsewhere(*store)) {
            return Err(Invalid::new(format!(
                "--database-url (or {}) names a database, but the store is to be {}; leave one of them out",
                database::OWN_URL,
                store.word()
            )));
        }
        let database_url = match flags.database.database_url {
            None if named_store.is_none_or(|store| store == StoreKind::Postgres) => {
                from_file(file.database_url, file.database_url_file)?
            }
            url => url,
        };
        if database_url.as_ref().is_some_and(String::is_empty) {
            return Err(Invalid::new("the database URL is empty; name a database, or leave the setting out"));
        }
        let store = named_store.unwrap_or(match database_url {
            Some(_) => StoreKind::Postgres,
            None => StoreKind::Sqlite,
        });
        if store == StoreKind::Postgres && database_url.is_none() {
            return Err(Invalid::new(
                "the postgres store needs a database: pass --database-url, or set TENURE_DATABASE_URL",
            ));
        }
        let listen_text = flags.listen.or(file.listen).unwrap_or_else(|| LISTEN_DEFAULT.to_owned());
        let node = NodeConfig {
            name: flags.name.or(file.name).unwrap_or(defaults.name),
            store: store.word().to_owned(),
            address: flags.advertise.or(file.advertise).unwrap_or_default(),
            lease_default: flags.lease.or(file.lease).unwrap_or(defaults.lease_default),
            verify_after: flags.verify_after.or(file.verify_after).unwrap_or(defaults.verify_after),
            registrations_per_second: flags
                .registrations_per_second
                .or(file.registrations_per_second)
                .unwrap_or(defaults.registrations_per_second),
            queues_max: flags.max_queues.or(file.max_queues).unwrap_or(defaults.queues_max),
            pings: flags.ping_timeout.or(file.ping_timeout).unwrap_or_default().config(),
            limits: Limits {
                payload_bytes_max: flags
                    .max_payload
                    .or(file.max_payload)
                    .unwrap_or(defaults.limits.payload_bytes_max),
                ..defaults.limits
            },
            retention: Retention {
                completed: flags
                    .retain_completed
                    .or(file.retain_completed)
                    .unwrap_or(defaults.retention.completed),
                dead: flags.retain_dead.or(file.retain_dead).unwrap_or(defaults.retention.dead),
            },
            drain_grace: defaults.drain_grace,
            volatile: volatile.check(store)?,
            door: flags.door.or(door).config(&listen_text),
        };
        let listen = door::resolve_listen(&listen_text)?;
        let insecure = flags.insecure.or(file.insecure).unwrap_or(false);
        door::refuse_open_network(listen, insecure)?;
        let cluster = ClusterSettings::merge(flags.cluster, file.cluster, listen, insecure)?;
        Ok(Settings {
            listen,
            data: flags.data.or(file.data).unwrap_or_else(|| DATA_DEFAULT.into()),
            store,
            database_url: database_url.unwrap_or_default(),
            warnings: Vec::new(),
            fsync: !flags.unsafe_no_fsync.or(file.unsafe_no_fsync).unwrap_or(false),
            log: LogArgs {
                log_format: flags.log.log_format.or(file.log_format),
                log_level: flags.log.log_level.or(file.log_level),
            },
            node: node.check()?,
            volatile_memory,
            faults: flags.faults.unwrap_or_default(),
            cluster,
        })
    }
}

/// The store that was asked for, if one was. What a flag says of it counts more than what the file does.
fn named_store(flags: &ServeFlags, file: &File) -> Result<Option<StoreKind>, Invalid> {
    let by_flag = volatile::named_store(flags.store, flags.volatile.volatile_only)?;
    let from_file = flags.volatile.volatile_only.is_none().then_some(file.volatile_only).flatten();
    match by_flag {
        Some(store) => Ok(Some(store)),
        None => volatile::named_store(file.store, from_file),
    }
}

/// What the settings file says of the database.
fn from_file(url: Option<String>, file: Option<PathBuf>) -> Result<Option<String>, Invalid> {
    if url.is_some() && file.is_some() {
        return Err(Invalid::new(
            "the settings file has both database-url and database-url-file; leave one of them out",
        ));
    }
    database::said(url, file.as_deref())
}

/// The flags with the database of [`database::SHARED_URL`], if nobody named a store or another database. A server whose jobs are in
/// its data directory is not moved away from them by a variable that may be meant for somebody else.
fn with_shared_url(
    mut flags: ServeFlags,
    file: &File,
    shared_url: Option<String>,
) -> Result<ServeFlags, Invalid> {
    let store = named_store(&flags, file)?;
    let is_wanted = flags.database.database_url.is_none()
        && file.database_url.is_none()
        && file.database_url_file.is_none()
        && store.is_none_or(|store| store == StoreKind::Postgres);
    let Some(url) = shared_url.filter(|_| is_wanted) else {
        return Ok(flags);
    };
    let data = flags.data.as_deref().or(file.data.as_deref()).unwrap_or(Path::new(DATA_DEFAULT));
    if store.is_none() && data.join(store_sqlite::DATABASE_FILE).exists() {
        return Err(Invalid::new(format!(
            "{} holds jobs, but {} of the environment names a database; pass --store sqlite to serve the jobs in the \
             directory, or --store postgres to serve the database",
            data.display(),
            database::SHARED_URL
        )));
    }
    flags.database.database_url = Some(url);
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(text: &str) -> Result<File, Invalid> {
        file::read(Path::new("tenure.toml"), text)
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let text = "lease = \"30s\"\nname = \"from-file\"\nstore = \"memory\"\nretain-dead = \"2d\"";
        let flags = ServeFlags { name: Some("from-flag".into()), ..ServeFlags::default() };
        let settings = Settings::merge(flags, file(text).unwrap()).unwrap();
        assert_eq!(settings.node.name, "from-flag");
        assert_eq!(settings.node.lease_default, Duration::from_secs(30));
        assert_eq!(settings.store, StoreKind::Memory);
        assert_eq!(settings.node.retention.dead, Duration::from_secs(2 * 86_400));
        assert_eq!(settings.node.retention.completed, Retention::default().completed);
        assert_eq!(settings.listen, LISTEN_DEFAULT.parse().unwrap());
        assert_eq!(settings.data, Path::new(DATA_DEFAULT));
        assert!(settings.fsync);
    }

    #[test]
    fn a_variable_shared_with_others_moves_no_server_away_from_its_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let shared = || Some("postgresql://shared/db".to_owned());
        let flags = ServeFlags { data: Some(dir.path().into()), ..ServeFlags::default() };
        let resolve = |flags: ServeFlags, text: &str| {
            let file = file(text).unwrap();
            Settings::merge(with_shared_url(flags, &file, shared())?, file)
        };
        let settings = resolve(flags.clone(), "").unwrap();
        assert_eq!(
            (settings.store, settings.database_url.as_str()),
            (StoreKind::Postgres, "postgresql://shared/db")
        );

        fs::write(dir.path().join(store_sqlite::DATABASE_FILE), "").unwrap();
        let error = resolve(flags.clone(), "").unwrap_err().0;
        assert!(error.contains("--store sqlite") && error.contains("--store postgres"), "{error}");
        // Whoever says what he wants gets it.
        assert_eq!(resolve(flags.clone(), "store = \"sqlite\"").unwrap().store, StoreKind::Sqlite);
        assert_eq!(resolve(flags.clone(), "store = \"postgres\"").unwrap().database_url, shared().unwrap());
        let ours = || DatabaseFlags {
            database_url: Some("postgresql://ours/db".into()),
            ..DatabaseFlags::default()
        };
        let named = ServeFlags { database: ours(), ..flags.clone() };
        assert_eq!(resolve(named, "").unwrap().database_url, "postgresql://ours/db");
        for store in [StoreKind::Sqlite, StoreKind::Volatile] {
            let both = ServeFlags { database: ours(), store: Some(store), ..flags.clone() };
            let error = resolve(both, "").unwrap_err().0;
            assert!(error.contains("leave one of them out"), "{error}");
        }
        let store = ServeFlags { store: Some(StoreKind::Sqlite), ..flags.clone() };
        let settings = resolve(store, "database-url = \"postgresql://file/db\"").unwrap();
        assert_eq!(settings.store, StoreKind::Sqlite, "a flag counts more than the file");
        let error = resolve(flags.clone(), "database-url = \"\"").unwrap_err().0;
        assert!(error.contains("the database URL is empty"), "{error}");
        let from_file = resolve(flags, "database-url = \"postgresql://file/db\"").unwrap();
        assert_eq!(from_file.database_url, "postgresql://file/db");
    }

    #[test]
    fn a_flag_can_take_back_what_the_file_allows() {
        let text = "insecure = true\nlisten = \"0.0.0.0:7117\"";
        assert!(Settings::merge(ServeFlags::default(), file(text).unwrap()).is_ok());
        let flags = ServeFlags { insecure: Some(false), ..ServeFlags::default() };
        let error = Settings::merge(flags, file(text).unwrap()).unwrap_err().0;
        assert_eq!(
            error,
            "refusing to listen on 0.0.0.0:7117 without TLS and authentication; listen on 127.0.0.1, or pass \
             --insecure if this network is trusted"
        );
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line() {
        for (text, why) in [
            ("name = \"a\"\nlaese = \"30s\"", "tenure.toml line 2: unknown key `laese`"),
            ("lease = \"30\"", "line 1: \"30\" has no unit"),
            ("lease = 30", "line 1: invalid type: integer"),
            ("store = \"oracle\"", "unknown variant `oracle`"),
            ("lease = ", "tenure.toml line 1"),
        ] {
            let error = file(text).unwrap_err().0;
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn settings_are_checked_once_merged() {
        let flags = ServeFlags { lease: Some(Duration::from_millis(1)), ..ServeFlags::default() };
        assert!(Settings::merge(flags, File::default()).unwrap_err().0.contains("lease"));
        let flags = ServeFlags { listen: Some("nowhere".into()), ..ServeFlags::default() };
        assert!(Settings::merge(flags, File::default()).unwrap_err().0.contains("127.0.0.1:7117"));
    }

    #[test]
    fn the_cluster_has_a_table_of_its_own_in_the_file() {
        let text =
            "[cluster]\nnode-id = 7\njoin = [\"a:7118\"]\ngossip-profile = \"fast\"\ncluster-name = \"prod\"";
        let settings = Settings::merge(ServeFlags::default(), file(text).unwrap()).unwrap().cluster.unwrap();
        assert_eq!((settings.id.0, settings.name.as_str(), settings.join.len()), (7, "prod", 1));
        let cluster = ClusterFlags { node_id: Some(8), ..ClusterFlags::default() };
        let flags = ServeFlags { cluster, ..ServeFlags::default() };
        assert_eq!(Settings::merge(flags, file(text).unwrap()).unwrap().cluster.unwrap().id.0, 8);
        let error = file("[cluster]\nnode = 7").unwrap_err().0;
        assert!(error.contains("line 2: unknown key `node`"), "{error}");
        assert!(Settings::merge(ServeFlags::default(), File::default()).unwrap().cluster.is_none());
    }

    #[test]
    fn volatile_only_is_a_store_and_flags_choose_it_over_the_file() {
        let resolve = |flags: ServeFlags, text: &str| Settings::merge(flags, file(text).unwrap());
        let only = |volatile_only| ServeFlags {
            volatile: VolatileFlags { volatile_only, ..VolatileFlags::default() },
            ..ServeFlags::default()
        };
        for settings in [
            resolve(only(Some(true)), "store = \"sqlite\""),
            resolve(only(None), "volatile-only = true\ninitial-wait = \"40s\""),
            resolve(ServeFlags { store: Some(StoreKind::Volatile), ..only(None) }, ""),
        ] {
            assert_eq!(settings.unwrap().node.store, "volatile");
        }
        assert_eq!(resolve(only(Some(false)), "volatile-only = true").unwrap().store, StoreKind::Sqlite);
        let sqlite = ServeFlags { store: Some(StoreKind::Sqlite), ..only(None) };
        assert_eq!(resolve(sqlite, "volatile-only = true").unwrap().store, StoreKind::Sqlite);
        let error = resolve(only(None), "volatile-only = true\nstore = \"memory\"").unwrap_err().0;
        assert!(error.contains("the store is to be memory; choose one"), "{error}");
        // A variable that many programs share does not bring a database either.
        let flags =
            with_shared_url(only(Some(true)), &File::default(), Some("postgresql://shared/db".into()))
                .unwrap();
        assert_eq!(flags.database.database_url, None);
    }

    #[test]
    fn the_waits_of_volatile_queues_are_not_mixed_from_flags_and_file() {
        let wait = Some(Duration::from_secs(40));
        let text = "initial-wait = \"30s\"\nallow-bump-unhealthy = true";
        let volatile = VolatileFlags { unsafe_initial_wait: wait, ..VolatileFlags::default() };
        let flags = ServeFlags { volatile, ..ServeFlags::default() };
        let config = Settings::merge(flags, file(text).unwrap()).unwrap().node.volatile;
        assert_eq!((config.initial_wait, config.unsafe_initial_wait), (None, wait));
        assert!(config.allow_bump_unhealthy);
        let config = Settings::merge(ServeFlags::default(), file(text).unwrap()).unwrap().node.volatile;
        assert_eq!(config.initial_wait, Some(Duration::from_secs(30)));
        let error = Settings::merge(
            ServeFlags::default(),
            file("store = \"memory\"\nallow-bump-unhealthy = true").unwrap(),
        );
        assert!(error.unwrap_err().0.contains("the memory store has none"));
    }

    #[test]
    fn loopback_needs_no_permission() {
        for listen in
            ["127.0.0.1:0", "127.9.9.9:1", "[::1]:7117", "[::ffff:127.0.0.1]:7117", "localhost:7117"]
        {
            let flags = ServeFlags { listen: Some(listen.into()), ..ServeFlags::default() };
            assert!(Settings::merge(flags, File::default()).is_ok(), "{listen}");
        }
    }

    #[test]
    fn the_file_next_to_the_data_is_found_and_cannot_move_the_data() {
        let dir = tempfile::tempdir().unwrap();
        let flags = ServeFlags { data: Some(dir.path().into()), ..ServeFlags::default() };
        assert!(Settings::resolve(flags.clone()).is_ok(), "no file is no error");
        fs::write(dir.path().join(FILE_NAME), "name = \"beside\"").unwrap();
        assert_eq!(Settings::resolve(flags.clone()).unwrap().node.name, "beside");
        fs::write(dir.path().join(FILE_NAME), "data = \"/elsewhere\"").unwrap();
        assert!(Settings::resolve(flags.clone()).unwrap_err().0.contains("sets data"));
        let missing = ServeFlags { config: Some(dir.path().join("none.toml")), ..flags };
        assert!(Settings::resolve(missing).unwrap_err().0.contains("cannot read the settings file"));
    }
}
