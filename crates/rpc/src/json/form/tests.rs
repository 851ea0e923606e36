//! What goes in by one door and comes out by another, and what is refused.

use bytes::Bytes;
use model::{JobId, NewJob};
use serde_json::{Value, json};

use crate::{convert, wire};

/// What the HTTP door makes of this job, as the store keeps it.
fn enqueue(job: &str) -> Result<NewJob, String> {
    let job: wire::NewJob = serde_json::from_str(job).map_err(|error| error.to_string())?;
    convert::new_job(job, || JobId::from_bytes([0; 16])).map_err(|error| error.to_string())
}

/// What every door that speaks JSON shows of it.
fn shown(job: &NewJob) -> String {
    let shown = wire::Assignment {
        payload: job.payload.clone(),
        content_type: job.content_type.to_string(),
        ..Default::default()
    };
    serde_json::to_string(&shown).unwrap()
}

/// Through the store and out again.
fn round_trip(job: &str) -> Value {
    serde_json::from_str(&shown(&enqueue(job).unwrap())).unwrap()
}

#[test]
fn a_json_payload_is_what_was_sent() {
    for payload in [
        r#"{"base64":"MTIz"}"#,
        r#"{"base64":"MTIz","payload_base64":"MTIz"}"#,
        r#"{"z":1.10,"a":123456789012345678901234567890,"z":-0.0}"#,
        r#""text""#,
        r#""MTIz""#,
        "[ 1,  2 ]",
        "3.50",
        "true",
        "[]",
        r#""\u00e4""#,
    ] {
        let job = enqueue(&format!(r#"{{"queue":"q","payload":{payload}}}"#)).unwrap();
        assert_eq!((&job.payload[..], &*job.content_type), (payload.as_bytes(), "application/json"));
        assert!(shown(&job).contains(&format!(r#""payload":{payload}"#)), "{}", shown(&job));
    }
    assert_eq!(round_trip(r#"{"queue":"q","payload":null}"#)["payload"], Value::Null);
    let pretty = enqueue("{\"queue\":\"q\",\"payload\":{\n \"a\": 1\n}}").unwrap();
    assert_eq!(pretty.payload, "{\n \"a\": 1\n}");
    assert!(shown(&pretty).contains(r#""payload":{  "a": 1 }"#), "one line: {}", shown(&pretty));
}

#[test]
fn bytes_and_text_have_a_form_of_their_own() {
    // Bytes that look like JSON stay bytes.
    let bytes = enqueue(r#"{"queue":"q","payload_base64":"MTIz"}"#).unwrap();
    assert_eq!((&bytes.payload[..], &*bytes.content_type), (&b"123"[..], "application/octet-stream"));
    let answer = round_trip(r#"{"queue":"q","payload_base64":"MTIz"}"#);
    assert_eq!((answer.get("payload"), &answer["payload_base64"]), (None, &json!("MTIz")));
    // Text is text, at this door as at that of gRPC.
    let text = r#"{"queue":"q","content_type":"text/plain","payload":"hello \"you\""}"#;
    assert_eq!(enqueue(text).unwrap().payload, "hello \"you\"");
    assert_eq!(round_trip(text)["payload"], "hello \"you\"");
    let digits = r#"{"queue":"q","content_type":"text/csv; charset=utf-8","payload":"123"}"#;
    assert_eq!(round_trip(digits)["payload"], "123");
    // A type that says JSON by its ending.
    let json = r#"{"queue":"q","content_type":"application/vnd.x+json","payload":[1]}"#;
    assert_eq!(round_trip(json)["payload"], json!([1]));
}

#[test]
fn what_nobody_could_read_is_refused_with_the_way_out() {
    let deep = "[".repeat(129) + &"]".repeat(129);
    for (fields, why) in [
        (format!(r#""payload":{deep}"#), "payload nests deeper than 128 levels"),
        (r#""payload":1e999"#.to_owned(), "payload has a number beyond 1.8e308"),
        (r#""payload":["\ud800"]"#.to_owned(), "payload has half of a surrogate pair"),
    ] {
        let error = enqueue(&format!(r#"{{"queue":"q",{fields}}}"#)).unwrap_err();
        assert!(error.contains(why) && error.contains("payload_base64"), "{error}");
    }
    for (fields, why) in [
        (r#""payload":1,"payload_base64":"MTIz""#, "not both"),
        (r#""payload_base64":"Zg""#, "payload_base64 is not valid standard base64"),
        (r#""payload":{"a":1},"content_type":"text/plain""#, "send a JSON string, or payload_base64"),
        (r#""payload":"x","content_type":"image/png""#, "send payload_base64"),
        (r#""payload_base64":"aGVsbG8=","content_type":"application/json""#, "payload is not JSON"),
    ] {
        let error = enqueue(&format!(r#"{{"queue":"q",{fields}}}"#)).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

/// As SQL may have enqueued it, or a server of a former version.
#[test]
fn json_in_the_store_that_nobody_could_read_is_shown_in_base64() {
    for payload in ["1e999", "\"\\ud800\"", &("[".repeat(5_000) + &"]".repeat(5_000)), "no JSON"] {
        let job = wire::Job {
            payload: payload.to_owned().into(),
            content_type: NewJob::CONTENT_TYPE_DEFAULT.into(),
            ..Default::default()
        };
        let shown = serde_json::to_value(&job).unwrap();
        assert_eq!(shown.get("payload"), None, "{payload:.20}");
        assert_eq!(shown["payload_base64"], crate::json::base64_encode(payload.as_bytes()));
    }
}

/// gRPC brings bytes with a content type, or without.
#[test]
fn the_door_of_grpc_tells_what_a_payload_is() {
    let enqueue = |payload: &[u8], content_type: &str| {
        let job = wire::NewJob {
            queue: "q".into(),
            payload: Bytes::copy_from_slice(payload),
            content_type: content_type.into(),
            ..Default::default()
        };
        convert::new_job(job, || JobId::from_bytes([0; 16])).map_err(|error| error.to_string())
    };
    for (payload, chosen, kept) in [
        (&b"{\"a\":1}"[..], "", "application/json"),
        (b"", "", "application/json"),
        (b"hello", "", "text/plain"),
        (b"\xff\xfe", "", "application/octet-stream"),
        (b"hello", "text/csv", "text/csv"),
        (b"1e999", "application/octet-stream", "application/octet-stream"),
    ] {
        assert_eq!(enqueue(payload, chosen).unwrap().content_type, kept);
    }
    let error = enqueue(b"1e999", "").unwrap_err();
    assert!(error.contains("payload_base64 in JSON, over gRPC content type"), "{error}");
    let error = enqueue(b"hello", "application/json").unwrap_err();
    assert!(error.contains("not JSON, as its content type application/json says"), "{error}");
}

#[test]
fn results_and_notes_show_as_what_they_look_like() {
    let result = |bytes: &'static [u8]| {
        let job = wire::Job { result: Some(Bytes::from_static(bytes)), ..Default::default() };
        serde_json::to_value(&job).unwrap()
    };
    assert_eq!(result(b"done\n")["result"], "done\n");
    assert_eq!(result(b"\"done\"")["result"], "done");
    assert_eq!(result(b"{\"ok\":true}\n")["result"], json!({"ok": true}));
    assert_eq!(result(b"{\"base64\":\"MTIz\"}")["result"], json!({"base64": "MTIz"}));
    assert_eq!(result(b"")["result"], Value::Null);
    assert_eq!(result(b"[1e999]")["result"], "[1e999]", "what a client could not read is text");
    assert_eq!((result(b"\xff").get("result"), &result(b"\xff")["result_base64"]), (None, &json!("/w==")));
    let absent = serde_json::to_value(wire::Job::default()).unwrap();
    assert_eq!((&absent["result"], &absent["progress"]), (&Value::Null, &Value::Null));

    let report: wire::Report = serde_json::from_str(r#"{"job":"j","result":{"base64":"Zg=="}}"#).unwrap();
    assert_eq!(report.result, r#"{"base64":"Zg=="}"#);
    let report: wire::Report = serde_json::from_str(r#"{"job":"j","result_base64":"Zg=="}"#).unwrap();
    assert_eq!(report.result, "f");
    let note: wire::ProgressNote =
        serde_json::from_str(r#"{"note":null,"checkpoint_base64":"/w=="}"#).unwrap();
    assert_eq!((note.note, note.checkpoint), (None, Some(Bytes::from_static(b"\xff"))));
    let error = serde_json::from_str::<wire::ProgressNote>(r#"{"note":1e999}"#).unwrap_err().to_string();
    assert!(error.contains("note has a number") && error.contains("note_base64"), "{error}");
    let error = serde_json::from_str::<wire::ProgressNote>(r#"{"nota":1}"#).unwrap_err().to_string();
    assert!(error.contains("unknown field `nota`"), "{error}");
}

/// Whatever comes in by gRPC goes out by JSON, in by JSON and is the same job; whatever comes in by JSON goes out as it came.
#[test]
fn a_job_survives_every_way_through_every_door() {
    const PIECES: [&[u8]; 20] = [
        b"{\"base64\":\"MTIz\"}",
        b"\"",
        b"[",
        b"]",
        b"1",
        b"e999",
        b"null",
        b"true",
        b"\\ud800",
        b"\\u0041",
        "ä".as_bytes(),
        b"\xff",
        b"\0",
        b"MTIz",
        b"{\"payload\":1}",
        b" ",
        b"text",
        b"\xed\xa0\x80",
        b",",
        b"-0.0",
    ];
    const TYPES: [&str; 6] =
        ["", "application/json", "text/plain", "application/octet-stream", "image/png", "a/b+json"];
    let mut bits = 0x5eed_0006_u64;
    let mut any = |below: usize| {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (bits >> 33) as usize % below
    };
    let (mut taken, mut as_json) = (0, 0);
    for _ in 0..20_000 {
        let payload: Vec<u8> = (0..any(6)).flat_map(|_| PIECES[any(PIECES.len())].to_vec()).collect();
        let sent = wire::NewJob {
            queue: "q".into(),
            payload: Bytes::from(payload),
            content_type: TYPES[any(TYPES.len())].into(),
            ..Default::default()
        };
        let Ok(kept) = convert::new_job(sent.clone(), || JobId::from_bytes([0; 16])) else { continue };
        assert_eq!(kept.payload, sent.payload, "what came in by gRPC is what is kept");
        let text = shown(&kept);
        assert!(!text.contains('\n'), "one line: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let fields = ["payload", "payload_base64"].map(|name| answer.get(name));
        assert!(fields.iter().flatten().count() == 1, "one of two fields: {text}");
        // As a client would send the job again.
        let again: wire::Assignment = serde_json::from_str(&text).unwrap();
        let again = wire::NewJob {
            queue: "q".into(),
            payload: again.payload,
            content_type: again.content_type,
            ..Default::default()
        };
        let again = convert::new_job(again, || JobId::from_bytes([0; 16])).unwrap();
        let is_null = kept.payload.trim_ascii() == b"null" && again.payload.is_empty();
        assert!(
            is_null || again.payload == kept.payload.trim_ascii() || again.payload == kept.payload,
            "{text}"
        );
        assert_eq!(again.content_type, kept.content_type);
        assert_eq!(serde_json::from_str::<Value>(&shown(&again)).unwrap(), answer);
        taken += 1;
        as_json += u32::from(fields[0].is_some_and(|payload| !payload.is_null() && !payload.is_string()));
    }
    assert!(taken > 10_000 && as_json > 200, "{taken} taken, {as_json} shown as JSON");
}
