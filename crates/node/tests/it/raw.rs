//! Requests that no client of ours would make: HTTP/1 byte by byte, and gRPC calls with any head and any body.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{HeaderMap, Request, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Status;
use tonic::codegen::Service as _;
use tonic::transport::{Channel, Endpoint};

/// Sends these bytes and reads to the end: the status, 0 if there was none, and all of the answer.
pub(crate) async fn http(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    // A request that is refused half-way is not read to its end.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0), answer)
}

/// An HTTP/2 connection whose requests name `host`.
pub(crate) async fn channel(address: SocketAddr, host: &str) -> Channel {
    let origin = format!("http://{host}").parse().expect("a name");
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address").origin(origin);
    endpoint.connect().await.expect("the server listens")
}

/// What came back of a gRPC call.
pub(crate) struct Called {
    pub(crate) http: StatusCode,
    /// The code, wherever it stood; -1 if nowhere.
    pub(crate) grpc: i32,
    pub(crate) message: String,
}

/// One POST with these headers and this body, as they are.
pub(crate) async fn call(
    mut channel: Channel,
    path: &str,
    headers: &[(&str, &str)],
    body: Body,
) -> Result<Called, String> {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(tonic::body::Body::new(body)).expect("a valid request");
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.map_err(|error| error.to_string())?;
    let response = channel.call(request).await.map_err(|error| format!("{error:?}"))?;
    let (head, body) = response.into_parts();
    let said = |headers: &HeaderMap| match Status::from_header_map(headers) {
        Some(status) => (status.code() as i32, status.message().to_owned()),
        None => (-1, String::new()),
    };
    let (grpc, message) = said(&head.headers);
    let mut called = Called { http: head.status, grpc, message };
    let mut body = Body::new(body);
    while let Some(frame) = next_frame(&mut body).await {
        if let Ok(trailers) = frame?.into_trailers() {
            (called.grpc, called.message) = said(&trailers);
        }
    }
    Ok(called)
}

/// A gRPC call with this body, by a client that is in order.
pub(crate) async fn grpc(address: SocketAddr, path: &str, body: Body) -> Result<Called, String> {
    let channel = channel(address, &address.to_string()).await;
    call(channel, path, &[("content-type", "application/grpc"), ("te", "trailers")], body).await
}

/// A gRPC message: its head, then itself.
pub(crate) fn message(bytes: &[u8]) -> Bytes {
    let length = u32::try_from(bytes.len()).expect("a short message");
    [&[0], &length.to_be_bytes()[..], bytes].concat().into()
}

/// Bytes that begin like this and never end.
pub(crate) fn endless(start: Bytes) -> Body {
    use futures_util::{StreamExt as _, stream};
    Body::from_stream(stream::iter([Ok::<_, std::io::Error>(start)]).chain(stream::pending()))
}

/// As long as a test waits for what must come; only a server that hangs takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

async fn next_frame(body: &mut Body) -> Option<Result<hyper::body::Frame<Bytes>, String>> {
    use hyper::body::Body as _;
    let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx)).await;
    frame.map(|frame| frame.map_err(|error| error.to_string()))
}
