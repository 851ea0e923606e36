//! Everything that is no web page reaches the server by every name that is its own: the SDK, the command line, and `curl` as
//! docs/operations.md writes it.

use std::net::TcpListener;
use std::process::Command;

use cli::fleet::Server;
use rpc::wire;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use worker::Client;

use crate::support::tenure;

async fn serve(home: &std::path::Path, flags: &[&str]) -> Server {
    Server::start(tenure(), &home.join("data"), flags).await.expect("the server starts")
}

fn port(server: &Server) -> &str {
    server.url.rsplit(':').next().expect("a port")
}

/// The SDK and the command line at this address.
async fn call(url: &str) {
    let client = Client::connect(url).expect("a valid address");
    let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
    client.enqueue(request).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    let url = url.to_owned();
    let output = tokio::task::spawn_blocking(move || {
        Command::new(tenure()).args(["enqueue", "--server", &url, "q", "1"]).output().expect("it runs")
    });
    let output = output.await.expect("no panic");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What `curl -s HOST/v1/work/claim -d '…'` sends; the status.
async fn curl(server: &Server, host: &str) -> String {
    let body = r#"{"worker":"me-1","queues":["nothing"],"wait_ms":0}"#;
    let request = format!(
        "POST /v1/work/claim HTTP/1.1\r\nHost: {host}\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\nContent-Length: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[tokio::test]
async fn programs_reach_the_server_by_every_name_of_its_own() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let flags = ["--advertise", "http://tenure.test:80", "--allow-host", "jobs.lan", "--allow-host", "b.lan"];
    let server = serve(home.path(), &flags).await;
    let port = port(&server).to_owned();
    for name in ["127.0.0.1", "localhost"] {
        call(&format!("http://{name}:{port}")).await;
    }
    for name in ["127.0.0.1", "localhost", "[::1]", "tenure.test", "jobs.lan", "b.lan"] {
        for host in [name.to_owned(), format!("{name}:{port}")] {
            assert_eq!(curl(&server, &host).await, "200", "{host}");
        }
    }
    assert_eq!(curl(&server, "evil.test").await, "421");
}

#[tokio::test]
async fn programs_reach_a_server_on_ipv6() {
    // A machine without IPv6 has no server there either.
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    let server = serve(home.path(), &["--listen", "[::1]:0"]).await;
    call(&format!("http://[::1]:{}", port(&server))).await;
    assert_eq!(curl(&server, &format!("[::1]:{}", port(&server))).await, "200");
}
