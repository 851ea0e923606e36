//! A server that is told to stop: what is under way is finished, and whoever asks hears that it is alive and not ready.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::Server;

#[tokio::test]
async fn a_stopping_server_finishes_what_is_under_way_and_stays_alive_meanwhile() {
    let server = Server::start().await;
    let (head, tail) = ("{\"queue\": \"q\", ", "\"payload\": 1}");
    let mut slow = tokio::net::TcpStream::connect(server.address()).await.expect("the server listens");
    let length = head.len() + tail.len();
    let request = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    slow.write_all(request.as_bytes()).await.expect("sent");
    // The server asks for the body: the request is under way.
    let mut asked = [0; 25];
    slow.read_exact(&mut asked).await.expect("an interim answer");
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    slow.write_all(head.as_bytes()).await.expect("sent");

    server.begin_stop();
    let (status, why) = loop {
        // The first answers may come before the server has heard that it is to stop.
        let answer = server.http_text("GET", "/readyz", "").await;
        if answer.0 != 200 {
            break answer;
        }
    };
    assert_eq!((status, why.as_str()), (503, "the server is going away\n"));
    assert_eq!(server.http_text("GET", "/healthz", "").await.0, 200);

    slow.write_all(tail.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    server.stop().await;
}
