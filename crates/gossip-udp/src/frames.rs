//! One message each way over a stream, in sealed frames.
//!
//! ```text
//! both ends:   16 random bytes                       together they name the session
//! message:     frame … frame                         length u32 · envelope around (0 more | 1 last) · piece
//! ```
//!
//! Every envelope is bound to its session, direction and place: frames cannot be left out, swapped, or taken from an earlier
//! stream. A stranger makes us hold one frame at most.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::codec::{ENVELOPE_BYTES_MAX, Malformed};
use crate::seal::{Place, Refused, Sealer, Session, random};

/// Longest frame: what is held for somebody who has not shown a key.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// Longest piece of a message in a frame.
const PIECE_BYTES_MAX: usize = FRAME_BYTES_MAX - ENVELOPE_BYTES_MAX - 1;
/// Longest message; longer ones are neither sent nor received.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 20;

const MORE: u8 = 0;
const LAST: u8 = 1;

/// Why a stream did not bring what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("frame refused: {0}")]
    Refused(#[from] Refused),
    #[error("message malformed: {0}")]
    Malformed(#[from] Malformed),
    #[error("message longer than {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
    #[error("no answer in time")]
    TimedOut,
    #[error("nobody there to answer")]
    Unanswered,
    #[error("hung up without an answer, as nodes do that have another key or cluster name")]
    HungUp,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Request,
    Response,
}

impl Direction {
    fn place(self, session: &Session, index: u32) -> Place<'_> {
        match self {
            Direction::Request => Place::Request(session, index),
            Direction::Response => Place::Response(session, index),
        }
    }
}

/// Which end of a stream we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Asking,
    Answering,
}

/// Exchanges the two halves of the session's name.
pub(crate) async fn greet<S>(stream: &mut S, end: End) -> Result<Session, StreamError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mine: [u8; 16] = random();
    stream.write_all(&mine).await?;
    stream.flush().await?;
    let mut theirs = [0; 16];
    stream.read_exact(&mut theirs).await?;
    let (asking, answering) = if end == End::Asking { (mine, theirs) } else { (theirs, mine) };
    let mut session = [0; 32];
    session[..16].copy_from_slice(&asking);
    session[16..].copy_from_slice(&answering);
    Ok(session)
}

/// Sends a message.
pub(crate) async fn write<S>(
    stream: &mut S,
    sealer: &Sealer,
    session: &Session,
    direction: Direction,
    message: &[u8],
) -> Result<(), StreamError>
where
    S: AsyncWrite + Unpin,
{
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(StreamError::TooLong);
    }
    let mut frame = Vec::new();
    let (mut rest, mut index) = (message, 0);
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PIECE_BYTES_MAX));
        let mark = if after.is_empty() { LAST } else { MORE };
        sealer.seal(direction.place(session, index), &mut frame, |out| {
            out.push(mark);
            out.extend_from_slice(piece);
        });
        stream.write_u32_le(frame.len() as u32).await?;
        stream.write_all(&frame).await?;
        if after.is_empty() {
            return Ok(stream.flush().await?);
        }
        (rest, index) = (after, index + 1);
    }
}

/// Receives a message.
pub(crate) async fn read<S>(
    stream: &mut S,
    sealer: &Sealer,
    session: &Session,
    direction: Direction,
) -> Result<Vec<u8>, StreamError>
where
    S: AsyncRead + Unpin,
{
    let (mut message, mut frame) = (Vec::new(), Vec::new());
    for index in 0.. {
        let length = stream.read_u32_le().await? as usize;
        if length > FRAME_BYTES_MAX {
            return Err(StreamError::TooLong);
        }
        frame.resize(length, 0);
        stream.read_exact(&mut frame).await?;
        let plain = sealer.open(direction.place(session, index), &mut frame)?;
        let (mark, piece) = plain.split_first().ok_or(Malformed::Truncated)?;
        if message.len() + piece.len() > MESSAGE_BYTES_MAX {
            return Err(StreamError::TooLong);
        }
        message.extend_from_slice(piece);
        match *mark {
            MORE if !piece.is_empty() => {}
            LAST => break,
            mark => return Err(Malformed::Tag(mark).into()),
        }
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{Key, KeyRing, Seal};

    const SESSION: Session = [5; 32];

    fn sealer() -> Sealer {
        Sealer::new("a", Seal::Keys(KeyRing::new(&[Key::from_bytes([1; 32])]).expect("one key")))
    }

    async fn written(message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, &sealer(), &SESSION, Direction::Request, message).await.expect("memory is enough");
        bytes
    }

    async fn check(mut bytes: &[u8], direction: Direction) -> Result<Vec<u8>, String> {
        read(&mut bytes, &sealer(), &SESSION, direction).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn messages_of_any_length_arrive() {
        for length in [0, 1, PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1, 5 << 20, MESSAGE_BYTES_MAX] {
            let message: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let bytes = written(&message).await;
            assert!(check(&bytes, Direction::Request).await == Ok(message), "{length} bytes");
        }
        let long = vec![0; MESSAGE_BYTES_MAX + 1];
        let refused = write(&mut Vec::new(), &sealer(), &SESSION, Direction::Request, &long).await;
        assert!(matches!(refused, Err(StreamError::TooLong)));
    }

    #[tokio::test]
    async fn frames_cannot_be_swapped_left_out_or_turned_round() {
        let bytes = written(&vec![7; 3 * PIECE_BYTES_MAX]).await;
        let frames: Vec<&[u8]> = bytes.chunks(bytes.len() / 3).collect();
        assert!(check(&frames.concat(), Direction::Request).await.is_ok());
        assert!(check(&frames.concat(), Direction::Response).await.is_err());
        for wrong in [[1, 0, 2], [0, 2, 2], [0, 0, 2], [2, 1, 0]] {
            let wrong = wrong.map(|n| frames[n]).concat();
            assert_eq!(
                check(&wrong, Direction::Request).await,
                Err("frame refused: damaged or forged".to_owned())
            );
        }
        let cut = check(&frames[..2].concat(), Direction::Request).await;
        assert!(cut.is_err_and(|error| error.starts_with("connection failed")), "the end is missing");
    }

    #[tokio::test]
    async fn a_claimed_length_is_not_believed() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 100]);
        assert!(check(&bytes, Direction::Request).await.is_err_and(|error| error.contains("longer")));
    }

    #[tokio::test]
    async fn both_ends_agree_on_a_session_that_never_was_before() {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10 {
            let (mut here, mut there) = tokio::io::duplex(64);
            let greetings = tokio::join!(greet(&mut here, End::Asking), greet(&mut there, End::Answering));
            let (Ok(one), Ok(other)) = greetings else { panic!("{greetings:?}") };
            assert_eq!(one, other);
            // Neither half alone decides.
            assert!(seen.insert(one[..16].to_vec()) && seen.insert(one[16..].to_vec()));
        }
    }

    #[tokio::test]
    async fn a_recorded_stream_does_not_fit_the_next() {
        let bytes = written(b"join").await;
        let next = read(&mut &bytes[..], &sealer(), &[6; 32], Direction::Request).await;
        assert!(matches!(next, Err(StreamError::Refused(Refused::Forged))));
    }
}
