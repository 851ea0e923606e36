//! The settings file: `tenure.toml`, whose keys are the names of the flags.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Invalid;
use serde::Deserialize;

use super::{DATA_DEFAULT, FILE_NAME, PingPreset, ServeFlags, StoreKind};
use crate::cluster::ClusterFile;
use crate::logging::{LogFormat, LogLevel};
use crate::volatile::VolatileFlags;
use crate::{duration, size};

/// `tenure.toml`. A key is the name of its flag.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct File {
    pub(super) listen: Option<String>,
    pub(super) data: Option<PathBuf>,
    pub(super) store: Option<StoreKind>,
    pub(super) database_url: Option<String>,
    pub(super) database_url_file: Option<PathBuf>,
    pub(super) advertise: Option<String>,
    #[serde(deserialize_with = "duration::deserialize")]
    pub(super) lease: Option<Duration>,
    #[serde(deserialize_with = "duration::deserialize")]
    pub(super) verify_after: Option<Duration>,
    pub(super) registrations_per_second: Option<u32>,
    pub(super) ping_timeout: Option<PingPreset>,
    #[serde(deserialize_with = "duration::deserialize")]
    pub(super) retain_completed: Option<Duration>,
    #[serde(deserialize_with = "duration::deserialize")]
    pub(super) retain_dead: Option<Duration>,
    pub(super) max_payload: Option<usize>,
    pub(super) max_queues: Option<usize>,
    pub(super) unsafe_no_fsync: Option<bool>,
    pub(super) insecure: Option<bool>,
    pub(super) name: Option<String>,
    pub(super) log_format: Option<LogFormat>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) volatile_only: Option<bool>,
    #[serde(deserialize_with = "duration::deserialize")]
    pub(super) initial_wait: Option<Duration>,
    #[serde(deserialize_with = "duration::deserialize")]
    pub(super) unsafe_initial_wait: Option<Duration>,
    pub(super) allow_bump_unhealthy: Option<bool>,
    #[serde(deserialize_with = "size::deserialize")]
    pub(super) volatile_memory: Option<u64>,
    pub(super) allow_host: Vec<String>,
    pub(super) connections_per_address: Option<usize>,
    #[serde(deserialize_with = "size::deserialize")]
    pub(super) max_inflight_bytes: Option<u64>,
    pub(super) cluster: ClusterFile,
}

impl File {
    pub(super) fn volatile(&self) -> VolatileFlags {
        VolatileFlags {
            volatile_only: self.volatile_only,
            initial_wait: self.initial_wait,
            unsafe_initial_wait: self.unsafe_initial_wait,
            allow_bump_unhealthy: self.allow_bump_unhealthy,
            volatile_memory: self.volatile_memory,
        }
    }
}

/// The named file must be there; the one in the data directory may be.
pub(super) fn find(flags: &ServeFlags) -> Result<File, Invalid> {
    if let Some(path) = &flags.config {
        let text = fs::read_to_string(path).map_err(|error| cannot_read(path, &error))?;
        return read(path, &text);
    }
    let data = flags.data.as_deref().unwrap_or(Path::new(DATA_DEFAULT));
    let path = data.join(FILE_NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(File::default());
        }
        Err(error) => return Err(cannot_read(&path, &error)),
    };
    let file = read(&path, &text)?;
    if file.data.is_some() {
        return Err(Invalid::new(format!(
            "{} sets data, but was itself found in the data directory; remove the key or pass --config",
            path.display()
        )));
    }
    Ok(file)
}

fn cannot_read(path: &Path, error: &io::Error) -> Invalid {
    Invalid::new(format!("cannot read the settings file {}: {error}", path.display()))
}

pub(super) fn read(path: &Path, text: &str) -> Result<File, Invalid> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        // serde says field; in a settings file it is a key.
        let why = error.message().replace("unknown field", "unknown key");
        Invalid::new(format!("{} line {line}: {why}", path.display()))
    })
}
