//! How bytes look in JSON: a payload that is JSON is written as it is, anything else as `{"base64": "…"}`.
//!
//! Reading goes the other way: any JSON value becomes its compact text; an object with the single key `base64`
//! becomes the bytes it stands for.

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

const BASE64_KEY: &str = "base64";

/// For `bytes` fields. Empty bytes are `null`.
pub mod payload {
    use super::*;

    /// Bytes to JSON.
    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        to_value(bytes).serialize(serializer)
    }

    /// JSON to bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Bytes::new()),
            value => from_value(&value).map_err(D::Error::custom),
        }
    }
}

/// For `optional bytes` fields. Absent is `null`.
pub mod optional_payload {
    use super::*;

    /// Bytes to JSON.
    pub fn serialize<S: Serializer>(bytes: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(to_value).serialize(serializer)
    }

    /// JSON to bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(None),
            value => from_value(&value).map(Some).map_err(D::Error::custom),
        }
    }
}

/// Bytes as a JSON value.
pub fn to_value(bytes: &Bytes) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    match serde_json::from_slice::<Value>(bytes) {
        // Such an object would be read back as the bytes it spells, so it has to be spelt out itself.
        Ok(value) if !is_base64_object(&value) => value,
        _ => serde_json::json!({ BASE64_KEY: base64_encode(bytes) }),
    }
}

/// A JSON value as bytes.
pub fn from_value(value: &Value) -> Result<Bytes, String> {
    if is_base64_object(value) {
        let text = value[BASE64_KEY].as_str().unwrap_or_default();
        return base64_decode(text)
            .map(Bytes::from)
            .ok_or_else(|| "base64 is not valid standard base64".to_owned());
    }
    Ok(Bytes::from(value.to_string()))
}

fn is_base64_object(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.len() == 1 && object.get(BASE64_KEY).is_some_and(Value::is_string))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64_encode(bytes: &[u8]) -> String {
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

fn base64_decode(text: &str) -> Option<Vec<u8>> {
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
        for bytes in
            [&b""[..], b"{\"a\": [1, 2]}", b"plain text", b"\"text\"", b"{\"base64\":\"Zg==\"}", b"3.5", &all]
        {
            let bytes = Bytes::copy_from_slice(bytes);
            let back = match to_value(&bytes) {
                Value::Null => Bytes::new(),
                value => from_value(&value).unwrap(),
            };
            // JSON may lose white space, nothing else.
            let same =
                serde_json::from_slice::<Value>(&back).ok() == serde_json::from_slice::<Value>(&bytes).ok();
            assert!(back == bytes || same, "{bytes:?} became {back:?}");
        }
    }
}
