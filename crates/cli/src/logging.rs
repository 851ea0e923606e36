//! Logs of the long-running commands: to stderr, text for people and JSON for machines. They never wait for its reader.

use std::io::{self, IsTerminal};
use std::panic;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use tracing::{Level, error};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::output::Output;
use crate::stderr;
use crate::stderr::Line;

/// The crates whose events follow `--log-level`; libraries below them speak up from `warn`.
const OURS: [&str; 9] = [
    env!("CARGO_CRATE_NAME"),
    "node",
    "worker",
    "store",
    "store_sqlite",
    "store_postgres",
    "rpc",
    "schedule",
    "gossip_udp",
];

/// What an operator may choose about logs.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct LogArgs {
    /// Form of the log [default: text on a terminal, json otherwise]
    #[arg(long, env = "TENURE_LOG_FORMAT", hide_env_values = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// How much is logged [default: info]
    #[arg(long, env = "TENURE_LOG_LEVEL", hide_env_values = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The least important event that is still logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    const fn level(self) -> Level {
        match self {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Trace => Level::TRACE,
        }
    }
}

/// What h2 may say: it warns of each connection whose client does wrong, so that one could fill the log. Whoever asks for more than
/// usual hears it.
fn noisy(level: Level) -> Level {
    if level > Level::INFO { Level::WARN } else { Level::ERROR }
}

/// Starts logging for the rest of the process. Lines are written from [`stderr::start_thread`] on.
pub(crate) fn start(args: LogArgs, output: &Output) {
    let default = if output.is_quiet() { LogLevel::Error } else { LogLevel::Info };
    let level = args.log_level.unwrap_or(default).level();
    let is_text = match args.log_format {
        Some(format) => format == LogFormat::Text,
        None => io::stderr().is_terminal(),
    };
    let queue = stderr::queue();
    let line = move || Line { queue: queue.clone(), is_text };
    let layer: Box<dyn Layer<Registry> + Send + Sync> = if is_text {
        fmt::layer().with_writer(line).with_ansi(output.has_stderr_color()).with_target(false).boxed()
    } else {
        fmt::layer().with_writer(line).json().flatten_event(true).with_ansi(false).boxed()
    };
    let targets = Targets::new()
        .with_default(LevelFilter::from_level(level.min(Level::WARN)))
        .with_target("h2", LevelFilter::from_level(noisy(level)))
        .with_targets(OURS.map(|name| (name, level)));
    // A second start keeps the first subscriber, which is what tests in one process need.
    let _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
    panic::set_hook(Box::new(|panic| {
        error!(%panic, "a thread panicked");
        stderr::flush();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_do_not_fill_the_log_unless_more_is_asked_for() {
        for level in [LogLevel::Error, LogLevel::Warn, LogLevel::Info] {
            assert_eq!(noisy(level.level()), Level::ERROR);
        }
        assert_eq!(noisy(LogLevel::Debug.level()), Level::WARN);
    }
}
