//! Who may speak to the port, judged by the head of a request. Programs may; web pages of others may not, although a browser
//! on this machine can reach everything on loopback.
//!
//! What protects us is what a browser does not leave to a page: the name it connected to (`Host`), where the page came from
//! (`Origin`, `Sec-Fetch-Site`), and which content types it sends without asking us first. No answer ever carries a CORS
//! header, so that all other requests end with the question. The allowed path allocates nothing.

use http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};

use super::hosts::Hosts;
use super::metrics::Reason;
use super::refusal::Refusal;

/// Where all gRPC methods are.
const GRPC_PATH: &str = "/tenure.v1.";
/// The calls whose requests are streams; they stay open for as long as their client lives.
const STREAMS: [&str; 2] = ["/tenure.v1.Work/Session", "/tenure.v1.Jobs/Submit"];
/// The calls whose answers are.
const WATCHES: [&str; 2] = ["/tenure.v1.Jobs/Watch", "/tenure.v1.Nodes/Watch"];
const GRPC_TYPE: &str = "application/grpc";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// As much of a wrong name as is worth repeating.
const SHOWN_MAX: usize = 80;

/// What an allowed request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// HTTP with JSON.
    Http,
    /// A gRPC call with one message.
    Unary,
    /// A gRPC call with one message, and answers without end.
    Watch,
    /// A gRPC call whose messages never end, in either direction.
    Stream,
}

/// Judges requests.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Hosts,
}

impl Guard {
    pub(crate) fn new(hosts: Hosts) -> Self {
        Guard { hosts }
    }

    /// Lets the request pass, or says why not.
    pub(crate) fn judge<B>(&self, request: &Request<B>) -> Result<Kind, Refusal> {
        let host = self.check_host(request)?;
        let headers = request.headers();
        check_origin(headers, host)?;
        check_type(headers)?;
        if !request.uri().path().starts_with(GRPC_PATH) {
            return Ok(Kind::Http);
        }
        check_grpc(request)?;
        Ok(match request.uri().path() {
            path if STREAMS.contains(&path) => Kind::Stream,
            path if WATCHES.contains(&path) => Kind::Watch,
            _ => Kind::Unary,
        })
    }

    /// The host that the request names, exactly once; none with HTTP/1.0, which no browser speaks.
    fn check_host<'a, B>(&self, request: &'a Request<B>) -> Result<Option<&'a str>, Refusal> {
        let mut named = request.headers().get_all(HOST).iter();
        let (header, another) = (named.next(), named.next());
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        let header = header.map(|host| host.to_str().unwrap_or_default());
        let is_clear = another.is_none()
            && header.zip(authority).is_none_or(|(header, authority)| header.eq_ignore_ascii_case(authority));
        if !is_clear {
            return Err(refused(
                StatusCode::BAD_REQUEST,
                Reason::Host,
                "the request names more than one host",
            ));
        }
        let host = match (authority, header) {
            // An HTTP/1 request to a whole URL names its host twice.
            (Some(_), None) if request.version() < Version::HTTP_2 => None,
            (authority, header) => authority.or(header),
        };
        let Some(host) = host else {
            let is_plain = request.version() < Version::HTTP_11 && authority.is_none();
            let why = "the request names no host; send a Host header";
            return if is_plain {
                Ok(None)
            } else {
                Err(refused(StatusCode::BAD_REQUEST, Reason::Host, why))
            };
        };
        if self.hosts.allow(host) {
            return Ok(Some(host));
        }
        let shown: String = host.chars().take(SHOWN_MAX).collect();
        let name = shown.split(':').next().unwrap_or_default();
        Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            Reason::Host,
            format!(
                "this server does not go by the name {shown:?}; if it shall, start it with --allow-host {name} (or \
                 allow-host in tenure.toml), or call it by its IP address"
            ),
        ))
    }
}

/// Whether the answer is a page of jobs, which is large before its length is known.
pub(super) fn makes_page<B>(request: &Request<B>) -> bool {
    match request.uri().path() {
        "/v1/jobs" => request.method() == Method::GET,
        path => path == "/tenure.v1.Jobs/List",
    }
}

/// Refuses what a page of another origin has its browser send.
fn check_origin(headers: &HeaderMap, host: Option<&str>) -> Result<(), Refusal> {
    let is_ours = |origin: &HeaderValue| {
        let origin = origin.to_str().ok()?;
        let from = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
        host.filter(|host| host.eq_ignore_ascii_case(from))
    };
    let is_same_site = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    if headers.get_all(ORIGIN).iter().all(|origin| is_ours(origin).is_some())
        && headers.get_all(SEC_FETCH_SITE).iter().all(is_same_site)
    {
        return Ok(());
    }
    let why = "web pages of other origins (another host, or another port) may not use this server; call it from a program";
    Err(refused(StatusCode::FORBIDDEN, Reason::Origin, why))
}

