//! Tells a server that the worker is gone: one small HTTP request, without a client that would outweigh the guardian.
//!
//! Only the server that looks after the worker takes its leave. Another one answers with status 421 and, if it knows it, the
//! address of the right one. If that one is on our list it is asked next, then those that are left. Nobody is asked twice in
//! one round, so servers that send us to and fro cost no time; the next round is the machine's to order.
//!
//! The list has the servers that the worker was given and the one that took its last heartbeat. Nobody else is asked, whatever
//! an answer says: a leave carries the worker's nonce, and goes wherever it is sent from inside the worker's network.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

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
/// The status of a server that another registry's workers are nothing to.
const NOT_OWNER: &[u8] = b"421";
/// As much of such an answer as is read; the address that it names is within that, or not taken.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// What a server made of a leave.
enum Answer {
    Taken,
    Refused,
    /// Another one is to be asked: this one, it says, if it says anything.
    NotOwner(Option<String>),
}

/// Takes leave on the first of these servers that takes it. Whether one did, or there was none to tell.
pub(super) fn take(servers: &str, key: &WorkerKey, nonce: Nonce, words: impl Fn() -> Leave) -> bool {
    let list = servers.split(',').map(authority).filter(|server| !server.is_empty());
    let mut ahead: VecDeque<&str> = list.collect();
    if ahead.is_empty() {
        return true;
    }
    while let Some(server) = ahead.pop_front() {
        ahead.retain(|other| *other != server);
        match post(server, || request(server, key, nonce, words())) {
            Ok(Answer::Taken) => return true,
            Ok(Answer::NotOwner(owner)) => {
                complain(&format!("{server} does not look after {key}"));
                // It comes to the front, if it was not asked yet.
                if let Some(place) = ahead.iter().position(|other| Some(*other) == owner.as_deref()) {
                    ahead.swap(0, place);
                }
            }
            Ok(Answer::Refused) => complain(&format!("{server} did not take the leave of {key}")),
            Err(error) => complain(&format!("cannot take leave of {server}: {error}")),
        }
    }
    false
}

