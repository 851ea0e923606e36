//! Writes `crates/rpc/src/generated/tenure.v1.rs` from `crates/rpc/proto/tenure/v1/tenure.proto`.
//!
//! The result is committed, so that building Tenure needs neither this tool nor `protoc`. Its first line carries the
//! hash of the .proto file; `cargo xtask tidy` compares the two and so finds generated code that is out of date.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, ensure};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// The hash has one home, beside the check that reads it.
#[path = "../../../xtask/src/fnv.rs"]
mod fnv;

/// The .proto files' root, below the repository's.
const PROTO_ROOT: &str = "crates/rpc/proto";
/// The .proto file, below [`PROTO_ROOT`].
const PROTO: &str = "tenure/v1/tenure.proto";
/// Where the code goes, below the repository's root.
const GENERATED: &str = "crates/rpc/src/generated";
/// The file that the generator names after the package.
const MODULE: &str = "tenure.v1.rs";

/// Takes the repository's root as its only argument; without one, the repository that holds this tool.
fn main() -> anyhow::Result<()> {
    let default_root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let root = env::args().nth(1).unwrap_or_else(|| default_root.to_owned());
    let root = fs::canonicalize(&root).with_context(|| format!("failed to find {root}"))?;

    let proto_root = root.join(PROTO_ROOT);
    let source = proto_root.join(PROTO);
    let proto = fs::read(&source).with_context(|| format!("failed to read {}", source.display()))?;
    let descriptors = protox::compile([PROTO], [&proto_root])?;
    let code = generate(descriptors)?;
    let target = root.join(GENERATED).join(MODULE);
    fs::create_dir_all(root.join(GENERATED))?;
    fs::write(&target, code)?;
    format(&root, &target)?;
    let code = without_allow(&fs::read_to_string(&target)?);
    fs::write(&target, format!("{}{}\n{code}", fnv::HEADER, fnv::hex(&proto)))?;
    println!("wrote {}", target.display());
    Ok(())
}

/// The code for these descriptors, client and server. Messages with bytes in them get no JSON form here: `rpc::json` has it.
fn generate(descriptors: FileDescriptorSet) -> anyhow::Result<String> {
    let scratch = tempfile::tempdir()?;
    let mut plain = Vec::new();
    for file in &descriptors.file {
        let package = format!(".{}", file.package());
        file.message_type.iter().for_each(|message| collect_plain_messages(&package, message, &mut plain));
    }
    let mut builder =
        tonic_prost_build::configure().out_dir(scratch.path()).bytes(".").emit_rerun_if_changed(false);
    for message in plain {
        builder = builder
            .message_attribute(&message, "#[derive(serde::Serialize, serde::Deserialize)]")
            // An absent field has its default value, as in protobuf.
            .message_attribute(&message, "#[serde(default, deny_unknown_fields)]");
    }
    builder.compile_fds(descriptors)?;
    Ok(fs::read_to_string(scratch.path().join(MODULE))?)
}

/// The messages without a field of bytes.
fn collect_plain_messages(scope: &str, message: &DescriptorProto, found: &mut Vec<String>) {
    let path = format!("{scope}.{}", message.name());
    message.nested_type.iter().for_each(|nested| collect_plain_messages(&path, nested, found));
    if message.field.iter().all(|field| field.r#type() != Type::Bytes) {
        found.push(path);
    }
}

/// The code without the generator's own `allow` attributes: the module that includes it says what is let pass, once
/// and with a reason.
fn without_allow(code: &str) -> String {
    let is_allow = |line: &str| line.starts_with("#[allow(") || line.starts_with("#![allow(");
    code.lines().filter(|line| !is_allow(line.trim_start())).flat_map(|line| [line, "\n"]).collect()
}

/// Formats the file as `cargo fmt` would, which also checks that it parses.
fn format(root: &Path, file: &Path) -> anyhow::Result<()> {
    let rustfmt = env::var_os("RUSTFMT").unwrap_or_else(|| "rustfmt".into());
    let status = Command::new(rustfmt)
        .args(["--edition", "2024", "--config-path"])
        .arg(root.join("rustfmt.toml"))
        .arg(file)
        .status()
        .context("failed to run rustfmt")?;
    ensure!(status.success(), "rustfmt refused {}", file.display());
    Ok(())
}
