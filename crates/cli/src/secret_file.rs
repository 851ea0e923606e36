//! Files with a secret in them: cluster keys, the database's URL. One that other users can open is refused, as ssh does with its
//! keys: a warning would be read after the secret was.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

/// Largest file; a larger one is something else.
const BYTES_MAX: u64 = 64 << 10;
/// What the group and everybody else may do.
const OTHERS: u32 = 0o077;
const GROUP_READS: u32 = 0o040;

/// What the file says, if nobody else can have read or written it.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    // What was opened is what is looked at: a name may mean another file a moment later.
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if is_open_to_others(&metadata) {
        let mode = metadata.mode() & 0o777;
        let path = path.display();
        return Err(io::Error::other(format!(
            "other users can open it (its mode is {mode:04o}); run `chmod 600 {path}`"
        )));
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Devices and pipes are not files: whoever names one knows where the secret comes from.
fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.is_file() && is_open(metadata.mode(), metadata.uid(), geteuid().as_raw())
}

/// A file that root owns is handed to a service by its group, as systemd does with credentials; then its group is this service.
const fn is_open(mode: u32, owner: u32, we: u32) -> bool {
    let fine = if owner == 0 && we != 0 { GROUP_READS } else { 0 };
    mode & OTHERS & !fine != 0
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_others_can_open_is_refused_with_what_to_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "hush").unwrap();
        let read_as = |mode| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(&path).map_err(|error| error.to_string())
        };
        for mode in [0o400, 0o600, 0o700] {
            assert_eq!(read_as(mode).as_deref(), Ok("hush"), "{mode:o}");
        }
        for mode in [0o640, 0o620, 0o604, 0o644, 0o602, 0o666] {
            let error = read_as(mode).unwrap_err();
            assert!(error.contains(&format!("chmod 600 {}", path.display())), "{error}");
            assert!(error.contains(&format!("{mode:04o}")) && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_service_may_be_given_what_root_owns() {
        assert!(!is_open(0o640, 0, 1000) && !is_open(0o440, 0, 1000));
        assert!(is_open(0o640, 0, 0), "root needs no group");
        assert!(is_open(0o640, 1000, 1000) && is_open(0o644, 0, 1000) && is_open(0o660, 0, 1000));
    }

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        let error = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("it has more than 65536 bytes"), "{error}");
    }
}
