//! Why a verb as a whole did not happen. Per-job refusals are values in the verb's answer, not errors.

use model::{ErrorKind, Invalid};
use thiserror::Error;

/// The verb did not happen; nothing of the batch was applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// The store cannot serve now (full disk, lost connection, shutting down). Trying again may help.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The input breaks a rule that only the store can check.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// What is there does not allow it now.
    #[error("{0}")]
    Refused(String),
    /// There is no room for it in memory now. Trying again helps when some of what is there has gone.
    #[error("{0}")]
    Full(String),
    /// The data is damaged or a statement is wrong. Trying again will not help.
    #[error("store damaged: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Who can do something about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Unavailable(_) => ErrorKind::Unavailable,
            StoreError::Invalid(_) => ErrorKind::Invalid,
            StoreError::Refused(_) => ErrorKind::Refused,
            StoreError::Full(_) => ErrorKind::Throttled,
            StoreError::Corrupt(_) => ErrorKind::Internal,
        }
    }
}
