//! gRPC: every method of the .proto file with messages that are random, or nearly right; streams with frames in any order.

use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};
use tokio_stream::StreamExt as _;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::honest::Honest;
use super::{PATIENCE, memory, seeded, size};
use crate::support::Fleet;

const PROTO: &str = include_str!("../../../../rpc/proto/tenure/v1/tenure.proto");

/// All methods, and whether requests and answers are streams.
fn methods() -> Vec<(PathAndQuery, bool, bool)> {
    let mut service = "";
    let mut methods = Vec::new();
    for line in PROTO.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("service ") {
            service = name.trim_end_matches(" {");
        } else if let Some((name, rest)) = line.strip_prefix("rpc ").and_then(|line| line.split_once('(')) {
            let (request, answer) = rest.split_once("returns").expect("a method returns something");
            let path = format!("/tenure.v1.{service}/{name}").parse().expect("a path");
            methods.push((path, request.contains("stream "), answer.contains("stream ")));
        }
    }
    assert!(methods.len() > 20 && methods.iter().any(|(_, is_stream, _)| *is_stream), "{methods:?}");
    methods
}

/// Messages as they are.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = usize;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = usize;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<usize>, Status> {
        let length = buffer.remaining();
        buffer.advance(length);
        Ok(Some(length))
    }
}

/// Bytes that are often a message, with fields, kinds and lengths as they come.
fn message(rng: &mut StdRng, depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.random_range(0..6) {
        let (field, kind) = (rng.random_range(1..14_u8), rng.random_range(0..8));
        match kind {
            0 | 1 => {
                bytes.push(field << 3);
                // Mostly small: a claim that may wait for a minute does.
                bytes.push(rng.random_range(0..100));
            }
            2 => {
                bytes.push(field << 3);
                bytes.extend([0xff; 9]);
                bytes.push(1);
            }
            3 => {
                bytes.push(field << 3 | 1);
                bytes.extend(rng.random::<[u8; 8]>());
            }
            4 | 5 => {
                let words =
                    ["q", "w", "", "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f", "completed", "\u{202e}", "a b"];
                let word = words[rng.random_range(0..words.len())];
                bytes.extend([field << 3 | 2, word.len() as u8]);
                bytes.extend(word.bytes());
            }
            6 if depth > 0 => {
                let inner = message(rng, depth - 1);
                if inner.len() < 128 {
                    bytes.extend([field << 3 | 2, inner.len() as u8]);
                    bytes.extend(inner);
                }
            }
            _ => bytes.extend((0..rng.random_range(0..8)).map(|_| rng.random::<u8>())),
        }
    }
    if rng.random_bool(0.1) {
        bytes.truncate(rng.random_range(0..=bytes.len()));
    }
    bytes
}

/// One call to its end, or of endless answers the first few; the status.
async fn call(channel: Channel, rng: &mut StdRng, method: &(PathAndQuery, bool, bool)) -> Code {
    let (path, is_stream, has_answers) = method;
    let mut client = Grpc::new(channel);
    client.ready().await.expect("the server listens");
    let count = if *is_stream { rng.random_range(0..5) } else { 1 };
    let messages: Vec<Vec<u8>> = (0..count).map(|_| message(rng, 3)).collect();
    let answered = async {
        if !is_stream && !has_answers {
            let message = messages.into_iter().next().expect("one");
            return client.unary(Request::new(message), path.clone(), Raw).await.err();
        }
        let request = Request::new(tokio_stream::iter(messages));
        match client.streaming(request, path.clone(), Raw).await {
            Ok(answers) => answers.into_inner().take(3).find_map(Result::err).await,
            Err(status) => Some(status),
        }
    };
    // What goes on without end is hung up; what should have been answered is missed.
    let patience = if *has_answers { Duration::from_millis(50) } else { PATIENCE };
    match tokio::time::timeout(patience, answered).await {
        Ok(status) => status.map_or(Code::Ok, |status| {
            let is_ours = matches!(status.code(), Code::Internal | Code::Unknown | Code::Unavailable);
            assert!(!is_ours, "{path}: {status:?}");
            status.code()
        }),
        Err(_) if *has_answers => Code::Ok,
        Err(_) => panic!("{path} hangs"),
    }
}

trait FindMap<T> {
    async fn find_map<U>(self, f: impl FnMut(T) -> Option<U>) -> Option<U>;
}

impl<T, S: tokio_stream::Stream<Item = T>> FindMap<T> for S {
    async fn find_map<U>(self, mut f: impl FnMut(T) -> Option<U>) -> Option<U> {
        let mut all = std::pin::pin!(self);
        while let Some(item) = all.next().await {
            if let Some(found) = f(item) {
                return Some(found);
            }
        }
        None
    }
}

#[tokio::test]
async fn no_call_is_answered_as_a_defect_or_hangs() {
    const CLIENTS: usize = 16;
    let count = size(1_600, 30_000);
    let mut rng = seeded("grpc");
    let fleet = Fleet::start(&[]).await;
    let endpoint = Endpoint::from_shared(fleet.server.url.clone()).expect("a valid address");
    let before = memory(&fleet);
    let honest = Honest::start(&fleet);
    let begun = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let channel = endpoint.connect().await.expect("the server listens");
        let mut rng: StdRng = rand::SeedableRng::seed_from_u64(rng.next_u64());
        clients.spawn(async move {
            let methods = methods();
            let mut refused = 0;
            for _ in 0..count / CLIENTS {
                let method = &methods[rng.random_range(0..methods.len())];
                refused += usize::from(call(channel.clone(), &mut rng, method).await != Code::Ok);
            }
            refused
        });
    }
    let refused: usize = clients.join_all().await.into_iter().sum();
    let (served, waited) = honest.stop().await;
    let grown = memory(&fleet).saturating_sub(before) >> 20;
    println!(
        "grpc: {count} calls in {:?}, {refused} refused, none as a defect; {grown} MiB more; honest client {served} times, \
         worst {waited:?}",
        begun.elapsed()
    );
    assert!(grown < 100, "{grown} MiB more");
}
