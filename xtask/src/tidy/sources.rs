//! Every source file: opens by saying what it is for, is short enough to read, and holds nothing that only pretends to
//! work.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::generated::is_generated;
use super::{entries, shown};

/// A file with more lines has a second noun hiding in it.
pub(crate) const LINES_MAX: usize = 600;

/// How many of the longest files are listed.
const LONGEST_SHOWN: usize = 10;

/// The folders that hold source files.
const FOLDERS: &[&str] = &["crates", "xtask", "tools", "benches"];

/// What no source file may contain, and why. Written in two halves, so that this file does not contain it.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("todo", "!("), "unfinished work does not land"),
    (concat!("unimplemented", "!("), "unfinished work does not land"),
    (concat!("#[", "ignore"), "a test that does not run proves nothing"),
    (concat!("thread", "::sleep"), "wait on a signal or on virtual time"),
];

pub(crate) fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for path in source_files(root)? {
        let text = fs::read_to_string(&path)?;
        let place = shown(root, &path);
        if must_have_header(&place) && !text.starts_with("//!") {
            complaints.push(format!("{place} does not open with a `//!` header that says what it is for"));
        }
        let lines = text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{place} has {lines} lines; at most {LINES_MAX} are allowed"));
        }
        for (number, line) in text.lines().enumerate() {
            for (word, why) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
                complaints.push(format!("{place}:{} contains `{word}`: {why}", number + 1));
            }
        }
    }
    Ok(complaints)
}

/// The longest files and their lines, longest first.
pub(crate) fn longest(root: &Path) -> io::Result<Vec<(usize, String)>> {
    let mut files = Vec::new();
    for path in source_files(root)? {
        files.push((fs::read_to_string(&path)?.lines().count(), shown(root, &path)));
    }
    files.sort_by(|a, b| b.cmp(a));
    files.truncate(LONGEST_SHOWN);
    Ok(files)
}

/// Modules of crates and of xtask; tests, examples and tools may open as they like.
fn must_have_header(place: &str) -> bool {
    let parts: Vec<&str> = place.split('/').collect();
    matches!(parts.as_slice(), ["crates", _, "src", ..] | ["xtask", "src", ..])
}

fn source_files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if path.is_dir() {
                // Build output may lie in a folder of its own beside a tool.
                if path.file_name().is_some_and(|name| name != "target") && !path.is_symlink() {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !is_generated(root, &path)
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    #[test]
    fn modules_open_with_a_header() {
        let bare = "fn main() {}\n";
        for place in ["crates/cli/src/main.rs", "crates/node/src/duty/purge.rs", "xtask/src/main.rs"] {
            assert_eq!(
                Tree::good().with(place, bare).complaints(),
                [format!("{place} does not open with a `//!` header that says what it is for")]
            );
        }
        for place in ["crates/cli/tests/processes.rs", "tools/codegen/src/main.rs"] {
            assert_eq!(Tree::good().with(place, bare).complaints(), [] as [&str; 0]);
        }
    }

    #[test]
    fn pretended_work_is_found_wherever_it_is() {
        for (word, why) in FORBIDDEN {
            for place in
                ["crates/cli/src/main.rs", "crates/cli/tests/processes.rs", "tools/codegen/src/main.rs"]
            {
                let tree = Tree::good().with(place, &format!("//! A file.\n\nfn work() {{ {word}) }}\n"));
                assert_eq!(tree.complaints(), [format!("{place}:3 contains `{word}`: {why}")]);
            }
        }
        let built = Tree::good().with("tools/codegen/target/debug/build/out.rs", FORBIDDEN[0].0);
        assert_eq!(built.complaints(), [] as [&str; 0]);
    }

    #[test]
    fn long_files_are_refused_and_the_longest_are_listed() {
        let lines = |count: usize| "//! A line.\n".repeat(count);
        let tree =
            Tree::good().with("crates/cli/src/main.rs", &lines(600)).with("xtask/src/a.rs", &lines(601));
        assert_eq!(tree.complaints(), ["xtask/src/a.rs has 601 lines; at most 600 are allowed"]);
        let longest = longest(tree.root()).expect("the tree is readable");
        let expected = [(601, "xtask/src/a.rs".to_owned()), (600, "crates/cli/src/main.rs".to_owned())];
        assert_eq!(longest[..2], expected);
    }
}
