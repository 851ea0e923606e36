//! Workers as the store and the registry both know them.

use crate::time::WallTime;

/// A registry of workers: the one place that judges whether they are alive. A server on its own is one registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryId(pub u32);

impl RegistryId {
    /// The registry of a server that has its store to itself.
    pub const ONLY: RegistryId = RegistryId(1);
}

/// A number that a process draws once, so that two processes which use one instance key by mistake are told apart. Fits
/// 2^53, so JSON clients keep it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u64);

impl Nonce {
    /// The largest nonce.
    pub const MAX: u64 = (1 << 53) - 1;

    /// The nonce made of these bits; those beyond 2^53 are left out.
    pub const fn new(bits: u64) -> Self {
        Nonce(bits & Self::MAX)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// How a holder ended. The numbers are what stores keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HolderEnd {
    /// Its lease ran out.
    Expired = 0,
    /// It left by itself.
    Left = 1,
    /// Someone removed it.
    Kicked = 2,
    /// It went on under a new key.
    Succeeded = 3,
    /// It stopped pinging.
    Silent = 4,
    /// Its process or its guardian died, and the other one made sure that nothing of it runs any more.
    Crashed = 5,
}

impl HolderEnd {
    /// All ends, in the order of their numbers.
    pub const ALL: [HolderEnd; 6] = {
        use HolderEnd::*;
        [Expired, Left, Kicked, Succeeded, Silent, Crashed]
    };

    /// The end with this number.
    pub fn from_number(number: u8) -> Option<HolderEnd> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// For people.
    pub const fn sentence(self) -> &'static str {
        match self {
            HolderEnd::Expired => "its lease ran out without a heartbeat",
            HolderEnd::Left => "it left",
            HolderEnd::Kicked => "it was kicked",
            HolderEnd::Succeeded => "its lease lapsed and it went on under a new key",
            HolderEnd::Silent => "it stopped pinging",
            HolderEnd::Crashed => "its process or its guardian died; what it ran was stopped",
        }
    }

    /// True when it went by its own will, so that what it leaves behind does not count as lost.
    pub const fn is_left(self) -> bool {
        matches!(self, HolderEnd::Left)
    }
}

/// Which life of a server: what it gave out as proof of acquaintance is worth nothing in the next one. Compared for equality
/// only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation of a server that starts at this date; `random` keeps two of the same millisecond apart.
    pub const fn begin(at: WallTime, random: u64) -> Self {
        Generation((at.as_millis().unsigned_abs() << 20) | (random & 0xf_ffff))
    }
}
