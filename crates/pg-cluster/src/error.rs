//! What can go wrong, in words that say what to do about it.

use std::io;
use std::process::ExitStatus;

/// Why a cluster did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// PostgreSQL is not installed, or not where it is looked for.
    #[error(
        "PostgreSQL's programs ({needed}) are neither on the path nor in /usr/lib/postgresql/*/bin: \
         install PostgreSQL or run `cargo xtask postgres`"
    )]
    BinariesMissing {
        /// Those that are needed.
        needed: String,
    },
    /// We are root, as whom the server refuses to run, and there is nobody else to run it as.
    #[error("PostgreSQL refuses to run as root: add a user `postgres` or `nobody`, or run as somebody else")]
    NoServerUser,
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A program could be started and failed.
    #[error("{program} failed, {status}: {said}")]
    Failed {
        /// Which one.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// What it and the server said.
        said: String,
    },
    /// Something that should have come by itself did not.
    #[error("{what} did not happen within {seconds} s; the server's log ends with: {log}")]
    TooLate {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
        /// The end of the server's log.
        log: String,
    },
}

impl ClusterError {
    /// For `map_err`: the operating system refused to do this.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ClusterError {
        let what = what.into();
        move |source| ClusterError::System { what, source: source.into() }
    }
}
