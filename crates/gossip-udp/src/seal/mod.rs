//! Envelopes: who may read and write our messages.
//!
//! ```text
//! sealed   0xA1 · cluster u8 · key number u8 · nonce 12 · ciphertext · tag 16
//! open     0xB1 · cluster 8 · plain bytes · checksum 8
//! ```
//!
//! The upper half of the first byte says that it is ours and which form, the lower half is the version. Sealed means
//! ChaCha20-Poly1305. What is not sent but must be the same at both ends goes into the associated data: the hash of the
//! cluster's label, the first three bytes, and where the envelope belongs, so that none can be taken for another: datagram or
//! stream, and in a stream its session, direction and place.
//!
//! The open form is for tests on one machine. It keeps clusters apart and finds damage, and protects against nobody.

mod key;

use std::sync::atomic::{AtomicU64, Ordering};

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use ring::digest::{SHA256, digest};

pub(crate) use key::random;
pub use key::{KEY_BYTES, KEYS_MAX, Key, KeyError, KeyRing};

use crate::codec::ENVELOPE_BYTES_MAX;

const SEALED_V1: u8 = 0xA1;
const OPEN_V1: u8 = 0xB1;

/// The first bytes of a sealed envelope, before the nonce.
const HEAD_BYTES: usize = 3;
const TAG_BYTES: usize = 16;
const SEALED_BYTES: usize = HEAD_BYTES + NONCE_LEN + TAG_BYTES;
const OPEN_CLUSTER_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 8;
const OPEN_BYTES: usize = 1 + OPEN_CLUSTER_BYTES + CHECKSUM_BYTES;
const CLUSTER_BYTES: usize = 32;
const SESSION_BYTES: usize = 32;
/// Cluster, head, and where it belongs: kind, session, place.
const ASSOCIATED_BYTES: usize = CLUSTER_BYTES + HEAD_BYTES + 1 + SESSION_BYTES + 4;

const _: () = assert!(SEALED_BYTES == ENVELOPE_BYTES_MAX && OPEN_BYTES <= ENVELOPE_BYTES_MAX);

/// How envelopes are made.
#[derive(Clone, Debug)]
pub enum Seal {
    /// Not sealed: for tests on one machine.
    Open,
    /// Sealed with the first of these keys, opened with any.
    Keys(KeyRing),
}

/// Two halves, one from each end of a stream, that were never used before: what was recorded from another stream does not fit.
pub(crate) type Session = [u8; SESSION_BYTES];

/// Where an envelope belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    Datagram,
    /// The n-th frame of a stream's request.
    Request(&'a Session, u32),
    /// The n-th frame of a stream's response.
    Response(&'a Session, u32),
}

/// Why an envelope was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too short to be one.
    #[error("too short")]
    Short,
    /// Not ours, or a version that we do not speak.
    #[error("unknown version {0:#04x}")]
    Version(u8),
    /// Of another cluster.
    #[error("of another cluster")]
    Cluster,
    /// Sealed with a key that we do not have, or open where it must be sealed, or the other way round.
    #[error("sealed with another key")]
    Key,
    /// Damaged, forged, or from another place.
    #[error("damaged or forged")]
    Forged,
}

/// Makes and opens envelopes for one process. Shared by everything that sends.
#[derive(Debug)]
pub struct Sealer {
    cluster: [u8; CLUSTER_BYTES],
    seal: Seal,
    nonces: Nonces,
}

