//! Small trees on disk for the tests of the rules: a good one, to be spoiled one file at a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use super::complaints;
use crate::fnv;

/// A tree in a folder of its own, removed when dropped.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// A tree without complaints: one crate or two of each ring.
    pub(crate) fn good() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = env::temp_dir().join(format!("tenure-tidy-{}-{number}", process::id()));
        let guard = include_str!("../../../crates/model/clippy.toml");
        let proto = "syntax = \"proto3\";\n";
        let mut tree = Tree { root }
            .with("Cargo.toml", "[workspace]\nmembers = [\"crates/*\", \"xtask\"]\n")
            .with("xtask/src/main.rs", "//! Commands.\n")
            .with("crates/model/clippy.toml", guard)
            .with("crates/schedule/clippy.toml", guard)
            .with("crates/rpc/proto/tenure/v1/tenure.proto", proto)
            .with(
                "crates/rpc/src/generated/tenure.v1.rs",
                &format!("{}{}\n", fnv::HEADER, fnv::hex(proto.as_bytes())),
            );
        for name in ["model", "schedule", "store", "rpc", "node", "cli"] {
            tree = tree
                .with(&format!("crates/{name}/Cargo.toml"), &format!("[package]\nname = \"{name}\"\n"))
                .with(&format!("crates/{name}/src/lib.rs"), "//! A crate.\n");
        }
        assert_eq!(tree.complaints(), [] as [&str; 0], "the good tree must be good");
        tree
    }

    /// The tree with this file added or replaced.
    pub(crate) fn with(self, path: &str, text: &str) -> Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
        self
    }

    /// The tree without this file.
    pub(crate) fn without(self, path: &str) -> Self {
        fs::remove_file(self.root.join(path)).expect("the file was there");
        self
    }

    /// What tidy says of it.
    pub(crate) fn complaints(&self) -> Vec<String> {
        complaints(&self.root).expect("the tree is readable")
    }

    /// Where it lies.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Nothing depends on it being gone.
        let _ = fs::remove_dir_all(&self.root);
    }
}
