//! Generated code is committed; this says when it no longer fits the .proto file it was made from.

use std::path::Path;
use std::{fs, io};

use crate::fnv;

const PROTO: &str = "crates/rpc/proto/tenure/v1/tenure.proto";
const GENERATED: &str = "crates/rpc/src/generated/tenure.v1.rs";

pub(crate) fn complaints(root: &Path) -> io::Result<Vec<String>> {
    let Ok(proto) = fs::read(root.join(PROTO)) else {
        return Ok(vec![format!("{PROTO} is missing")]);
    };
    let Ok(code) = fs::read_to_string(root.join(GENERATED)) else {
        return Ok(vec![format!("{GENERATED} is missing; run `cargo xtask codegen`")]);
    };
    let first_line = code.lines().next().unwrap_or_default();
    let expected = format!("{}{}", fnv::HEADER, fnv::hex(&proto));
    if first_line == expected {
        return Ok(Vec::new());
    }
    Ok(vec![format!("{GENERATED} was not made from the present {PROTO}; run `cargo xtask codegen`")])
}

/// True for files that nobody writes by hand.
pub(crate) fn is_generated(root: &Path, path: &Path) -> bool {
    path == root.join(GENERATED)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    #[test]
    fn generated_code_must_be_there_and_fit() {
        let absent = Tree::good().without(GENERATED);
        assert_eq!(absent.complaints(), [format!("{GENERATED} is missing; run `cargo xtask codegen`")]);
        let stale = Tree::good().with(PROTO, "syntax = \"proto3\"; // changed since");
        assert_eq!(
            stale.complaints(),
            [format!("{GENERATED} was not made from the present {PROTO}; run `cargo xtask codegen`")]
        );
        assert_eq!(Tree::good().without(PROTO).complaints(), [format!("{PROTO} is missing")]);
    }

    #[test]
    fn generated_code_may_be_long_and_needs_no_header() {
        let proto = "syntax = \"proto3\";";
        let code =
            format!("{}{}\n{}", fnv::HEADER, fnv::hex(proto.as_bytes()), "struct Message;\n".repeat(2_000));
        assert_eq!(Tree::good().with(PROTO, proto).with(GENERATED, &code).complaints(), [] as [&str; 0]);
    }
}
