//! Writes `crates/rpc/src/generated/tenure.v1.rs` from `crates/rpc/proto/tenure/v1/tenure.proto`.
//!
//! The result is committed, so that building Tenure needs neither this tool nor `protoc`. Its first line carries the
//! hash of the .proto file; `cargo xtask tidy` compares the two and so finds generated code that is out of date.

use std::collections::BTreeSet;
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

/// How each `bytes` field reads and writes itself in JSON: a `serde(with)` module of `rpc`. A bytes field that is not
/// named here, or a name that is no bytes field, is an error.
const JSON: &[(&str, &str)] = &[
    (".tenure.v1.NewJob.payload", PAYLOAD),
    (".tenure.v1.Job.payload", PAYLOAD),
    (".tenure.v1.Job.progress", OPTIONAL_PAYLOAD),
    (".tenure.v1.Job.checkpoint", OPTIONAL_PAYLOAD),
    (".tenure.v1.Job.result", OPTIONAL_PAYLOAD),
    (".tenure.v1.Assignment.payload", PAYLOAD),
    (".tenure.v1.Assignment.checkpoint", OPTIONAL_PAYLOAD),
    (".tenure.v1.Report.result", PAYLOAD),
    (".tenure.v1.End.result", PAYLOAD),
    (".tenure.v1.ProgressNote.note", OPTIONAL_PAYLOAD),
    (".tenure.v1.ProgressNote.checkpoint", OPTIONAL_PAYLOAD),
];

/// For a field of type `Bytes`.
const PAYLOAD: &str = "crate::json::payload";
/// For a field of type `Option<Bytes>`.
const OPTIONAL_PAYLOAD: &str = "crate::json::optional_payload";

/// Takes the repository's root as its only argument; without one, the repository that holds this tool.
fn main() -> anyhow::Result<()> {
    let default_root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let root = env::args().nth(1).unwrap_or_else(|| default_root.to_owned());
    let root = fs::canonicalize(&root).with_context(|| format!("failed to find {root}"))?;

    let proto_root = root.join(PROTO_ROOT);
    let source = proto_root.join(PROTO);
    let proto = fs::read(&source).with_context(|| format!("failed to read {}", source.display()))?;
    let descriptors = protox::compile([PROTO], [&proto_root])?;
    check_json_table(&descriptors)?;

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

/// The code for these descriptors, client and server.
fn generate(descriptors: FileDescriptorSet) -> anyhow::Result<String> {
    let scratch = tempfile::tempdir()?;
    let mut builder = tonic_prost_build::configure()
        .out_dir(scratch.path())
        .bytes(".")
        .emit_rerun_if_changed(false)
        .type_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        // An absent field has its default value, as in protobuf.
        .message_attribute(".", "#[serde(default, deny_unknown_fields)]");
    for (field, with) in JSON {
        builder = builder.field_attribute(field, format!("#[serde(with = \"{with}\")]"));
    }
    builder.compile_fds(descriptors)?;
    Ok(fs::read_to_string(scratch.path().join(MODULE))?)
}

/// The table must name exactly the bytes fields, each with the codec for its kind of presence.
fn check_json_table(descriptors: &FileDescriptorSet) -> anyhow::Result<()> {
    let mut found = BTreeSet::new();
    for file in &descriptors.file {
        let package = format!(".{}", file.package());
        for message in &file.message_type {
            collect_bytes_fields(&package, message, &mut found);
        }
    }
    let named: BTreeSet<(String, &str)> =
        JSON.iter().map(|(field, with)| ((*field).to_owned(), *with)).collect();
    let missing: Vec<_> = found.difference(&named).collect();
    let unknown: Vec<_> = named.difference(&found).collect();
    ensure!(
        missing.is_empty() && unknown.is_empty(),
        "the table JSON in tools/codegen/src/main.rs does not fit the .proto file; to add: {missing:?}; to remove: {unknown:?}"
    );
    Ok(())
}

fn collect_bytes_fields(
    scope: &str,
    message: &DescriptorProto,
    found: &mut BTreeSet<(String, &'static str)>,
) {
    let path = format!("{scope}.{}", message.name());
    for field in message.field.iter().filter(|field| field.r#type() == Type::Bytes) {
        let with = if field.proto3_optional() { OPTIONAL_PAYLOAD } else { PAYLOAD };
        found.insert((format!("{path}.{}", field.name()), with));
    }
    for nested in &message.nested_type {
        collect_bytes_fields(&path, nested, found);
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