impl Sealer {
    /// Envelopes of the cluster with this label.
    pub fn new(label: &str, seal: Seal) -> Self {
        let cluster = digest(&SHA256, label.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes");
        Sealer { cluster, seal, nonces: Nonces::new() }
    }

    /// Replaces what is in `out` by an envelope around what `write` appends.
    pub fn seal_datagram(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.seal(Place::Datagram, out, write);
    }

    /// What is in the envelope; its bytes are overwritten.
    pub fn open_datagram<'a>(&self, bytes: &'a mut [u8]) -> Result<&'a [u8], Refused> {
        self.open(Place::Datagram, bytes)
    }

    /// True if nothing keeps strangers out.
    pub fn is_open(&self) -> bool {
        matches!(self.seal, Seal::Open)
    }

    pub(crate) fn seal(&self, place: Place<'_>, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        out.clear();
        match &self.seal {
            Seal::Open => {
                out.push(OPEN_V1);
                out.extend_from_slice(&self.cluster[..OPEN_CLUSTER_BYTES]);
                write(out);
                let sum = self.checksum(place, out);
                out.extend_from_slice(&sum);
            }
            Seal::Keys(ring) => {
                let keys = ring.current();
                let (number, key) = keys.sealing();
                let head = [SEALED_V1, self.cluster[0], number];
                let nonce = self.nonces.next();
                out.extend_from_slice(&head);
                out.extend_from_slice(&nonce);
                write(out);
                let associated = Aad::from(self.associated(head, place));
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key
                    .seal_in_place_separate_tag(nonce, associated, &mut out[HEAD_BYTES + NONCE_LEN..])
                    .expect("only a text of 256 GiB is too long");
                out.extend_from_slice(tag.as_ref());
            }
        }
    }

    pub(crate) fn open<'a>(&self, place: Place<'_>, bytes: &'a mut [u8]) -> Result<&'a [u8], Refused> {
        match (bytes.first(), &self.seal) {
            (None, _) => Err(Refused::Short),
            (Some(&SEALED_V1), Seal::Keys(ring)) => self.open_sealed(ring, place, bytes),
            (Some(&OPEN_V1), Seal::Open) => self.open_open(place, bytes),
            (Some(&(SEALED_V1 | OPEN_V1)), _) => Err(Refused::Key),
            (Some(version), _) => Err(Refused::Version(*version)),
        }
    }

    fn open_sealed<'a>(
        &self,
        ring: &KeyRing,
        place: Place<'_>,
        bytes: &'a mut [u8],
    ) -> Result<&'a [u8], Refused> {
        if bytes.len() < SEALED_BYTES {
            return Err(Refused::Short);
        }
        let (head, rest) = bytes.split_first_chunk_mut::<HEAD_BYTES>().expect("long enough");
        let (nonce, sealed) = rest.split_first_chunk_mut::<NONCE_LEN>().expect("long enough");
        let [_, cluster, number] = *head;
        if cluster != self.cluster[0] {
            return Err(Refused::Cluster);
        }
        let keys = ring.current();
        let key: &LessSafeKey = keys.opening(number).ok_or(Refused::Key)?;
        let associated = Aad::from(self.associated(*head, place));
        let nonce = Nonce::assume_unique_for_key(*nonce);
        key.open_in_place(nonce, associated, sealed).map(|plain| &*plain).map_err(|_| Refused::Forged)
    }

    fn open_open<'a>(&self, place: Place<'_>, bytes: &'a [u8]) -> Result<&'a [u8], Refused> {
        if bytes.len() < OPEN_BYTES {
            return Err(Refused::Short);
        }
        let (covered, sum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        let (cluster, plain) = covered[1..].split_at(OPEN_CLUSTER_BYTES);
        if cluster != &self.cluster[..OPEN_CLUSTER_BYTES] {
            return Err(Refused::Cluster);
        }
        if sum != self.checksum(place, covered) {
            return Err(Refused::Forged);
        }
        Ok(plain)
    }

    fn associated(&self, head: [u8; HEAD_BYTES], place: Place<'_>) -> [u8; ASSOCIATED_BYTES] {
        let (kind, session, index) = match place {
            Place::Datagram => (0, &[0; SESSION_BYTES], 0),
            Place::Request(session, index) => (1, session, index),
            Place::Response(session, index) => (2, session, index),
        };
        let mut bytes = [0; ASSOCIATED_BYTES];
        let parts: [&[u8]; 5] = [&self.cluster, &head, &[kind], session, &index.to_le_bytes()];
        let mut rest = &mut bytes[..];
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        bytes
    }

    /// FNV-1a, 64 bits: any change of one byte changes it.
    fn checksum(&self, place: Place<'_>, covered: &[u8]) -> [u8; CHECKSUM_BYTES] {
        let associated = self.associated([OPEN_V1, 0, 0], place);
        let hash = associated.iter().chain(covered).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash.to_le_bytes()
    }
}

/// Numbers used once: counted from a start that is random for each process, over all 96 bits. Two processes with one key would
/// have to start within each other's count.
#[derive(Debug)]
struct Nonces {
    start: u128,
    used: AtomicU64,
}

impl Nonces {
    fn new() -> Self {
        Nonces { start: u128::from_le_bytes(random()), used: AtomicU64::new(0) }
    }

    fn next(&self) -> [u8; NONCE_LEN] {
        let number = self.start.wrapping_add(self.used.fetch_add(1, Ordering::Relaxed).into());
        *number.to_le_bytes().first_chunk().expect("16 bytes are more than 12")
    }
}

#[cfg(test)]
mod tests;