fn request(server: &str, key: &WorkerKey, nonce: Nonce, words: Leave) -> String {
    let Leave { all_stopped, crashed, exclusive_stopped: _, stopped_for, stopped_at } = words;
    let (nonce, stopped_for_ms) = (nonce.get(), stopped_for.as_millis());
    let stopped_at =
        stopped_at.map_or(String::new(), |at| format!(r#","stopped_at_us":{}"#, at.as_nanos() / 1_000));
    let body = format!(
        r#"{{"nonce":{nonce},"all_stopped":{all_stopped},"crashed":{crashed},"stopped_for_ms":{stopped_for_ms}{stopped_at}}}"#
    );
    let (key, length) = (escaped(key.as_str()), body.len());
    format!(
        "POST /v1/workers/{key}/leave HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn post(server: &str, request: impl Fn() -> String) -> io::Result<Answer> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses(server)? {
        match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
            Ok(stream) => return ask(stream, &request()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask(mut stream: TcpStream, request: &str) -> io::Result<Answer> {
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes())?;
    let mut status = [0; STATUS_BYTES];
    stream.read_exact(&mut status)?;
    Ok(match status.strip_prefix(b"HTTP/1.").map(|rest| &rest[2..]) {
        Some([b'2', ..]) => Answer::Taken,
        Some(NOT_OWNER) => Answer::NotOwner(owner(&rest_of(stream))),
        _ => Answer::Refused,
    })
}

/// What follows of an answer, as far as it comes in time.
fn rest_of(stream: TcpStream) -> String {
    let patience_ends = Instant::now() + ANSWER_WAIT;
    let (mut bytes, mut stream) = (Vec::new(), stream.take(ANSWER_BYTES_MAX));
    let mut piece = [0; 512];
    loop {
        let left = patience_ends.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.get_ref().set_read_timeout(Some(left)).is_err() {
            break;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(length) => bytes.extend(&piece[..length]),
        }
        // A server may keep the connection open although it was asked not to.
        if bytes.ends_with(b"}") && owner(&String::from_utf8_lossy(&bytes)).is_some() {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The host and port in `"owner":"http://host:port"`. Inside a string of JSON every quote is escaped, so nothing that people
/// wrote can be mistaken for it.
fn owner(answer: &str) -> Option<String> {
    let (_, rest) = answer.rsplit_once(r#""owner""#)?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (address, _) = value.split_once('"')?;
    Some(authority(address).to_owned())
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
    use std::sync::mpsc::{self, Receiver};
    use std::thread;

    use model::Instant;

    use super::*;

    const WORDS: Leave = Leave {
        all_stopped: true,
        crashed: true,
        exclusive_stopped: false,
        stopped_for: Duration::from_millis(12),
        stopped_at: Some(Instant::from_millis(7)),
    };

    /// A server that answers one request with this; what it was asked.
    fn server(answer: &'static str) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"}") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            let _ = tell.send(String::from_utf8(asked).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        });
        (address, told)
    }

    /// What a server was asked that must have been.
    fn heard(told: &Receiver<String>) -> String {
        told.recv_timeout(Duration::from_secs(10)).expect("it was asked")
    }

    fn take_leave(servers: &str) -> bool {
        take(servers, &WorkerKey::new("a/b").unwrap(), Nonce::new(9), || WORDS)
    }

    #[test]
    fn a_leave_is_one_request_that_servers_understand() {
        let (address, asked) = server(TAKEN);
        assert!(take_leave(&format!("http://{address}")));
        let asked = heard(&asked);
        assert!(asked.starts_with("POST /v1/workers/a%2Fb/leave HTTP/1.1\r\n"), "{asked}");
        let body =
            r#"{"nonce":9,"all_stopped":true,"crashed":true,"stopped_for_ms":12,"stopped_at_us":7000}"#;
        assert!(
            asked.ends_with(&format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()))
        );
    }

    fn not_owner(owner: &str) -> &'static str {
        let body = format!(
            r#"{{"error":{{"detail":"it said \"owner\":\"http://127.0.0.1:1\" before"}},"owner":"{owner}"}}"#
        );
        let length = body.len();
        let answer = format!("HTTP/1.1 421 Misdirected Request\r\ncontent-length: {length}\r\n\r\n{body}");
        Box::leak(answer.into_boxed_str())
    }

    const TAKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

    #[test]
    fn a_leave_goes_to_the_server_that_looks_after_the_worker() {
        let (owner, asked) = server(TAKEN);
        let (second, _) = server(not_owner(&format!("http://{owner}")));
        let (first, _) = server(not_owner(&format!("http://{second}/")));
        let (idle, unasked) = server(TAKEN);
        let list = format!("{first},{idle},http://{owner},{second}/");
        assert!(take_leave(&list), "by way of two that are not in charge");
        let asked = heard(&asked);
        assert!(asked.starts_with("POST /v1/workers/a%2Fb/leave HTTP/1.1\r\n"));
        let head = format!("\r\nhost: {owner}\r\ncontent-type: application/json\r\n");
        assert!(asked.contains(&head), "as it is known by others: {asked}");
        assert!(unasked.try_recv().is_err(), "it had no reason to be asked");
    }

    #[test]
    fn an_owner_that_is_gone_or_unknown_leads_to_the_next_of_the_list() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let none = "HTTP/1.1 421 Misdirected Request\r\ncontent-length: 2\r\n\r\n{}";
        for answer in [not_owner(&format!("http://{gone}")), none, not_owner("http://a b"), not_owner("")] {
            let ((first, _), (second, asked)) = (server(answer), server(TAKEN));
            assert!(take_leave(&format!("{first},{second},{gone}")), "{answer}");
            heard(&asked);
        }
    }

    #[test]
    fn nobody_is_asked_who_is_not_on_the_list() {
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = elsewhere.local_addr().unwrap();
        let (first, _) = server(not_owner(&format!("http://{address}")));
        assert!(!take_leave(&first), "whatever listens there, it would learn the worker's nonce");
        elsewhere.set_nonblocking(true).unwrap();
        assert!(elsewhere.accept().is_err(), "nobody came");
    }

    #[test]
    fn servers_that_send_us_to_and_fro_are_asked_once_each() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [a, b] = [0, 1].map(|place: usize| listeners[place].local_addr().unwrap());
        let counts = listeners.map(|listener| {
            let other = if listener.local_addr().unwrap() == a { b } else { a };
            thread::spawn(move || {
                let mut count = 0;
                while let Ok((mut stream, _)) = listener.accept() {
                    let mut asked = [0; 4096];
                    if stream.read(&mut asked).unwrap() == 0 {
                        break;
                    }
                    count += 1;
                    stream.write_all(not_owner(&format!("http://{other}")).as_bytes()).unwrap();
                }
                count
            })
        });
        assert!(!take_leave(&format!("{a},{b}")));
        for (address, count) in [a, b].into_iter().zip(counts) {
            // A connection without a question is the end.
            drop(TcpStream::connect(address).unwrap());
            assert_eq!(count.join().unwrap(), 1, "{address}");
        }
    }

    #[test]
    fn the_next_server_is_asked_when_one_is_gone_or_refuses() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (refusing, _) = server("HTTP/1.1 503 Service Unavailable\r\n\r\n");
        let (taking, asked) = server("HTTP/1.1 204 No Content\r\n\r\n");
        assert!(take_leave(&format!("{gone}, http://{refusing}/,{taking}")));
        heard(&asked);
        let (refusing, _) = server("HTTP/1.1 503 Service Unavailable\r\n\r\n");
        assert!(!take_leave(&format!("{gone},{refusing}")));
        assert!(take_leave(" "), "nobody is to be told");
    }
}
