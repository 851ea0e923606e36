//! Where the servers under test keep their jobs: in their data directory.

/// Nothing more is needed.
pub(crate) struct Backend;

impl Backend {
    pub(crate) fn new() -> Backend {
        Backend
    }

    /// What a server must be told.
    pub(crate) fn flags(&self) -> Vec<String> {
        Vec::new()
    }
}
