//! What bytes are said to be, and how that shows in JSON.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::scan::{Fault, scan};
use super::{base64_decode, base64_encode};

const NULL: &str = "null";

/// What bytes are said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A JSON value: `application/json`, and types that end with `+json`.
    Json,
    /// Text in UTF-8: `text/…`.
    Text,
    /// Anything else: only base64 shows it.
    Bytes,
    /// Nobody says; what the bytes look like decides.
    Unsaid,
}

/// How bytes are written in JSON.
#[derive(Debug)]
pub(super) enum Shown<'a> {
    Nothing,
    Json(Box<RawValue>),
    Text(&'a str),
    Base64(String),
}

impl Content {
    /// The media type of bytes that nobody named one for.
    const BYTES_DEFAULT: &'static str = "application/octet-stream";

    /// What a payload of this media type is. Without one it is JSON.
    pub fn of_type(content_type: &str) -> Content {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if essence.is_empty() || essence == "application/json" || essence.ends_with("+json") {
            Content::Json
        } else if essence.starts_with("text/") {
            Content::Text
        } else {
            Content::Bytes
        }
    }

    /// The media type of a payload whose producer names none. Empty if it is JSON, or nothing at all.
    pub fn guess(payload: &[u8]) -> Result<&'static str, Fault> {
        match scan(payload) {
            _ if payload.is_empty() => Ok(""),
            Ok(()) => Ok(""),
            Err(Fault::NotJson) if std::str::from_utf8(payload).is_ok() => Ok("text/plain"),
            Err(Fault::NotJson) => Ok(Self::BYTES_DEFAULT),
            Err(fault) => Err(fault),
        }
    }

    /// Bytes on their way out.
    pub(super) fn show(self, bytes: &Bytes) -> Shown<'_> {
        let text = || std::str::from_utf8(bytes).ok();
        let shown = match self {
            Content::Text => text().map(Shown::Text),
            _ if bytes.is_empty() => Some(Shown::Nothing),
            Content::Json => json(bytes).map(Shown::Json),
            Content::Unsaid => json(bytes).map(Shown::Json).or_else(|| text().map(Shown::Text)),
            Content::Bytes => None,
        };
        shown.unwrap_or_else(|| Shown::Base64(base64_encode(bytes)))
    }

    /// Bytes on their way in; `None` if neither field has any. `name` is what the first field is called.
    pub(super) fn read(
        self,
        name: &str,
        value: Option<&RawValue>,
        base64: Option<&str>,
    ) -> Result<Option<Bytes>, String> {
        let value = value.filter(|value| value.get() != NULL);
        let value = match (value, base64) {
            (Some(_), Some(_)) => return Err(format!("give either {name} or {name}_base64, not both")),
            (None, None) => return Ok(None),
            (None, Some(base64)) => {
                let bytes = base64_decode(base64)
                    .ok_or_else(|| format!("{name}_base64 is not valid standard base64"))?;
                return Ok(Some(bytes.into()));
            }
            (Some(value), None) => value.get(),
        };
        scan(value.as_bytes()).map_err(|fault| format!("{name} {fault}; send it as {name}_base64"))?;
        match self {
            Content::Json | Content::Unsaid => Ok(Some(Bytes::copy_from_slice(value.as_bytes()))),
            Content::Text => match serde_json::from_str::<String>(value) {
                Ok(text) => Ok(Some(text.into())),
                Err(_) => {
                    Err(format!("by its content type {name} is text: send a JSON string, or {name}_base64"))
                }
            },
            Content::Bytes => {
                Err(format!("by its content type {name} is neither JSON nor text: send {name}_base64"))
            }
        }
    }

    /// What the media type of a job becomes when its payload came in base64 and without one. What is sent as bytes stays
    /// bytes, even if it looks like JSON.
    pub(super) fn type_of_base64(content_type: String) -> String {
        if content_type.is_empty() { Self::BYTES_DEFAULT.to_owned() } else { content_type }
    }
}

/// Bytes as JSON that every client can read, if they are that.
fn json(bytes: &[u8]) -> Option<Box<RawValue>> {
    scan(bytes).ok()?;
    // Line breaks stand only between tokens in JSON; without them an answer is one line, as programs expect.
    let text = std::str::from_utf8(bytes).ok()?.trim().replace(['\n', '\r'], " ");
    RawValue::from_string(text).ok()
}
