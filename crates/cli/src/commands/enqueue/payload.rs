//! Payloads on their way in and results on their way out.

use std::io::{self, Read};

use anyhow::Context;
use bytes::Bytes;
use rpc::wire;
use serde_json::Value;

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

/// The job with this payload and, unless one was chosen, the media type it appears to have.
pub(super) fn fill(mut job: wire::NewJob, payload: Bytes) -> wire::NewJob {
    if job.content_type.is_empty() && !payload.is_empty() {
        job.content_type = content_type_of(&payload).to_owned();
    }
    job.payload = payload;
    job
}

fn content_type_of(payload: &[u8]) -> &'static str {
    if serde_json::from_slice::<Value>(payload).is_ok() {
        "application/json"
    } else if std::str::from_utf8(payload).is_ok() {
        "text/plain"
    } else {
        "application/octet-stream"
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
    fn the_media_type_follows_the_payload_unless_it_was_chosen() {
        let fill_type = |payload: &'static [u8], chosen: &str| {
            let job = wire::NewJob { content_type: chosen.to_owned(), ..Default::default() };
            fill(job, Bytes::from_static(payload)).content_type
        };
        assert_eq!(fill_type(b"{\"a\":1}", ""), "application/json");
        assert_eq!(fill_type(b"hello", ""), "text/plain");
        assert_eq!(fill_type(b"\xff\xfe", ""), "application/octet-stream");
        assert_eq!(fill_type(b"hello", "text/csv"), "text/csv");
        assert_eq!(fill_type(b"", ""), "");
    }

    #[test]
    fn results_end_with_a_line_end_if_they_are_text() {
        assert_eq!(printable(Bytes::from_static(b"done")), "done\n");
        assert_eq!(printable(Bytes::from_static(b"done\n")), "done\n");
        assert_eq!(printable(Bytes::new()), "");
        assert_eq!(printable(Bytes::from_static(b"\xff")), &b"\xff"[..]);
    }
}
