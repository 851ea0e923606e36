//! Which program is it? Asked once at the start of a worker: a typing error should not cost every job an attempt, and looking
//! through `PATH` for every job would cost a short one as much as its start.

use std::env;
use std::path::{Path, PathBuf};

use model::Invalid;
use rustix::fs::{Access, access};

/// The path of a program, by the rules of `execvp`; refused if it cannot be found or run.
pub(super) fn find(program: &str) -> Result<String, Invalid> {
    if program.contains('/') {
        let path = Path::new(program);
        if !path.exists() {
            return Err(Invalid::new(format!("there is no command {program:?}; check the path")));
        }
        if !is_executable(path) {
            return Err(Invalid::new(format!("{program:?} cannot be run; make it executable (chmod +x)")));
        }
        return Ok(program.to_owned());
    }
    let directories = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&directories).map(|directory: PathBuf| directory.join(program));
    let found = candidates.find(|path| is_executable(path)).filter(|_| !program.is_empty());
    let Some(path) = found else {
        return Err(Invalid::new(format!(
            "cannot find the command {program:?} in PATH; check its spelling or give its full path"
        )));
    };
    // A path that cannot be passed on as text is looked up for every job.
    Ok(path.into_os_string().into_string().unwrap_or_else(|_| program.to_owned()))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_taken() {
        assert!(find("sh").is_ok_and(|path| path.starts_with('/') && path.ends_with("/sh")));
        assert_eq!(find("/bin/sh"), Ok("/bin/sh".to_owned()));
        for (program, complaint) in [
            ("no-such-command", "cannot find the command \"no-such-command\" in PATH"),
            ("", "cannot find the command \"\" in PATH"),
            ("/no/such/command", "there is no command"),
            ("/etc/passwd", "cannot be run"),
            ("/etc", "cannot be run"),
        ] {
            let error = find(program).unwrap_err().0;
            assert!(error.contains(complaint), "{program:?}: {error}");
        }
    }
}
