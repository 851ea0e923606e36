//! Dependencies point inward: core ← port ← drivers ← runtimes ← apps. The core is a calculator, so what it may use at
//! all is a short list; and each core crate carries the clippy guard that names the calls that belong to drivers.

use std::path::Path;
use std::{fs, io};

use super::manifest::{Dependency, Manifest};
use super::{entries, shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ring {
    Core,
    Port,
    Driver,
    Runtime,
    App,
}

impl Ring {
    const fn word(self) -> &'static str {
        match self {
            Ring::Core => "core",
            Ring::Port => "port",
            Ring::Driver => "driver",
            Ring::Runtime => "runtime",
            Ring::App => "app",
        }
    }
}

/// Where each crate belongs. A crate that is not listed is a complaint.
const RINGS: &[(Ring, &[&str])] = &[
    (Ring::Core, &["model", "lease", "muster", "swim", "fabric", "schedule"]),
    (Ring::Port, &["store"]),
    (
        Ring::Driver,
        &[
            "clock",
            "detect",
            "guardian",
            "store-sqlite",
            "store-postgres",
            "pg-cluster",
            "gossip-udp",
            "control-raft",
            "rpc",
        ],
    ),
    (Ring::Runtime, &["node", "worker"]),
    (Ring::App, &["cli", "dashboard", "sim"]),
];

/// What core crates may use besides each other, tests included: no runtime, no socket, no clock, no randomness.
const CORE_MAY_USE: &[&str] = &["bytes", "thiserror", "uuid"];
/// What ports may use besides the core; their tests may use more.
const PORT_MAY_USE: &[&str] = &["async-trait", "bytes", "thiserror"];

/// What the clippy.toml of a core crate must at least forbid.
const GUARDED: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::fs::File::open",
    "std::net::TcpStream::connect",
    "std::net::UdpSocket::bind",
    "std::process::Command::new",
    "std::hash::RandomState",
];

pub(crate) fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for directory in entries(&root.join("crates"))?.into_iter().filter(|path| path.is_dir()) {
        let manifest = Manifest::read(&directory.join("Cargo.toml"))?;
        let name = &manifest.name;
        let place = shown(root, &directory);
        if directory.file_name().is_none_or(|folder| folder != name.as_str()) {
            complaints.push(format!("{place} holds a package named {name}; a crate's folder has its name"));
        }
        let Some(ring) = ring_of(name) else {
            complaints.push(format!("{place} has no ring; add it to RINGS in xtask/src/tidy/layers.rs"));
            continue;
        };
        complaints
            .extend(manifest.dependencies.iter().filter_map(|dependency| object(name, ring, dependency)));
        if ring == Ring::Core {
            complaints.extend(guard_complaint(root, &directory));
        }
    }
    let workspace = Manifest::read(&root.join("Cargo.toml"))?;
    complaints.extend(workspace.dependencies.iter().filter(|it| it.is_renamed).map(renamed));
    Ok(complaints)
}

/// What is wrong with this dependency, if anything.
fn object(name: &str, ring: Ring, dependency: &Dependency) -> Option<String> {
    let Dependency { name: used, is_dev, is_renamed } = dependency;
    if *is_renamed {
        return Some(renamed(dependency));
    }
    if let Some(other) = ring_of(used) {
        let is_inward = other <= ring;
        return (!is_inward).then(|| {
            let (ring, other) = (ring.word(), other.word());
            format!("{name} ({ring}) depends on {used} ({other}); dependencies point inward")
        });
    }
    let is_allowed = match ring {
        Ring::Core => CORE_MAY_USE.contains(&used.as_str()),
        Ring::Port => *is_dev || PORT_MAY_USE.contains(&used.as_str()),
        _ => true,
    };
    (!is_allowed).then(|| {
        let ring = ring.word();
        format!("{name} ({ring}) depends on {used}, which belongs to drivers; see xtask/src/tidy/layers.rs")
    })
}

fn renamed(dependency: &Dependency) -> String {
    format!("dependency {} is renamed, which hides what is depended on", dependency.name)
}

fn guard_complaint(root: &Path, directory: &Path) -> Option<String> {
    let path = directory.join("clippy.toml");
    let Ok(guard) = fs::read_to_string(&path) else {
        return Some(format!("{} is missing; copy the purity guard of crates/model", shown(root, &path)));
    };
    let missing: Vec<&str> =
        GUARDED.iter().copied().filter(|call| !guard.contains(&format!("\"{call}\""))).collect();
    (!missing.is_empty()).then(|| format!("{} does not guard {}", shown(root, &path), missing.join(", ")))
}

