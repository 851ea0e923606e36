//! How bytes look in JSON: a payload that is JSON is written as it is, anything else as `{"base64": "…"}`.
//!
//! Reading goes the other way: any JSON value becomes its own text, to the letter, so that no number loses digits and no
//! object its order; an object with the single key `base64` becomes the bytes it stands for.

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

const NULL: &str = "null";

/// For `bytes` fields. Empty bytes are `null`.
pub mod payload {
    use super::*;

    /// Bytes to JSON.
    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        to_json(bytes).serialize(serializer)
    }

    /// JSON to bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        Ok(optional_payload::deserialize(deserializer)?.unwrap_or_default())
    }
}

/// For `optional bytes` fields. Absent is `null`.
pub mod optional_payload {
    use super::*;

    /// Bytes to JSON.
    pub fn serialize<S: Serializer>(bytes: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(to_json).serialize(serializer)
    }

    /// JSON to bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
        // Not as an `Option`, which would take the raw text apart.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get() == NULL { Ok(None) } else { from_json(&raw).map(Some).map_err(D::Error::custom) }
    }
}

/// An object that stands for bytes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64 {
    base64: String,
}

/// Bytes as JSON text.
pub fn to_json(bytes: &Bytes) -> Box<RawValue> {
    let spelt = || {
        let object = Base64 { base64: base64_encode(bytes) };
        serde_json::value::to_raw_value(&object).expect("an object with one text is always JSON")
    };
    if bytes.is_empty() {
        return RawValue::from_string(NULL.to_owned()).expect("null is JSON");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return spelt() };
    // Line breaks stand only between tokens in JSON; without them an answer is one line, as programs expect.
    let text = text.trim().replace(['\n', '\r'], " ");
    match RawValue::from_string(text) {
        // Such an object would be read back as the bytes it spells, so it has to be spelt out itself; so has a null.
        Ok(raw) if raw.get() != NULL && serde_json::from_str::<Base64>(raw.get()).is_err() => raw,
        _ => spelt(),
    }
}

/// JSON text as bytes.
pub fn from_json(raw: &RawValue) -> Result<Bytes, String> {
    match serde_json::from_str::<Base64>(raw.get()) {
        Ok(Base64 { base64 }) => base64_decode(&base64)
            .map(Bytes::from)
            .ok_or_else(|| "base64 is not valid standard base64".to_owned()),
        Err(_) => Ok(Bytes::copy_from_slice(raw.get().as_bytes())),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as standard base64.
pub fn base64_encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                text.push(ALPHABET[(word >> (18 - 6 * place)) as usize & 63] as char);
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// Standard base64, padded, as bytes.
pub fn base64_decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (index, chunk) in text.chunks(4).enumerate() {
        let padding = chunk.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && (index + 1) * 4 != text.len()) {
            return None;
        }
        let mut word = 0u32;
        for byte in &chunk[..4 - padding] {
            word = (word << 6) | ALPHABET.iter().position(|letter| letter == byte)? as u32;
        }
        word <<= 6 * padding;
        bytes.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_the_standard() {
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64_encode(plain.as_bytes()), text);
            assert_eq!(base64_decode(text).as_deref(), Some(plain.as_bytes()));
        }
        for bad in ["Zg", "Zg=", "====", "Z===", "Zg==Zg==", "Zm9\n"] {
            assert_eq!(base64_decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn any_bytes_survive_the_way_through_json() {
        let all: Vec<u8> = (0..=255).collect();
        let exact: [&[u8]; 10] = [
            b"",
            b"{\"b\": [1, 2], \"a\": 1.10, \"n\": 123456789012345678901234567890}",
            b"plain text",
            b"\"text\"",
            b"null",
            b"{\"base64\":\"Zg==\"}",
            b"{\"base64\":\"Zg==\",\"more\":1}",
            b"3.50",
            b"two\nlines",
            &all,
        ];
        for bytes in exact {
            let bytes = Bytes::copy_from_slice(bytes);
            let raw = to_json(&bytes);
            let back = if raw.get() == NULL { Bytes::new() } else { from_json(&raw).unwrap() };
            assert_eq!(back, bytes, "through {raw}");
            assert!(!raw.get().contains('\n'), "one line: {raw}");
        }
        let pretty = Bytes::from_static(b"{\n  \"a\": 1\n}\n");
        assert_eq!(to_json(&pretty).get(), "{   \"a\": 1 }", "only white space changes");
    }

    #[test]
    fn a_message_keeps_its_payload_to_the_letter() {
        let text = r#"{"queue":"q","payload":{"z":1.10,"a":123456789012345678901234567890}}"#;
        let job: crate::wire::NewJob = serde_json::from_str(text).unwrap();
        assert_eq!(job.payload, r#"{"z":1.10,"a":123456789012345678901234567890}"#.as_bytes());
        assert!(
            serde_json::to_string(&job)
                .unwrap()
                .contains(r#""payload":{"z":1.10,"a":123456789012345678901234567890}"#)
        );
        let absent: crate::wire::ProgressNote = serde_json::from_str(r#"{"note":null}"#).unwrap();
        assert_eq!(absent.note, None);
    }
}
