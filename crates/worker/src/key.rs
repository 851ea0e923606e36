//! The worker's instance key: new at every start of the process, and whenever the one before is over, so that a worker is
//! never taken for its predecessor. It begins with the worker's name (its host, unless it was given one) and the
//! process id, for people; only the random part makes it unique.

use model::WorkerKey;

/// Longest part of the name that is used.
const NAME_CHARS_MAX: usize = 32;

/// A fresh key such as `build7-4711-9f3a5c2e81d04b76`.
pub(crate) fn fresh(name: &str) -> WorkerKey {
    let key = format!("{}-{}-{:016x}", short(name), std::process::id(), rand::random::<u64>());
    WorkerKey::new(&key).expect("the name is cleaned, the rest is letters and digits, and it is short")
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn short(name: &str) -> String {
    let label = name.split('.').next().unwrap_or_default();
    let clean: String =
        label.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(NAME_CHARS_MAX).collect();
    if clean.is_empty() { "worker".to_owned() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_new_and_any_name_will_do() {
        assert_ne!(fresh("w"), fresh("w"));
        assert_eq!(short("build7.example.org"), "build7");
        assert_eq!(short("größe 1"), "gre1");
        assert_eq!(short("…"), "worker");
        assert_eq!(short(&"h".repeat(200)).len(), NAME_CHARS_MAX);
    }
}
