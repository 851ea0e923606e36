//! FNV-1a, 64 bits: tells whether the generated code was made from the .proto file at hand. It guards against
//! forgetting, not against malice. The generator in `tools/codegen` includes this very file.

/// How the first line of generated code begins; the hash follows.
pub(crate) const HEADER: &str = "// proto-hash: ";

/// The hash as 16 hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_the_published_vectors() {
        assert_eq!(hex(b""), "cbf29ce484222325");
        assert_eq!(hex(b"a"), "af63dc4c8601ec8c");
        assert_eq!(hex(b"foobar"), "85944171f73967e8");
    }
}
