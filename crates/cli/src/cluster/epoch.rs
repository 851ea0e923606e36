//! The counter of a node's starts, in its data directory. Raised and on disk before anything is said under the new number.
//!
//! The file stays locked as long as the process lives: two servers on one directory would otherwise read the same number and
//! be the same start of the same node to everybody else.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use swim::Epoch;

use crate::exit::Failure;

const FILE: &str = "node-epoch";
/// More than a number has; what is longer is none, and not shown whole.
const TEXT_BYTES_MAX: u64 = 32;

/// The counter, ours alone.
#[derive(Debug)]
pub(crate) struct Epochs {
    file: File,
    path: PathBuf,
    last: Epoch,
}

impl Epochs {
    /// Opens the counter in `data`, both created if they are not there. Without a file this is the first start; should others
    /// remember more of this node, they say so, and [`raise`](Self::raise) goes above it.
    pub(crate) fn open(data: &Path) -> Result<Epochs, Failure> {
        let path = data.join(FILE);
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("cannot keep the node's epoch in {}: {error}", path.display()))
        };
        fs::create_dir_all(data).map_err(|error| failed(&error))?;
        let options = File::options().create(true).truncate(false).read(true).write(true).clone();
        let file = options.open(&path).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(failed(&"another server uses this data directory; give each one of its own"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        let mut text = Vec::new();
        (&file).take(TEXT_BYTES_MAX).read_to_end(&mut text).map_err(|error| failed(&error))?;
        let text = String::from_utf8_lossy(&text);
        let last = parse(&text).ok_or_else(|| {
            failed(&format_args!(
                "it holds {text:?}, which is no number; write the epoch that `tenure nodes show` knows on another \
                 server, or remove the file to begin at 1"
            ))
        })?;
        Ok(Epochs { file, path, last })
    }

    /// The next epoch: above all that were used here, and above `than`. On disk when this returns.
    pub(crate) fn raise(&mut self, than: Epoch) -> io::Result<Epoch> {
        let next = self.last.max(than).0.checked_add(1).ok_or_else(|| {
            io::Error::other(format!("the epoch in {} cannot grow any more", self.path.display()))
        })?;
        // As long as the one before, at the same place, in one write: never half of each.
        self.file.rewind()?;
        self.file.write_all(format!("{next:010}\n").as_bytes())?;
        self.file.sync_all()?;
        if self.last == Epoch(0) {
            // The file's own name must be on disk, too.
            File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        }
        self.last = Epoch(next);
        Ok(self.last)
    }
}

/// Nothing is 0: no start yet.
fn parse(text: &str) -> Option<Epoch> {
    match text.trim_end_matches('\n') {
        "" => Some(Epoch(0)),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok().map(Epoch),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_has_a_higher_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        for start in 1..=12 {
            assert_eq!(Epochs::open(&data).unwrap().raise(Epoch(0)).unwrap(), Epoch(start));
        }
        let mut epochs = Epochs::open(&data).unwrap();
        assert_eq!(epochs.raise(Epoch(70)).unwrap(), Epoch(71), "others know a higher one");
        assert_eq!(epochs.raise(Epoch(5)).unwrap(), Epoch(72), "and it never goes back");
        drop(epochs);
        assert_eq!(Epochs::open(&data).unwrap().raise(Epoch(0)).unwrap(), Epoch(73));
    }

    #[test]
    fn a_second_server_on_the_same_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = Epochs::open(dir.path()).unwrap();
        let error = Epochs::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("another server uses this data directory"), "{error}");
        drop(first);
        assert!(Epochs::open(dir.path()).is_ok());
    }

    #[test]
    fn a_damaged_file_is_not_guessed_at() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["x", "12x", "-1", "99999999999", "1 2"] {
            fs::write(dir.path().join(FILE), text).unwrap();
            let error = Epochs::open(dir.path()).unwrap_err().to_string();
            assert!(error.contains("no number") && error.contains("node-epoch"), "{error}");
        }
        fs::write(dir.path().join(FILE), vec![0xff; 1 << 20]).unwrap();
        let error = Epochs::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("no number") && error.len() < 1_000, "{error}");
        fs::write(dir.path().join(FILE), u32::MAX.to_string()).unwrap();
        let mut epochs = Epochs::open(dir.path()).unwrap();
        assert!(epochs.raise(Epoch(0)).unwrap_err().to_string().contains("cannot grow"));
    }
}
