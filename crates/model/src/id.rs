//! Identities. Each is a type of its own, so that a swap of arguments does not compile.

use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use uuid::Uuid;

use crate::error::Invalid;
use crate::text::Text;
use crate::time::WallTime;

/// A job's identity: a UUID, version 7 unless the client supplied another. Version 8 is kept for jobs of volatile queues, whose
/// ids are made by [`ClientId::job`](crate::ClientId::job).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Two words: ids are copied and compared all the time.
    high: u64,
    low: u64,
}

impl JobId {
    /// A version 7 id: ordered by `at`, made unique by `random`.
    pub fn v7(at: WallTime, random: [u8; 10]) -> Self {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        Self::from_bytes(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().into_bytes())
    }

    /// The id with these 16 bytes, big-endian, so that byte order is time order.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::from_u128(u128::from_be_bytes(bytes))
    }

    /// The id's 16 bytes, big-endian.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.to_u128().to_be_bytes()
    }

    /// The id with this number.
    pub const fn from_u128(number: u128) -> Self {
        JobId { high: (number >> 64) as u64, low: number as u64 }
    }

    /// The id as one number, in the same order.
    pub const fn to_u128(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// The id of which these are the upper and the lower half of the number.
    pub const fn from_halves([high, low]: [u64; 2]) -> Self {
        JobId { high, low }
    }

    /// The upper and the lower half of the number.
    pub const fn halves(self) -> [u64; 2] {
        [self.high, self.low]
    }
}

impl FromStr for JobId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::try_parse(text).map(|id| JobId::from_u128(id.as_u128())).map_err(|_| {
            Invalid::new(format!(
                "job id {text:?} is not a UUID such as 0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f"
            ))
        })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.to_u128()).hyphenated().fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fencing token of one claim: minted by the store at every claim, strictly increasing per job, never rewound.
/// Zero means "never claimed".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(i64);

impl Fence {
    /// A job that was never claimed has this fence.
    pub const NONE: Fence = Fence(0);

    /// The fence with this number.
    pub const fn new(number: i64) -> Self {
        Fence(number)
    }

    /// The number; fits 2^53, so JSON clients keep it exactly.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One claim of one job: what a holder must present with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// The job.
    pub job: JobId,
    /// The fence of the claim.
    pub fence: Fence,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $bytes_max:expr, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Text);

        impl $name {
            /// The longest allowed name, in bytes.
            pub const BYTES_MAX: usize = $bytes_max;

            /// Takes the text if it keeps the rules for this name.
            pub fn new(text: &str) -> Result<Self, Invalid> {
                if text.is_empty() {
                    return Err(Invalid::new(concat!($what, " must not be empty")));
                }
                if text.len() > Self::BYTES_MAX {
                    return Err(Invalid::new(format!(
                        concat!($what, " has {} bytes; at most {} are allowed"),
                        text.len(),
                        Self::BYTES_MAX
                    )));
                }
                let check: fn(char) -> bool = $check;
                if let Some(bad) = text.chars().find(|c| !check(*c)) {
                    return Err(Invalid::new(format!(concat!($what, " must not contain {:?}"), bad)));
                }
                Ok($name(Text::new(text)))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    };
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn is_printable(c: char) -> bool {
    !c.is_control()
}

name_type!(
    /// A queue's name: up to 128 bytes of `[A-Za-z0-9._-]`.
    QueueName, "queue name", 128, is_name_char
);
name_type!(
    /// What sort of work a job is; handlers are chosen by it. Up to 128 bytes of `[A-Za-z0-9._-]`.
    Kind, "kind", 128, is_name_char
);
name_type!(
    /// A worker's instance key: new at every start of the process, never a host or pod name.
    WorkerKey, "worker key", 128, |c| c.is_ascii_graphic()
);
name_type!(
    /// The stable place that a worker may sit in, a host or a shard: one instance at a time. Up to 128 bytes of
    /// `[A-Za-z0-9._-]`.
    Seat, "seat", 128, is_name_char
);
name_type!(
    /// Exclusive among the live jobs of a queue.
    UniqueKey, "unique key", 512, is_printable
);
name_type!(
    /// Makes a repeated enqueue a no-op for 24 hours.
    RequestId, "request id", 128, is_printable
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v7_ids_sort_by_time() {
        let early = JobId::v7(WallTime::from_millis(1_000), [0xff; 10]);
        let late = JobId::v7(WallTime::from_millis(1_001), [0; 10]);
        assert!(early < late);
        assert!(early.to_bytes() < late.to_bytes());
        assert_eq!(early.to_string().parse::<JobId>(), Ok(early));
    }

    #[test]
    fn names_are_bounded_and_clean() {
        assert!(QueueName::new("mail.high-prio_1").is_ok());
        assert_eq!(QueueName::new("a b").unwrap_err().0, "queue name must not contain ' '");
        assert_eq!(QueueName::new("").unwrap_err().0, "queue name must not be empty");
        assert!(QueueName::new(&"q".repeat(128)).is_ok());
        assert!(QueueName::new(&"q".repeat(129)).is_err());
        assert!(UniqueKey::new(&"k".repeat(10_000)).unwrap_err().0.contains("at most 512"));
        assert!(UniqueKey::new("user 7 / welcome ✓").is_ok());
    }
}
