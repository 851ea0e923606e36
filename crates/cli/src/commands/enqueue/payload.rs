//! Payloads on their way in and results on their way out.

use std::io::{self, Read};

use anyhow::Context;
use bytes::Bytes;

/// The payload an argument stands for: itself, stdin for `-`, nothing if it is absent.
pub(super) fn read(argument: Option<&str>) -> anyhow::Result<Bytes> {
    match argument {
        None => Ok(Bytes::new()),
        Some("-") => {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).context("cannot read the payload from stdin")?;
            Ok(bytes.into())
        }
        Some(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
    }
}

/// A result as it is, with a line end if it is text without one.
pub(super) fn printable(result: Bytes) -> Bytes {
    if result.is_empty() || result.ends_with(b"\n") || std::str::from_utf8(&result).is_err() {
        return result;
    }
    let mut bytes = Vec::from(result);
    bytes.push(b'\n');
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_end_with_a_line_end_if_they_are_text() {
        assert_eq!(printable(Bytes::from_static(b"done")), "done\n");
        assert_eq!(printable(Bytes::from_static(b"done\n")), "done\n");
        assert_eq!(printable(Bytes::new()), "");
        assert_eq!(printable(Bytes::from_static(b"\xff")), &b"\xff"[..]);
    }
}