/// Refuses the bodies that a browser sends for any page without asking first. The third of these types is let in: it is what
/// `curl -d` says, and with it browsers always send an `Origin`.
fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_pages = |kind: &HeaderValue| {
        let kind = kind.as_bytes().trim_ascii_start();
        starts_with(kind, "text/plain") || starts_with(kind, "multipart/")
    };
    if !headers.get_all(CONTENT_TYPE).iter().any(is_pages) {
        return Ok(());
    }
    let why =
        "text/plain and multipart bodies are not taken; send JSON with `content-type: application/json`";
    Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::ContentType, why))
}

/// gRPC is only what no browser can send: its own content type, over HTTP/2.
fn check_grpc<B>(request: &Request<B>) -> Result<(), Refusal> {
    if request.method() != Method::POST {
        let why = "a gRPC method is called by POST";
        return Err(refused(StatusCode::METHOD_NOT_ALLOWED, Reason::Grpc, why));
    }
    let mut kinds = request.headers().get_all(CONTENT_TYPE).iter();
    let is_grpc = kinds.next().is_some_and(is_grpc_type) && kinds.next().is_none();
    if !is_grpc {
        let why =
            "this is a gRPC method; send `content-type: application/grpc`, or use the paths that GET / lists";
        return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, Reason::ContentType, why));
    }
    if request.version() != Version::HTTP_2 {
        let why = "gRPC needs HTTP/2; over HTTP/1 use the paths that GET / lists";
        return Err(refused(StatusCode::BAD_REQUEST, Reason::Grpc, why));
    }
    Ok(())
}

/// `application/grpc`, alone or with an encoding or a parameter; not `application/grpc-web`.
pub(super) fn is_grpc_type(kind: &HeaderValue) -> bool {
    let kind = kind.as_bytes();
    starts_with(kind, GRPC_TYPE) && matches!(kind.get(GRPC_TYPE.len()), None | Some(b'+' | b';' | b' '))
}

