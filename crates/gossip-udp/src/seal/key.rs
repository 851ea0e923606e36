//! Keys, and the ring that holds those in use.
//!
//! A key is changed in three steps, each at all nodes before the next: the new one is added at the end (everybody can open
//! it), then it comes first (everybody seals with it), then the old one goes.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Most keys in a ring.
pub const KEYS_MAX: usize = 8;

/// A secret that all nodes of a cluster share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Key(bytes)
    }

    /// A new key from the machine's randomness.
    ///
    /// # Panics
    ///
    /// If the machine has none.
    pub fn generate() -> Self {
        Key(random())
    }

    /// The key spelled as 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let digits = text.as_bytes();
        if digits.len() != 2 * KEY_BYTES {
            return Err(KeyError::Spelling);
        }
        let mut bytes = [0; KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Key(bytes))
    }

    /// The 64 hexadecimal digits. Secret.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What a datagram says about the key that seals it. It follows from the key, so the order in which nodes hold their keys
    /// does not matter; it tells nothing about the key that helps to guess it.
    pub fn number(&self) -> u8 {
        let mut hash = Context::new(&SHA256);
        hash.update(b"number of a gossip key");
        hash.update(&self.0);
        hash.finish().as_ref()[0]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.number())
    }
}

/// These keys cannot be used. The ring is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not 64 hexadecimal digits.
    #[error("a key is 64 hexadecimal digits")]
    Spelling,
    /// No key, or too many.
    #[error("{0} keys; at least 1 and at most {KEYS_MAX} are needed")]
    Count(usize),
    /// Two of the keys have the same number, or are the same; one in 256 pairs of keys does.
    #[error("two keys have the number {0}; generate another")]
    SameNumber(u8),
}

/// The keys in use: the first seals, any opens. A handle: its clones see what [`replace`](Self::replace) does.
#[derive(Clone, Debug)]
pub struct KeyRing(Arc<RwLock<Arc<Keys>>>);

impl KeyRing {
    /// A ring with these keys.
    pub fn new(keys: &[Key]) -> Result<Self, KeyError> {
        Ok(KeyRing(Arc::new(RwLock::new(Arc::new(Keys::new(keys)?)))))
    }

    /// From now on these keys are in use, also for drivers that are running.
    pub fn replace(&self, keys: &[Key]) -> Result<(), KeyError> {
        let keys = Arc::new(Keys::new(keys)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// The numbers of the keys, the sealing one first.
    pub fn numbers(&self) -> Vec<u8> {
        self.current().0.iter().map(|(number, _)| *number).collect()
    }

    pub(super) fn current(&self) -> Arc<Keys> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keys ready for use, with their numbers: at least one, no number twice.
#[derive(Debug)]
pub(super) struct Keys(Vec<(u8, LessSafeKey)>);

impl Keys {
    fn new(keys: &[Key]) -> Result<Self, KeyError> {
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(KeyError::Count(keys.len()));
        }
        let mut ready = Vec::with_capacity(keys.len());
        for key in keys {
            let number = key.number();
            if ready.iter().any(|(other, _)| *other == number) {
                return Err(KeyError::SameNumber(number));
            }
            let unbound =
                UnboundKey::new(&CHACHA20_POLY1305, &key.0).expect("the length is this algorithm's");
            ready.push((number, LessSafeKey::new(unbound)));
        }
        Ok(Keys(ready))
    }

    pub(super) fn sealing(&self) -> (u8, &LessSafeKey) {
        let (number, key) = &self.0[0];
        (*number, key)
    }

    pub(super) fn opening(&self, number: u8) -> Option<&LessSafeKey> {
        self.0.iter().find(|(other, _)| *other == number).map(|(_, key)| key)
    }
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the machine has randomness");
    bytes
}

fn hex_digit(digit: u8) -> Result<u8, KeyError> {
    char::from(digit).to_digit(16).map(|value| value as u8).ok_or(KeyError::Spelling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spelled_as_they_are_read() {
        let key = Key::generate();
        assert_eq!(Key::from_hex(&key.to_hex()), Ok(key.clone()));
        assert_eq!(Key::from_hex(&key.to_hex().to_uppercase()), Ok(key.clone()));
        assert_eq!(Key::from_hex(&key.to_hex()[1..]), Err(KeyError::Spelling));
        assert_eq!(
            Key::from_hex(&key.to_hex().replacen(char::is_alphanumeric, "g", 1)),
            Err(KeyError::Spelling)
        );
        assert_ne!(Key::generate(), key);
        assert!(!format!("{key:?}").contains(&key.to_hex()[..8]), "a key is not shown");
    }

    #[test]
    fn rings_refuse_what_they_could_not_tell_apart() {
        let key = Key::from_bytes([7; KEY_BYTES]);
        assert_eq!(KeyRing::new(&[]).map(|_| ()), Err(KeyError::Count(0)));
        assert_eq!(
            KeyRing::new(&vec![key.clone(); KEYS_MAX + 1]).map(|_| ()),
            Err(KeyError::Count(KEYS_MAX + 1))
        );
        let ring = KeyRing::new(std::slice::from_ref(&key)).expect("one key is enough");
        assert_eq!(ring.replace(&[key.clone(), key.clone()]), Err(KeyError::SameNumber(key.number())));
        assert_eq!(ring.numbers(), [key.number()], "the ring is as it was");
    }
}
