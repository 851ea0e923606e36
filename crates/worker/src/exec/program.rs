//! Is there such a program? Asked once at the start of a worker: a typing error should not cost every job an attempt.

use std::env;
use std::path::{Path, PathBuf};

use model::Invalid;
use rustix::fs::{Access, access};

/// Refuses a program that cannot be found or run, by the rules of `execvp`.
pub(super) fn check(program: &str) -> Result<(), Invalid> {
    if program.contains('/') {
        let path = Path::new(program);
        if !path.exists() {
            return Err(Invalid::new(format!("there is no command {program:?}; check the path")));
        }
        if !is_executable(path) {
            return Err(Invalid::new(format!("{program:?} cannot be run; make it executable (chmod +x)")));
        }
        return Ok(());
    }
    let directories = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&directories).map(|directory: PathBuf| directory.join(program));
    if program.is_empty() || !candidates.any(|path| is_executable(&path)) {
        return Err(Invalid::new(format!(
            "cannot find the command {program:?} in PATH; check its spelling or give its full path"
        )));
    }
    Ok(())
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_taken() {
        assert_eq!(check("sh"), Ok(()));
        assert_eq!(check("/bin/sh"), Ok(()));
        for (program, complaint) in [
            ("no-such-command", "cannot find the command \"no-such-command\" in PATH"),
            ("", "cannot find the command \"\" in PATH"),
            ("/no/such/command", "there is no command"),
            ("/etc/passwd", "cannot be run"),
            ("/etc", "cannot be run"),
        ] {
            let error = check(program).unwrap_err().0;
            assert!(error.contains(complaint), "{program:?}: {error}");
        }
    }
}
