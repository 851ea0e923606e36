//! Cuts between real processes, for tests: a file says whom nothing is sent to and whom nothing is taken from. It needs no
//! privileges, and it can be changed while the server runs.
//!
//! ```text
//! to 127.0.0.1:7118
//! from 127.0.0.1:7218
//! both 127.0.0.1:7318
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gossip_udp::{Cuts, Filter};
use tracing::{info, warn};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Follows the file for as long as the server runs. No file means no cut.
pub(crate) async fn follow(path: PathBuf, filter: Filter) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    let mut last = String::new();
    loop {
        ticks.tick().await;
        let text = fs::read_to_string(&path).unwrap_or_default();
        if text == last {
            continue;
        }
        match Cuts::parse(&text) {
            Ok(cuts) => {
                info!(?cuts, "messages are lost on purpose");
                filter.set(cuts);
            }
            Err(error) => warn!(error, "the cuts stay as they are"),
        }
        last = text;
    }
}

/// The cuts as of now; none without a file.
pub(crate) fn read(path: &Path) -> Cuts {
    fs::read_to_string(path).ok().and_then(|text| Cuts::parse(&text).ok()).unwrap_or_default()
}
