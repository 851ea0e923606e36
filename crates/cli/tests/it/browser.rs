//! Real Chromium with hostile pages, against the real server. The judge is the server's state: nothing enqueued, nothing claimed,
//! nothing changed, nothing read.

mod chromium;
mod pages;

use cli::fleet::Server;
use serde_json::{Value, json};

use crate::support::{Fleet, http, tenure};
use chromium::Chromium;
use pages::Pages;

/// The browser's own protection of the local network off, as in browsers that have none.
const UNPROTECTED: &str = "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests";
/// A name of the attacker's.
const EVIL: &str = "--host-resolver-rules=MAP evil.test 127.0.0.1";

/// A server with one job, whose payload is a secret.
async fn prey() -> Fleet {
    let fleet = Fleet::start(&[]).await;
    let job = json!({"queue": "q", "payload": {"secret": "swordfish"}});
    let (status, _) = fleet.http("POST", "/v1/jobs", &job.to_string()).await;
    assert_eq!(status, 200);
    fleet
}

/// What a page could change: jobs, queues and workers, as far as these do not depend on time.
async fn state(server: &str) -> Value {
    let get = async |path: &str| {
        let (status, text) = http(server, "GET", path, "").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let jobs = get("/v1/jobs").await;
    let jobs = jobs["jobs"].as_array().expect("a list").iter();
    let jobs: Vec<Value> = jobs.map(|job| json!([job["id"], job["state"], job["attempt"]])).collect();
    let queues = get("/v1/queues").await;
    let queues = queues["queues"].as_array().expect("a list").iter();
    let queues: Vec<Value> = queues
        .map(|queue| json!([queue["name"], queue["paused"], queue["exclusive"], queue["max_attempts"]]))
        .collect();
    json!({"jobs": jobs, "queues": queues, "workers": get("/v1/workers").await["workers"]})
}

async fn refused(server: &str) -> f64 {
    let (_, text) = http(server, "GET", "/metrics", "").await;
    let refused = text.lines().filter(|line| line.starts_with("tenure_requests_refused_total"));
    refused.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Has a page try everything that pages can; answers what it read.
async fn attack(fleet: &Fleet, page_host: &str, is_public: bool) -> String {
    let before = state(&fleet.server.url).await;
    let pages = Pages::start(&fleet.server.url).await;
    let public = pages.as_public();
    let flags = if is_public { &[EVIL, UNPROTECTED, &public][..] } else { &[] };
    let _browser = Chromium::start(&pages.url(page_host, "/attack"), flags);
    let report = pages.report().await;
    assert_eq!(state(&fleet.server.url).await, before, "the page did something: {report}");
    report
}

#[tokio::test]
async fn a_page_on_another_port_of_this_machine_does_and_reads_nothing() {
    let fleet = prey().await;
    let report = attack(&fleet, "127.0.0.1", false).await;
    assert!(!report.contains("swordfish") && report.contains("blocked"), "{report}");
    // It is the server that refused, not the browser.
    assert!(refused(&fleet.server.url).await >= 10.0, "{report}");
}

#[tokio::test]
async fn a_public_page_does_and_reads_nothing() {
    let fleet = prey().await;
    let report = attack(&fleet, "evil.test", true).await;
    assert!(!report.contains("swordfish") && report.contains("blocked"), "{report}");
    assert!(refused(&fleet.server.url).await >= 10.0, "{report}");
}

#[tokio::test]
async fn a_form_that_is_sent_by_a_page_does_nothing() {
    let fleet = prey().await;
    let before = state(&fleet.server.url).await;
    let pages = Pages::start(&fleet.server.url).await;
    for (page, flags) in
        [("/form-text", &[][..]), ("/form-urlencoded", &[]), ("/form-text", &[EVIL, UNPROTECTED])]
    {
        let host = if flags.is_empty() { "127.0.0.1" } else { "evil.test" };
        let seen = refused(&fleet.server.url).await;
        let _browser = Chromium::start(&pages.url(host, page), flags);
        // The form is sent as a navigation, so no script is left that could tell; the server's answer is.
        while refused(&fleet.server.url).await == seen && state(&fleet.server.url).await == before {
            tokio::task::yield_now().await;
        }
        assert_eq!(state(&fleet.server.url).await, before, "{page} did something");
    }
}

/// The page comes from the attacker. Then its name means our server, which for the browser is the same origin.
#[tokio::test]
async fn a_page_whose_name_comes_to_mean_this_server_does_and_reads_nothing() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let collector = Pages::start("http://127.0.0.1:1").await;
    let attacker = Pages::start(&collector.url("127.0.0.1", "")).await;
    let browser = Chromium::start(&attacker.url("evil.test", "/rebinding"), &[EVIL, UNPROTECTED]);
    attacker.wait_for("/loaded").await;
    let listen = attacker.close().await;
    let listen = ["--listen", &listen.to_string()].map(str::to_owned);
    let listen: Vec<&str> = listen.iter().map(String::as_str).collect();
    let server =
        Server::start(tenure(), &home.path().join("data"), &listen).await.expect("the server starts");
    let report = collector.report().await;
    drop(browser);
    assert!(report.contains("read 421") && !report.contains(" 200"), "{report}");
    let state = state(&server.url).await;
    assert_eq!(
        (&state["jobs"], &state["queues"], &state["workers"]),
        (&json!([]), &json!([]), &json!([])),
        "{report}"
    );
}
