//! What an operator may choose about one server. Checked once, when the config is built.

use std::time::Duration;

use model::{Invalid, Limits};
use store::Retention;

/// The settings of one server process.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// How the server calls itself to workers and people.
    pub name: String,
    /// The store in words, for `stats` and logs.
    pub store: String,
    /// The lease of a claim whose job and queue have none of their own. 20 s: a lost machine's jobs move on while a
    /// person still looks, and three missed beats (one every 4 s) fit in it.
    pub lease_default: Duration,
    /// Sizes that are refused.
    pub limits: Limits,
    /// How long finished jobs are kept: completed for a day, dead for a week, so that people come back to find them.
    pub retention: Retention,
    /// How long a stopping server waits for open requests.
    pub drain_grace: Duration,
}

impl NodeConfig {
    /// Checks what must hold between the settings.
    pub fn check(self) -> Result<Self, Invalid> {
        Limits::check_lease(self.lease_default)?;
        if self.limits.payload_bytes_max == 0 {
            return Err(Invalid::new(
                "the largest payload is 0 bytes, so no job could carry anything; choose 1 or more",
            ));
        }
        if self.limits.payload_bytes_max > self.limits.batch_bytes_max {
            return Err(Invalid::new(format!(
                "the largest payload ({} bytes) does not fit in the largest batch ({} bytes)",
                self.limits.payload_bytes_max, self.limits.batch_bytes_max
            )));
        }
        Ok(self)
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            name: "tenure".to_owned(),
            store: "memory".to_owned(),
            lease_default: Limits::LEASE_DEFAULT,
            limits: Limits::default(),
            retention: Retention::default(),
            drain_grace: Duration::from_secs(10),
        }
    }
}