fn ring_of(name: &str) -> Option<Ring> {
    RINGS.iter().find(|(_, crates)| crates.contains(&name)).map(|(ring, _)| *ring)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;

    fn complaint(path: &str, text: &str) -> Vec<String> {
        Tree::good().with(path, text).complaints()
    }

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}\n")
    }

    #[test]
    fn core_uses_only_what_is_pure() {
        for used in
            ["tokio", "tonic", "axum", "hyper", "rusqlite", "rand", "mio", "socket2", "rustix", "clap"]
        {
            let dependency = format!("[dependencies]\n{used}.workspace = true");
            assert_eq!(
                complaint("crates/schedule/Cargo.toml", &manifest("schedule", &dependency)),
                [format!(
                    "schedule (core) depends on {used}, which belongs to drivers; see xtask/src/tidy/layers.rs"
                )]
            );
        }
        let dev = manifest("schedule", "[dev-dependencies]\ntokio = \"1\"");
        assert_eq!(complaint("crates/schedule/Cargo.toml", &dev).len(), 1, "tests of the core are pure too");
        let pure =
            manifest("schedule", "[dependencies]\nmodel.workspace = true\nbytes = \"1\"\nuuid = \"1\"");
        assert!(complaint("crates/schedule/Cargo.toml", &pure).is_empty());
    }

    #[test]
    fn port_uses_little_more_than_the_core() {
        let allowed = "[dependencies]\nmodel = \"1\"\nasync-trait = \"1\"\n[dev-dependencies]\ntokio = \"1\"";
        assert!(complaint("crates/store/Cargo.toml", &manifest("store", allowed)).is_empty());
        assert_eq!(
            complaint("crates/store/Cargo.toml", &manifest("store", "[dependencies]\nrusqlite = \"1\"")),
            ["store (port) depends on rusqlite, which belongs to drivers; see xtask/src/tidy/layers.rs"]
        );
    }

    #[test]
    fn dependencies_point_inward() {
        for (outer, name, inner) in [
            ("store (port)", "schedule", "schedule (core)"),
            ("rpc (driver)", "store", "store (port)"),
            ("node (runtime)", "rpc", "rpc (driver)"),
            ("cli (app)", "rpc", "rpc (driver)"),
            ("cli (app)", "node", "node (runtime)"),
        ] {
            let used = outer.split(' ').next().expect("a name");
            let dependency = format!("[dependencies]\n{used} = {{ path = \"../{used}\" }}");
            assert_eq!(
                complaint(&format!("crates/{name}/Cargo.toml"), &manifest(name, &dependency)),
                [format!("{inner} depends on {outer}; dependencies point inward")]
            );
        }
        let outward = manifest("node", "[dependencies]\nrpc.workspace = true\nmodel.workspace = true");
        assert!(complaint("crates/node/Cargo.toml", &outward).is_empty());
    }

    #[test]
    fn folder_and_crate_have_one_name_and_a_ring() {
        assert_eq!(
            complaint("crates/schedule/Cargo.toml", &manifest("model", "")),
            ["crates/schedule holds a package named model; a crate's folder has its name"]
        );
        let stranger = Tree::good()
            .with("crates/stranger/Cargo.toml", &manifest("stranger", ""))
            .with("crates/stranger/src/lib.rs", "//! A stranger.\n");
        assert_eq!(
            stranger.complaints(),
            ["crates/stranger has no ring; add it to RINGS in xtask/src/tidy/layers.rs"]
        );
    }

    #[test]
    fn nothing_is_renamed() {
        let hidden = manifest("schedule", "[dependencies]\nbytes = { package = \"tokio\" }");
        let expected = ["dependency bytes is renamed, which hides what is depended on"];
        assert_eq!(complaint("crates/schedule/Cargo.toml", &hidden), expected);
        let shared = "[workspace.dependencies]\nbytes = { package = \"tokio\" }\n";
        assert_eq!(complaint("Cargo.toml", shared), expected);
    }

    #[test]
    fn core_crates_carry_the_guard() {
        assert_eq!(
            Tree::good().without("crates/model/clippy.toml").complaints(),
            ["crates/model/clippy.toml is missing; copy the purity guard of crates/model"]
        );
        let complaints = complaint("crates/model/clippy.toml", "disallowed-methods = []\n");
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].starts_with("crates/model/clippy.toml does not guard std::time::Instant::now, ")
        );
    }
}
