//! The worker's instance key: new at every start of the process, so that a restarted worker is never taken for its
//! predecessor. It begins with the host and process id for people; only the random part makes it unique.

use model::WorkerKey;

/// Longest part of the host name that is used.
const HOST_CHARS_MAX: usize = 32;

/// A fresh key such as `build7-4711-9f3a5c2e81d04b76`.
pub(crate) fn fresh() -> WorkerKey {
    let key = format!("{}-{}-{:016x}", short_host(&host_name()), std::process::id(), rand::random::<u64>());
    WorkerKey::new(&key)
        .expect("host characters are cleaned, the rest is letters and digits, and it is short")
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn short_host(host: &str) -> String {
    let label = host.split('.').next().unwrap_or_default();
    let clean: String =
        label.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(HOST_CHARS_MAX).collect();
    if clean.is_empty() { "worker".to_owned() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_new_and_any_host_name_will_do() {
        assert_ne!(fresh(), fresh());
        assert_eq!(short_host("build7.example.org"), "build7");
        assert_eq!(short_host("größe 1"), "gre1");
        assert_eq!(short_host("…"), "worker");
        assert_eq!(short_host(&"h".repeat(200)).len(), HOST_CHARS_MAX);
    }
}
