//! The release binary as it is given away: without the paths of the machine it was built on.
//!
//! The compiler writes the path of a source file into every message of a panic. Cargo can leave them out by itself only with an
//! unstable option, and a settings file cannot know where the tree or the registry is; so the build is started from here, with
//! these paths replaced, and the result is looked through.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::steps::{Failed, Steps};

/// The binary, below the tree's root.
const BINARY: &str = "target/dist/release/tenure";

/// Builds it and looks through it.
pub(crate) fn run(root: &'static Path) -> Result<(), Failed> {
    let mut steps = Steps::new("dist", root);
    let places = places(root)?;
    // A folder of its own: other flags would make every later build begin anew.
    let build = ["build", "--release", "--locked", "-p", "cli", "--target-dir", "target/dist"];
    steps.cargo("build", &build, &[("CARGO_ENCODED_RUSTFLAGS", &flags(&places))])?;
    steps.summarise();
    let binary =
        fs::read(root.join(BINARY)).map_err(|error| Failed(format!("cannot read {BINARY}: {error}")))?;
    match places.iter().find(|(place, _)| contains(&binary, place.as_os_str().as_encoded_bytes())) {
        Some((place, _)) => Err(Failed(format!("{BINARY} has paths below {} in it", place.display()))),
        None => {
            println!("{BINARY} has no path of this machine in it");
            Ok(())
        }
    }
}

/// Where source files are on this machine, and what is written in their place.
fn places(root: &Path) -> Result<Vec<(PathBuf, &'static str)>, Failed> {
    let home = |name: &str, folder: &str| {
        env::var_os(name).map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(folder)))
    };
    let found = home("CARGO_HOME", ".cargo").zip(home("RUSTUP_HOME", ".rustup"));
    let (cargo, rustup) = found
        .ok_or_else(|| Failed("cannot tell where cargo keeps its sources; set CARGO_HOME".to_owned()))?;
    Ok(vec![(root.to_owned(), "/tenure"), (cargo, "/cargo"), (rustup, "/rustup")])
}

/// The flags that replace these paths, in cargo's own form, which takes spaces in them.
fn flags(places: &[(PathBuf, &str)]) -> String {
    let flags: Vec<String> = places
        .iter()
        .map(|(place, name)| format!("--remap-path-prefix={}={name}", place.display()))
        .collect();
    flags.join("\x1f")
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_replaced_even_with_spaces_in_it() {
        let places =
            [(PathBuf::from("/home/ada/my tree"), "/tenure"), (PathBuf::from("/home/ada/.cargo"), "/cargo")];
        assert_eq!(
            flags(&places),
            "--remap-path-prefix=/home/ada/my tree=/tenure\x1f--remap-path-prefix=/home/ada/.cargo=/cargo"
        );
    }

    #[test]
    fn a_path_is_found_wherever_it_is() {
        assert!(contains(b"\0\x7fELF /home/ada/x.rs", b"/home/ada"));
        assert!(!contains(b"/tenure/crates/x.rs", b"/home/ada"));
        assert!(!contains(b"/home", b"/home/ada"));
    }
}
