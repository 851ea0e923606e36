//! Bounded capture of a process's output: all of standard output or nothing, and the end of standard error.
//!
//! Both read to the end of their pipe whatever the bound, so that a talkative process never blocks on a full one.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};

/// Read at most this much at once.
const CHUNK_BYTES: usize = 8 << 10;

/// Standard output, up to a bound.
pub(super) struct Head {
    pipe: Option<ChildStdout>,
    bytes: Vec<u8>,
    bytes_max: usize,
    is_over: bool,
}

impl Head {
    pub(super) fn new(pipe: Option<ChildStdout>, bytes_max: usize) -> Self {
        Head { pipe, bytes: Vec::new(), bytes_max, is_over: false }
    }

    /// Reads to the end; says whenever something was written.
    pub(super) async fn read(&mut self, wrote: impl Fn()) {
        let Head { pipe: Some(pipe), bytes, bytes_max, is_over } = self else { return };
        each_chunk(pipe, |chunk| {
            wrote();
            *is_over |= bytes.len() + chunk.len() > *bytes_max;
            if !*is_over {
                bytes.extend_from_slice(chunk);
            }
        })
        .await;
    }

    /// Everything that was written; `None` if that was more than the bound.
    pub(super) fn into_result(self) -> Option<Bytes> {
        (!self.is_over).then(|| self.bytes.into())
    }
}

/// The end of standard error.
pub(super) struct Tail {
    pipe: Option<ChildStderr>,
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Tail {
    pub(super) fn new(pipe: Option<ChildStderr>, bytes_max: usize) -> Self {
        Tail { pipe, bytes: Vec::new(), bytes_max }
    }

    /// Reads to the end; says whenever something was written.
    pub(super) async fn read(&mut self, wrote: impl Fn()) {
        let Tail { pipe: Some(pipe), bytes, bytes_max } = self else { return };
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

async fn each_chunk(pipe: &mut (impl AsyncRead + Unpin), mut take: impl FnMut(&[u8])) {
    let mut chunk = vec![0; CHUNK_BYTES];
    // A pipe that cannot be read any more has nothing more to say.
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        take(&chunk[..count]);
    }
}
