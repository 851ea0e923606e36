//! A running server: does it answer, and is it ready?
//!
//! Readiness is an HTTP path, and one request of HTTP/1 is a few lines; the gRPC client proves the rest.

use std::time::Duration;

use rpc::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use worker::Client;

use super::Finding;

/// A server that takes longer to answer is not well.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// More than any answer of `/readyz`.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How a server answered.
pub(super) enum Health {
    Unreachable(String),
    Reached { stats: Result<wire::StatsResponse, String>, readiness: Result<(), String> },
}

impl Health {
    pub(super) fn is_reachable(&self) -> bool {
        matches!(self, Health::Reached { .. })
    }
}

/// Asks the first server of a list.
pub(super) async fn ask(servers: &str) -> Health {
    let url = servers.split(',').next().unwrap_or_default().trim();
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let readiness = match in_time(readyz(host)).await {
        Ok(readiness) => readiness,
        Err(why) => return Health::Unreachable(why),
    };
    let stats = async {
        let client = Client::connect(url).map_err(|error| error.to_string())?;
        client.stats().await.map_err(|error| error.to_string())
    };
    Health::Reached { stats: in_time(stats).await, readiness }
}

pub(super) fn findings(servers: &str, health: &Health, is_expected: bool) -> Vec<Finding> {
    let name = "server";
    let (stats, readiness) = match health {
        Health::Unreachable(why) if is_expected => {
            let found = format!("{servers} cannot be reached: {why}");
            return vec![Finding::fail(name, found, "start it with `tenure serve`, or see its log")];
        }
        Health::Unreachable(_) => return vec![Finding::ok(name, format!("none is running at {servers}"))],
        Health::Reached { stats, readiness } => (stats, readiness),
    };
    let reached = match stats {
        Ok(stats) if stats.version == env!("CARGO_PKG_VERSION") => Finding::ok(
            name,
            format!("{servers} runs tenure {}, {} workers connected to it", stats.version, stats.workers),
        ),
        Ok(stats) => Finding::warn(
            name,
            format!("{servers} runs tenure {}, this is {}", stats.version, env!("CARGO_PKG_VERSION")),
            "use the same version on both sides",
        ),
        Err(why) => Finding::fail(
            name,
            format!("{servers} answers, but not as a tenure server: {why}"),
            "check --server",
        ),
    };
    let ready = match readiness {
        Ok(()) => Finding::ok("readiness", "its store takes commits"),
        Err(why) => Finding::fail(
            "readiness",
            why,
            "do as it says; then it comes back by itself, unless it says that it must be started again",
        ),
    };
    vec![reached, ready]
}

async fn in_time<T>(answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(ANSWER_MAX, answer).await.unwrap_or_else(|_| Err(format!("no answer within {ANSWER_MAX:?}")))
}

/// The outer result says whether anyone answered, the inner one what.
async fn readyz(host: &str) -> Result<Result<(), String>, String> {
    let mut stream = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.map_err(|error| error.to_string())?;
    Ok(judge_answer(&String::from_utf8_lossy(&answer)))
}

fn judge_answer(answer: &str) -> Result<(), String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split_ascii_whitespace().nth(1).unwrap_or("nothing");
    match status {
        "200" => Ok(()),
        _ if body.trim().is_empty() => Err(format!("/readyz answers {status}")),
        _ => Err(body.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn readiness_is_read_from_the_status() {
        assert_eq!(judge_answer("HTTP/1.1 200 OK\r\nx: y\r\n\r\nready\n"), Ok(()));
        assert_eq!(judge_answer("HTTP/1.1 503 No\r\n\r\ndisk is full\n"), Err("disk is full".to_owned()));
        assert_eq!(judge_answer("SSH-2.0-OpenSSH"), Err("/readyz answers nothing".to_owned()));
    }

    #[test]
    fn a_missing_server_is_trouble_only_if_one_was_named() {
        let health = Health::Unreachable("connection refused".into());
        assert_eq!(findings("http://x", &health, false)[0].status, Status::Ok);
        assert_eq!(findings("http://x", &health, true)[0].status, Status::Fail);
    }
}
