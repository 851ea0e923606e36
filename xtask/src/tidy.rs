//! Rules about the tree that no compiler knows: which crate may depend on which, how files open, what must not be in
//! them. Each rule is a file that returns its complaints; here they are collected and told.

mod generated;
mod layers;
mod manifest;
mod proto;
mod sources;
#[cfg(test)]
mod tree;

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::steps::Failed;

/// Checks the tree under `root` and prints each complaint.
pub(crate) fn check(root: &Path) -> Result<(), Failed> {
    let unreadable = |error: io::Error| Failed(format!("tidy cannot read the tree: {error}"));
    let complaints = complaints(root).map_err(unreadable)?;
    let longest = sources::longest(root).map_err(unreadable)?;
    println!("The longest files (at most {} lines):", sources::LINES_MAX);
    for (lines, path) in longest {
        println!("{lines:>6}  {path}");
    }
    for complaint in &complaints {
        println!("tidy: {complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        1 => Err(Failed("tidy has 1 complaint".to_owned())),
        count => Err(Failed(format!("tidy has {count} complaints"))),
    }
}

/// Everything that is wrong with the tree, one sentence each.
fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let mut complaints = layers::complaints(root)?;
    complaints.extend(sources::complaints(root)?);
    complaints.extend(generated::complaints(root)?);
    complaints.extend(proto::complaints(root)?);
    Ok(complaints)
}

/// The entries of a directory, by name; none if there is no such directory.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let read = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let mut entries = read.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// The path as people write it, from the root.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}
