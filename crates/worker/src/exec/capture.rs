//! Bounded capture of a process's output: all of standard output or nothing, and the end of standard error.
//!
//! Both read to the end of their pipe whatever the bound, so that a talkative process never blocks on a full one.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::job_error::JobError;

/// Read at most this much at once.
const CHUNK_BYTES: usize = 8 << 10;

/// Standard output, up to a bound.
pub(super) struct Head {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_over: bool,
}

impl Head {
    pub(super) fn new(bytes_max: usize) -> Self {
        Head { bytes: Vec::new(), bytes_max, is_over: false }
    }

    /// Reads to the end; says whenever something was written.
    pub(super) async fn read(&mut self, pipe: impl AsyncRead + Unpin, wrote: impl Fn()) {
        let Head { bytes, bytes_max, is_over } = self;
        each_chunk(pipe, |chunk| {
            wrote();
            *is_over |= bytes.len() + chunk.len() > *bytes_max;
            if !*is_over {
                bytes.extend_from_slice(chunk);
            }
        })
        .await;
    }

    /// Everything that was written; an error if that was more than the bound, since a cut result would pass for a whole
    /// one.
    pub(super) fn into_result(self) -> Result<Bytes, JobError> {
        if self.is_over {
            return Err(JobError::dead(format!(
                "stdout has more than {} bytes; write large results elsewhere",
                self.bytes_max
            )));
        }
        Ok(self.bytes.into())
    }
}

/// The end of standard error.
pub(super) struct Tail {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Tail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Tail { bytes: Vec::new(), bytes_max }
    }

    /// Reads to the end; says whenever something was written.
    pub(super) async fn read(&mut self, pipe: impl AsyncRead + Unpin, wrote: impl Fn()) {
        let Tail { bytes, bytes_max } = self;
        each_chunk(pipe, |chunk| {
            wrote();
            bytes.extend_from_slice(chunk);
            // Cut only now and then, so that each byte is moved a bounded number of times.
            if bytes.len() > *bytes_max * 2 + CHUNK_BYTES {
                bytes.drain(..bytes.len() - *bytes_max);
            }
        })
        .await;
    }

    /// The last part as text, without the white space around it.
    pub(super) fn text(&self) -> String {
        let start = self.bytes.len().saturating_sub(self.bytes_max);
        String::from_utf8_lossy(&self.bytes[start..]).trim().to_owned()
    }
}

async fn each_chunk(mut pipe: impl AsyncRead + Unpin, mut take: impl FnMut(&[u8])) {
    let mut chunk = vec![0; CHUNK_BYTES];
    // A pipe that cannot be read any more has nothing more to say.
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        take(&chunk[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_are_whole_or_refused() {
        for (text, result) in [("0123456789", Some("0123456789")), ("0123456789a", None)] {
            let mut head = Head::new(10);
            head.read(text.as_bytes(), || ()).await;
            let expected = result.map(Bytes::from).ok_or_else(|| {
                JobError::dead("stdout has more than 10 bytes; write large results elsewhere")
            });
            assert_eq!(head.into_result(), expected);
        }
    }

    #[tokio::test]
    async fn errors_keep_their_end() {
        let text: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        let mut tail = Tail::new(100);
        tail.read(text.as_bytes(), || ()).await;
        assert!(tail.text().ends_with("line 4998\nline 4999") && tail.text().len() <= 100, "{}", tail.text());
    }
}
