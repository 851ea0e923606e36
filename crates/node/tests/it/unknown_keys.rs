//! Calls of those whom the server does not know: they cost it something durable, so they come through the door of new workers,
//! and what they say of a key that nobody has used binds nobody.

use node::NodeConfig;
use serde_json::json;

use crate::support::Server;

/// The door lets so many through at once.
const AT_ONCE: u32 = 5;

async fn narrow() -> Server {
    Server::start_with(NodeConfig { registrations_per_second: AT_ONCE, ..NodeConfig::default() }).await
}

#[tokio::test]
async fn first_pings_wait_at_the_door_and_later_ones_do_not() {
    let server = narrow().await;
    let mut known = Vec::new();
    let mut refused = 0;
    for number in 0..100 {
        let (status, answer) = server.http("POST", &format!("/v1/workers/p{number}/ping"), "{}").await;
        match status {
            200 => known.push(number),
            429 => {
                refused += 1;
                assert_eq!(answer["type"], "throttled", "{answer}");
            }
            _ => panic!("{status}: {answer}"),
        }
        if refused >= 20 {
            break;
        }
    }
    assert!(refused >= 20 && known.len() >= AT_ONCE as usize, "{known:?}");
    for number in known {
        let (status, answer) = server.http("POST", &format!("/v1/workers/p{number}/ping"), "{}").await;
        assert_eq!(status, 200, "one that is known is not put off: {answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn leaves_of_unknown_keys_wait_at_the_door() {
    let server = narrow().await;
    let body = json!({"nonce": 666, "all_stopped": true}).to_string();
    let mut refused = 0;
    for number in 0..100 {
        let (status, answer) = server.http("POST", &format!("/v1/workers/s{number}/leave"), &body).await;
        assert!([200, 429].contains(&status), "{status}: {answer}");
        refused += u32::from(status == 429);
        if refused >= 20 {
            break;
        }
    }
    assert!(refused >= 20, "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn nobody_ends_a_key_before_its_owner_comes() {
    let server = Server::start().await;
    let leave = json!({"nonce": 666, "all_stopped": true}).to_string();
    let (status, answer) = server.http("POST", "/v1/workers/late/leave", &leave).await;
    assert_eq!(status, 200, "{answer}");
    let beat = json!({"nonce": 7, "profile": {"queues": ["q"]}}).to_string();
    let (status, answer) = server.http("POST", "/v1/workers/late/heartbeat", &beat).await;
    assert_eq!(status, 200, "{answer}");
    // Nor afterwards.
    let (status, _) = server.http("POST", "/v1/workers/late/leave", &leave).await;
    assert_eq!(status, 200);
    let (_, shown) = server.http("GET", "/v1/workers/late", "").await;
    assert_eq!(shown["state"], "active", "{shown}");
    server.stop().await;
}

/// Anybody can say that. The job has a lease of its own, and its holder can hand it back.
#[tokio::test]
async fn holder_that_never_heartbeats_keeps_its_job_whoever_says_that_it_left() {
    let server = Server::start().await;
    crate::frames::enqueue(&server).await;
    let claim = json!({"worker": "curl", "queues": ["q"], "wait_ms": 0}).to_string();
    let (status, claimed) = server.http("POST", "/v1/work/claim", &claim).await;
    let job = claimed["jobs"][0].clone();
    assert_eq!((status, job["job"].is_string()), (200, true), "{claimed}");
    let leave = json!({"nonce": 666, "all_stopped": true}).to_string();
    let (status, answer) = server.http("POST", "/v1/workers/curl/leave", &leave).await;
    assert_eq!(status, 200, "{answer}");
    let report = json!({"job": job["job"], "fence": job["fence"], "outcome": "handed_back"});
    let finish = json!({"worker": "curl", "reports": [report]}).to_string();
    let (status, answer) = server.http("POST", "/v1/work/finish", &finish).await;
    assert_eq!((status, &answer["reports"][0]["answer"]), (200, &json!("done")), "{answer}");
    let (_, claimed) = server.http("POST", "/v1/work/claim", &claim).await;
    assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(1), "the key is not over: {claimed}");
    server.stop().await;
}
