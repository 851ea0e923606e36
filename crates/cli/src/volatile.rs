//! The settings of `serve` that are about volatile queues.

use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use model::Invalid;
use node::VolatileConfig;
use rpc::wire;
use store::MemoryStore;

use crate::config::StoreKind;
use crate::{duration, size};

/// The flags. Absent means: ask the environment, then the file, then the default.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct VolatileFlags {
    /// Write nothing to disk: every queue is volatile, as with --store volatile
    #[arg(long, env = "TENURE_VOLATILE_ONLY", hide_env_values = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) volatile_only: Option<bool>,
    /// Volatile queues wait at least this long for workers that do not come back; needed once after leases were shortened, with
    /// the old lease and a second more [default: the lease and a second]
    #[arg(long, env = "TENURE_INITIAL_WAIT", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) initial_wait: Option<Duration>,
    /// Volatile queues wait no longer than this, though a job that is still running may then be started beside itself
    #[arg(long, env = "TENURE_UNSAFE_INITIAL_WAIT", hide_env_values = true, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) unsafe_initial_wait: Option<Duration>,
    /// Give the seat of a worker that is not healthy to one on another machine
    #[arg(long, env = "TENURE_ALLOW_BUMP_UNHEALTHY", hide_env_values = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) allow_bump_unhealthy: Option<bool>,
    /// Memory that volatile jobs may take; when they do, clients wait until some have ended [default: 1GiB]
    #[arg(long, env = "TENURE_VOLATILE_MEMORY", hide_env_values = true, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) volatile_memory: Option<u64>,
}

/// Memory counts as full when less than this part of it is left.
const FULL_PART: u64 = 50;

/// The least that volatile jobs must be allowed: the largest batch fits several times.
const MEMORY_LEAST: u64 = 64 << 20;

impl VolatileFlags {
    /// What these say, and where they are silent, what the others do.
    pub(crate) fn or(self, file: VolatileFlags) -> VolatileFlags {
        // Whoever names one wait does not want the other.
        let names_wait = self.initial_wait.is_some() || self.unsafe_initial_wait.is_some();
        let (initial_wait, unsafe_initial_wait) = if names_wait {
            (self.initial_wait, self.unsafe_initial_wait)
        } else {
            (file.initial_wait, file.unsafe_initial_wait)
        };
        VolatileFlags {
            volatile_only: self.volatile_only.or(file.volatile_only),
            initial_wait,
            unsafe_initial_wait,
            allow_bump_unhealthy: self.allow_bump_unhealthy.or(file.allow_bump_unhealthy),
            volatile_memory: self.volatile_memory.or(file.volatile_memory),
        }
    }

    /// The bytes that volatile jobs may take.
    pub(crate) fn memory(&self) -> Result<usize, Invalid> {
        let bytes = self.volatile_memory.unwrap_or(MemoryStore::VOLATILE_BYTES_DEFAULT as u64);
        if bytes < MEMORY_LEAST {
            return Err(Invalid::new(format!(
                "volatile-memory of {} is too little; give volatile jobs {} or more",
                size::show(bytes),
                size::show(MEMORY_LEAST)
            )));
        }
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// The settings, if this store has volatile queues at all.
    pub(crate) fn check(self, store: StoreKind) -> Result<VolatileConfig, Invalid> {
        let has_volatile = matches!(store, StoreKind::Sqlite | StoreKind::Volatile);
        let given = [
            ("initial-wait", self.initial_wait.is_some()),
            ("unsafe-initial-wait", self.unsafe_initial_wait.is_some()),
            ("allow-bump-unhealthy", self.allow_bump_unhealthy == Some(true)),
            ("volatile-memory", self.volatile_memory.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given && !has_volatile) {
            return Err(Invalid::new(format!(
                "{name} is about volatile queues, and the {} store has none; they need --store sqlite or \
                 --volatile-only",
                store.word()
            )));
        }
        if self.initial_wait.is_some() && self.unsafe_initial_wait.is_some() {
            return Err(Invalid::new(
                "initial-wait makes the wait longer and unsafe-initial-wait cuts it short; choose one",
            ));
        }
        Ok(VolatileConfig {
            initial_wait: self.initial_wait,
            unsafe_initial_wait: self.unsafe_initial_wait,
            allow_bump_unhealthy: self.allow_bump_unhealthy.unwrap_or(false),
        })
    }
}

/// Whether clients of volatile queues may have to wait for room.
pub(crate) fn is_full(status: &wire::MusterStatus) -> bool {
    let left = status.bytes_max.saturating_sub(status.bytes);
    status.bytes > 0 && left <= status.bytes_max / FULL_PART
}

/// The store that flags or a file name, if they do.
pub(crate) fn named_store(
    store: Option<StoreKind>,
    volatile_only: Option<bool>,
) -> Result<Option<StoreKind>, Invalid> {
    match (store, volatile_only) {
        (None | Some(StoreKind::Volatile), Some(true)) => Ok(Some(StoreKind::Volatile)),
        (Some(other), Some(true)) => Err(Invalid::new(format!(
            "volatile-only writes nothing to disk, but the store is to be {}; choose one of them",
            other.word()
        ))),
        (store, _) => Ok(store),
    }
}
