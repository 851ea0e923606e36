//! What can go wrong, by who can do something about it.

use std::io;

/// Why there is no guardian. Nothing was left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its process could not be started.
    #[error("cannot start the guardian: {0}")]
    Spawn(#[source] io::Error),
    /// The isolation that was asked for is not allowed here.
    #[error("a PID namespace is not allowed here: {0}; run as root or choose another isolation")]
    NotAllowed(String),
    /// Jobs are to run as another user, which only root can order.
    #[error("only root can run jobs as another user; start the worker as root, or as that user")]
    NotRoot,
    /// Its process ended or was silent instead of saying that it is ready.
    #[error("the guardian did not get ready: {0}")]
    NotReady(String),
}

/// Why a family does not run. None of them leaves a process behind.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The lease is too far gone to start anything under it, or the worker is leaving.
    #[error("it is too late to start anything under this lease")]
    TooLate,
    /// The program could not be started.
    #[error("{0}")]
    Failed(#[source] io::Error),
    /// Program, arguments and environment are too large to be handed over.
    #[error("program, arguments and environment take {bytes} bytes; {bytes_max} are possible")]
    TooLarge {
        /// What they take.
        bytes: usize,
        /// What is possible.
        bytes_max: usize,
    },
    /// The guardian is gone, and was before it could be asked: the program was certainly not started.
    #[error("the guardian is gone")]
    NoGuardian,
    /// The guardian has ended since it was asked. The program may have run, and may be what ended it.
    #[error(transparent)]
    GuardianLost(#[from] GuardianLost),
}

/// The guardian's process has ended, and with it whatever it could say about its families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guardian is gone; {}", if *.all_gone { "so are its job processes" } else { "job processes may still run" })]
pub struct GuardianLost {
    /// Nothing that it had started runs any more.
    pub all_gone: bool,
}
