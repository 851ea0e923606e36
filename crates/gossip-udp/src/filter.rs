//! Cuts the network on purpose: tests of whole processes need a link that is dead, or dead in one direction, without any
//! privilege. Nothing is cut unless somebody says so.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// Which links are cut. A handle: its clones see what [`set`](Self::set) does.
#[derive(Clone, Debug, Default)]
pub struct Filter(Arc<RwLock<Cuts>>);

/// Addresses to which we are cut, by direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// What comes from there does not arrive.
    pub from: BTreeSet<SocketAddr>,
    /// What we send there does not leave.
    pub to: BTreeSet<SocketAddr>,
}

impl Filter {
    /// From now on exactly these are cut.
    pub fn set(&self, cuts: Cuts) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = cuts;
    }

    pub(crate) fn cuts_from(&self, addr: SocketAddr) -> bool {
        self.with(|cuts| cuts.from.contains(&addr))
    }

    pub(crate) fn cuts_to(&self, addr: SocketAddr) -> bool {
        self.with(|cuts| cuts.to.contains(&addr))
    }

    /// A stream needs both directions.
    pub(crate) fn cuts_streams(&self, addr: SocketAddr) -> bool {
        self.cuts_from(addr) || self.cuts_to(addr)
    }

    fn with(&self, question: impl FnOnce(&Cuts) -> bool) -> bool {
        question(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cuts {
    /// Reads one cut a line: `from ADDR`, `to ADDR` or `both ADDR`; or says which line is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cuts = Cuts::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let wrong = || format!("`{line}` is not `from`, `to` or `both` and an address");
            let (direction, addr) = line.split_once(' ').ok_or_else(wrong)?;
            let addr: SocketAddr = addr.trim().parse().map_err(|_| wrong())?;
            if !matches!(direction, "from" | "to" | "both") {
                return Err(wrong());
            }
            if direction != "to" {
                cuts.from.insert(addr);
            }
            if direction != "from" {
                cuts.to.insert(addr);
            }
        }
        Ok(cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_read_line_by_line() {
        let addr = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let cuts =
            Cuts::parse("from 127.0.0.1:1\n\n to 127.0.0.1:2 \nboth 127.0.0.1:3\n").expect("well formed");
        assert_eq!(cuts.from, [addr(1), addr(3)].into());
        assert_eq!(cuts.to, [addr(2), addr(3)].into());
        assert!(Cuts::parse("over 127.0.0.1:1").is_err() && Cuts::parse("to here").is_err());
        assert_eq!(Cuts::parse(""), Ok(Cuts::default()));
    }
}
