//! Tells a server that the worker is gone: one small HTTP request, without a client that would outweigh the guardian.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use lease::message::Leave;
use model::{Nonce, WorkerKey};

use super::complaint::complain;

/// How long a server may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_millis(500);
/// How long it may take over each step after that. It commits before it answers.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// The port of a server whose address names none.
const PORT_DEFAULT: u16 = 80;
/// As much of the answer as says whether it was taken: "HTTP/1.1 200".
const STATUS_BYTES: usize = 12;

/// Takes leave on the first of these servers that takes it. Whether one did, or there was none to tell.
pub(super) fn take(servers: &str, key: &WorkerKey, nonce: Nonce, words: impl Fn() -> Leave) -> bool {
    let mut servers = servers.split(',').map(authority).filter(|server| !server.is_empty()).peekable();
    let mut is_taken = servers.peek().is_none();
    for server in servers {
        match post(server, || request(server, key, nonce, words())) {
            Ok(true) => {
                is_taken = true;
                break;
            }
            Ok(false) => complain(&format!("{server} did not take the leave of {key}")),
            Err(error) => complain(&format!("cannot take leave of {server}: {error}")),
        }
    }
    is_taken
}

fn request(server: &str, key: &WorkerKey, nonce: Nonce, words: Leave) -> String {
    let Leave { all_stopped, crashed, stopped_for } = words;
    let (nonce, stopped_for_ms) = (nonce.get(), stopped_for.as_millis());
    let body = format!(
        r#"{{"nonce":{nonce},"all_stopped":{all_stopped},"crashed":{crashed},"stopped_for_ms":{stopped_for_ms}}}"#
    );
    let (key, length) = (escaped(key.as_str()), body.len());
    format!(
        "POST /v1/workers/{key}/leave HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn post(server: &str, request: impl Fn() -> String) -> io::Result<bool> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses(server)? {
        match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
            Ok(stream) => return ask(stream, &request()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask(mut stream: TcpStream, request: &str) -> io::Result<bool> {
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes())?;
    let mut status = [0; STATUS_BYTES];
    stream.read_exact(&mut status)?;
    Ok(status.starts_with(b"HTTP/1.") && status[9] == b'2')
}

fn addresses(server: &str) -> io::Result<impl Iterator<Item = std::net::SocketAddr>> {
    match server.to_socket_addrs() {
        Ok(addresses) => Ok(addresses),
        Err(_) => (server, PORT_DEFAULT).to_socket_addrs(),
    }
}

/// The host and port of an address.
fn authority(server: &str) -> &str {
    let server = server.trim();
    let server = server.split_once("://").map_or(server, |(_, rest)| rest);
    server.split('/').next().unwrap_or_default()
}

/// As a part of a path.
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| {
        if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const WORDS: Leave = Leave { all_stopped: true, crashed: true, stopped_for: Duration::from_millis(12) };

    /// A server that answers one request with this; what it was asked.
    fn server(answer: &'static str) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"}") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (address, asked)
    }

    fn take_leave(servers: &str) -> bool {
        take(servers, &WorkerKey::new("a/b").unwrap(), Nonce::new(9), || WORDS)
    }

    #[test]
    fn a_leave_is_one_request_that_servers_understand() {
        let (address, asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        assert!(take_leave(&format!("http://{address}")));
        let asked = asked.join().unwrap();
        assert!(asked.starts_with("POST /v1/workers/a%2Fb/leave HTTP/1.1\r\n"), "{asked}");
        let body = r#"{"nonce":9,"all_stopped":true,"crashed":true,"stopped_for_ms":12}"#;
        assert!(
            asked.ends_with(&format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()))
        );
    }

    #[test]
    fn the_next_server_is_asked_when_one_is_gone_or_refuses() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (refusing, _) = server("HTTP/1.1 503 Service Unavailable\r\n\r\n");
        let (taking, asked) = server("HTTP/1.1 204 No Content\r\n\r\n");
        assert!(take_leave(&format!("{gone}, http://{refusing}/,{taking}")));
        asked.join().unwrap();
        let (refusing, _) = server("HTTP/1.1 503 Service Unavailable\r\n\r\n");
        assert!(!take_leave(&format!("{gone},{refusing}")));
        assert!(take_leave(" "), "nobody is to be told");
    }
}
