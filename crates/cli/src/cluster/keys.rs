//! The keys of a cluster: 32 bytes each, as hex or base64, one for each line. The first seals, all of them open; so a key is
//! changed by adding the new one everywhere, moving it to the front everywhere, and removing the old one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use gossip_udp::{Key, KeyRing};
use model::Invalid;
use rpc::json;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::secret_file;

/// How often the file is looked at. SIGHUP is quicker.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// Nowhere: datagrams travel as they are.
    None,
    /// From the environment.
    Given(Vec<Key>),
    /// From a file, which may change.
    File(PathBuf),
}

impl KeySource {
    /// The keys as of now.
    pub(crate) fn read(&self) -> Result<Vec<Key>, Invalid> {
        match self {
            KeySource::None => Ok(Vec::new()),
            KeySource::Given(keys) => Ok(keys.clone()),
            KeySource::File(path) => {
                let text = secret_file::read(path).map_err(|error| {
                    Invalid::new(format!("cannot read the cluster's keys in {}: {error}", path.display()))
                })?;
                parse(&text).map_err(|error| Invalid::new(format!("{}: {}", path.display(), error.0)))
            }
        }
    }

    pub(crate) const fn is_none(&self) -> bool {
        matches!(self, KeySource::None)
    }

    /// When the file or its mode was last changed, and its size.
    fn stamp(&self) -> Option<[i64; 3]> {
        let KeySource::File(path) = self else { return None };
        let meta = fs::metadata(path).ok()?;
        Some([meta.ctime(), meta.ctime_nsec(), meta.size() as i64])
    }
}

/// Follows the file for as long as the server runs. A file that cannot be read changes nothing.
pub(crate) async fn follow(source: KeySource, ring: KeyRing, mut keys: Vec<Key>) {
    let mut stamp = source.stamp();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    loop {
        let asked = tokio::select! {
            _ = ticks.tick() => false,
            _ = hangups.recv() => true,
        };
        let now = source.stamp();
        if !asked && now == stamp {
            continue;
        }
        stamp = now;
        match source.read() {
            Ok(read) if read == keys => {}
            Ok(read) => match ring.replace(&read) {
                Ok(()) => {
                    // Numbers tell keys apart and nothing else about them.
                    info!(numbers = ?ring.numbers(), "cluster keys changed; the first one seals");
                    keys = read;
                }
                Err(error) => warn!(%error, "the cluster's keys stay as they are"),
            },
            Err(error) => warn!(error = error.0, "the cluster's keys stay as they are"),
        }
    }
}

/// Reads keys: one in each line, `#` begins a remark.
pub(crate) fn parse(text: &str) -> Result<Vec<Key>, Invalid> {
    let mut keys: Vec<Key> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let word = line.split('#').next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        // The line itself is a secret, and stays out of the message.
        let key = key(word).ok_or_else(|| {
            Invalid::new(format!(
                "line {} is not a key; `tenure nodes key` makes one (32 bytes as base64 or hex)",
                number + 1
            ))
        })?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Err(Invalid::new("there is no key; `tenure nodes key` makes one"));
    }
    Ok(keys)
}

fn key(word: &str) -> Option<Key> {
    let from_base64 = || json::base64_decode(word)?.try_into().ok().map(Key::from_bytes);
    Key::from_hex(word).ok().or_else(from_base64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_hex_and_as_base64() {
        let hex = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
        let base64 = json::base64_encode(&[7; 32]);
        let keys = parse(&format!("# ours\n\n{hex}  # until May\n{base64}\n{base64}\n")).unwrap();
        assert_eq!(keys.len(), 2, "a repeated key counts once");
        assert_eq!(keys[0].to_hex(), hex.to_lowercase());
        assert_eq!(keys[1], Key::from_bytes([7; 32]));
    }

    #[test]
    fn what_is_no_key_is_named_by_its_line_and_not_shown() {
        for text in ["secret", "c2hvcnQ=", &"+1".repeat(32), &"ä".repeat(32)] {
            let error = parse(&format!("# keys\n{text}")).unwrap_err().0;
            assert!(error.starts_with("line 2 is not a key") && !error.contains(text), "{error}");
        }
        assert!(parse("\n# nothing\n").unwrap_err().0.contains("there is no key"));
    }
}