fn starts_with(text: &[u8], prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

fn refused(status: StatusCode, reason: Reason, why: &str) -> Refusal {
    Refusal::new(status, reason, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guard's status for a request, 200 if it passes: `POST HTTP/1.1 /path`, then headers.
    fn judged(line: &str, headers: &[(&str, &str)]) -> u16 {
        let guard = Guard::new(Hosts::new(&["jobs.lan".to_owned()], ""));
        let words: Vec<&str> = line.split(' ').collect();
        let version = match words[2] {
            "HTTP/1.0" => Version::HTTP_10,
            "HTTP/1.1" => Version::HTTP_11,
            _ => Version::HTTP_2,
        };
        let mut request = Request::builder().method(words[0]).uri(words[1]).version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        guard.judge(&request).map_or_else(|refusal| refusal.answer(&request).status().as_u16(), |_| 200)
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:7117");

    #[test]
    fn exactly_one_host_must_be_ours() {
        for (line, hosts, status) in [
            ("GET / HTTP/1.1", &["127.0.0.1:7117"][..], 200),
            ("GET / HTTP/1.1", &["jobs.lan"], 200),
            ("GET / HTTP/1.1", &["evil.test"], 421),
            ("GET / HTTP/1.1", &[""], 421),
            ("GET / HTTP/1.1", &[], 400),
            ("GET / HTTP/1.1", &["127.0.0.1", "127.0.0.1"], 400),
            ("GET / HTTP/1.1", &["127.0.0.1", "evil.test"], 400),
            ("GET http://evil.test/ HTTP/1.1", &["127.0.0.1"], 400),
            ("GET http://evil.test/ HTTP/1.1", &["evil.test"], 421),
            ("GET http://127.0.0.1/ HTTP/1.1", &["127.0.0.1"], 200),
            ("GET http://127.0.0.1/ HTTP/1.1", &[], 400),
            ("GET / HTTP/1.0", &[], 200),
            ("GET / HTTP/1.0", &["evil.test"], 421),
            ("GET http://evil.test/ HTTP/1.0", &[], 400),
            ("GET http://127.0.0.1:7117/ HTTP/2", &[], 200),
            ("GET http://evil.test/ HTTP/2", &[], 421),
            ("GET http://127.0.0.1/ HTTP/2", &["evil.test"], 400),
            ("GET / HTTP/2", &["localhost"], 200),
            ("GET / HTTP/2", &[], 400),
        ] {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(judged(line, &headers), status, "{line} {hosts:?}");
        }
    }

    #[test]
    fn only_pages_of_this_very_port_pass() {
        for (name, value, status) in [
            ("origin", "http://127.0.0.1:7117", 200),
            ("origin", "http://127.0.0.1:8000", 403),
            ("origin", "http://127.0.0.1", 403),
            ("origin", "http://evil.test", 403),
            ("origin", "null", 403),
            ("origin", "", 403),
            ("origin", "127.0.0.1:7117", 403),
            ("origin", "file://127.0.0.1:7117", 403),
            ("sec-fetch-site", "none", 200),
            ("sec-fetch-site", "same-origin", 200),
            ("sec-fetch-site", "same-site", 403),
            ("sec-fetch-site", "cross-site", 403),
            ("sec-fetch-site", "something-new", 403),
        ] {
            for line in ["GET /v1/jobs HTTP/1.1", "POST /v1/jobs HTTP/1.1", "OPTIONS /v1/jobs HTTP/1.1"] {
                assert_eq!(judged(line, &[HERE, (name, value)]), status, "{line} {name}: {value}");
            }
        }
        let twice = [HERE, ("origin", "http://127.0.0.1:7117"), ("origin", "http://evil.test")];
        assert_eq!(judged("GET / HTTP/1.1", &twice), 403);
        // Whoever names no host has no origin of its own.
        assert_eq!(judged("GET / HTTP/1.0", &[("origin", "http://127.0.0.1:7117")]), 403);
        assert_eq!(judged("GET / HTTP/1.0", &[("sec-fetch-site", "cross-site")]), 403);
    }

    #[test]
    fn bodies_that_any_page_can_send_are_refused() {
        for (kind, status) in [
            ("application/json", 200),
            ("application/x-www-form-urlencoded", 200),
            ("text/plain", 415),
            ("TEXT/Plain;charset=UTF-8", 415),
            (" text/plain", 415),
            ("multipart/form-data; boundary=x", 415),
        ] {
            assert_eq!(judged("POST /v1/jobs HTTP/1.1", &[HERE, ("content-type", kind)]), status, "{kind}");
        }
        let twice = [HERE, ("content-type", "application/json"), ("content-type", "text/plain")];
        assert_eq!(judged("PUT /v1/queues/q HTTP/1.1", &twice), 415);
        assert_eq!(judged("POST /v1/jobs HTTP/1.1", &[HERE]), 200);
    }

    #[test]
    fn grpc_is_http_2_with_its_own_content_type() {
        let call = "POST http://127.0.0.1/tenure.v1.Queues/Set HTTP/2";
        for (line, kind, status) in [
            (call, "application/grpc", 200),
            (call, "application/grpc+proto", 200),
            (call, "application/grpc;x=y", 200),
            (call, "application/grpc-web", 415),
            (call, "application/json", 415),
            (call, "application/x-www-form-urlencoded", 415),
            (call, "text/plain", 415),
            ("GET http://127.0.0.1/tenure.v1.Queues/Set HTTP/2", "application/grpc", 405),
        ] {
            assert_eq!(judged(line, &[("content-type", kind)]), status, "{line} {kind}");
        }
        assert_eq!(judged(call, &[]), 415);
        let over_http_1 = "POST /tenure.v1.Queues/Set HTTP/1.1";
        assert_eq!(judged(over_http_1, &[HERE, ("content-type", "application/grpc")]), 400);
        assert_eq!(judged(over_http_1, &[HERE, ("content-type", "text/plain")]), 415);
    }

    #[test]
    fn calls_that_stream_are_told_apart() {
        let kind = |path: &str| {
            let request = Request::post(format!("http://127.0.0.1{path}")).version(Version::HTTP_2);
            let request = request.header("content-type", "application/grpc").body(()).unwrap();
            Guard::new(Hosts::default()).judge(&request).unwrap()
        };
        assert_eq!(kind("/tenure.v1.Work/Session"), Kind::Stream);
        assert_eq!(kind("/tenure.v1.Jobs/Submit"), Kind::Stream);
        assert_eq!(kind("/tenure.v1.Jobs/Watch"), Kind::Watch);
        assert_eq!(kind("/tenure.v1.Jobs/List"), Kind::Unary);
        assert_eq!(kind("/v1/jobs"), Kind::Http);
    }
}
