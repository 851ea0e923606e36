//! The JSON form of the messages that have bytes in them, each in one of two fields. All other messages are as the generated
//! code derives it.
//!
//! A field that is missing here, or one too many, does not compile.

use bytes::Bytes;
use serde::de::Error as _;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Content;
use super::content::Shown;
use crate::wire;

/// Bytes that may be absent, as protobuf sees it.
trait Field: Sized {
    fn bytes(&self) -> Option<&Bytes>;
    fn from_bytes(bytes: Option<Bytes>) -> Self;
}

impl Field for Bytes {
    fn bytes(&self) -> Option<&Bytes> {
        Some(self)
    }

    fn from_bytes(bytes: Option<Bytes>) -> Self {
        bytes.unwrap_or_default()
    }
}

impl Field for Option<Bytes> {
    fn bytes(&self) -> Option<&Bytes> {
        self.as_ref()
    }

    fn from_bytes(bytes: Option<Bytes>) -> Self {
        bytes
    }
}

fn write<S: SerializeStruct>(
    object: &mut S,
    (name, base64_name): (&'static str, &'static str),
    bytes: Option<&Bytes>,
    content: Content,
) -> Result<(), S::Error> {
    match bytes.map_or(Shown::Nothing, |bytes| content.show(bytes)) {
        Shown::Nothing => object.serialize_field(name, &()),
        Shown::Json(json) => object.serialize_field(name, &json),
        Shown::Text(text) => object.serialize_field(name, text),
        Shown::Base64(text) => object.serialize_field(base64_name, &text),
    }
}

/// `$message { plain fields } [ payload payload_base64 of content type, … ] [ result result_base64, … ]`
macro_rules! form {
    (
        $message:ident { $($field:ident: $type:ty),* $(,)? }
        $( typed($content_type:ident) $payload:ident / $payload_base64:ident )?
        [ $($bytes:ident / $base64:ident),* ]
    ) => {
        impl Serialize for wire::$message {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let wire::$message { $($field,)* $($payload,)? $($bytes,)* } = self;
                let names = [$(stringify!($field),)* $(stringify!($payload),)? $(stringify!($bytes),)*];
                let mut object = serializer.serialize_struct(stringify!($message), names.len())?;
                $( object.serialize_field(stringify!($field), $field)?; )*
                $(
                    let names = (stringify!($payload), stringify!($payload_base64));
                    write(&mut object, names, $payload.bytes(), Content::of_type($content_type))?;
                )?
                $(
                    let names = (stringify!($bytes), stringify!($base64));
                    write(&mut object, names, $bytes.bytes(), Content::Unsaid)?;
                )*
                object.end()
            }
        }

        impl<'de> Deserialize<'de> for wire::$message {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Default, Deserialize)]
                #[serde(default, deny_unknown_fields)]
                struct Form {
                    $($field: $type,)*
                    $($payload: Option<Box<RawValue>>, $payload_base64: Option<String>,)?
                    $($bytes: Option<Box<RawValue>>, $base64: Option<String>,)*
                }
                let form = Form::deserialize(deserializer)?;
                let read = |content: Content, name, value: Option<Box<RawValue>>, base64: Option<String>| {
                    content.read(name, value.as_deref(), base64.as_deref()).map_err(D::Error::custom)
                };
                $(
                    let came_as_bytes = form.$payload_base64.is_some();
                    let content = Content::of_type(&form.$content_type);
                    let $payload = read(content, stringify!($payload), form.$payload, form.$payload_base64)?;
                )?
                $( let $bytes = read(Content::Unsaid, stringify!($bytes), form.$bytes, form.$base64)?; )*
                let message = wire::$message {
                    $($field: form.$field,)*
                    $($payload: Field::from_bytes($payload),)?
                    $($bytes: Field::from_bytes($bytes),)*
                };
                $(
                    let $content_type = match came_as_bytes {
                        true => Content::type_of_base64(message.$content_type),
                        false => message.$content_type,
                    };
                    let message = wire::$message { $content_type, ..message };
                )?
                Ok(message)
            }
        }
    };
}

form! {
    NewJob {
        id: String,
        queue: String,
        kind: String,
        content_type: String,
        priority: i32,
        run_at_ms: Option<i64>,
        delay_ms: Option<i64>,
        max_attempts: Option<u32>,
        max_lost: Option<u32>,
        heartbeat_timeout_ms: Option<i64>,
        timeout_ms: Option<i64>,
        retry: String,
        unique_key: String,
        unique_retained: bool,
        traceparent: String,
    }
    typed(content_type) payload / payload_base64
    []
}

form! {
    Job {
        id: String,
        queue: String,
        kind: String,
        content_type: String,
        priority: i32,
        state: String,
        run_at_ms: i64,
        attempt: u32,
        max_attempts: u32,
        lost: u32,
        max_lost: u32,
        fence: i64,
        holder: String,
        cancel_requested: bool,
        heartbeat_timeout_ms: Option<i64>,
        timeout_ms: Option<i64>,
        retry: String,
        unique_key: String,
        enqueued_at_ms: i64,
        started_at_ms: Option<i64>,
        finished_at_ms: Option<i64>,
        last_error: String,
        traceparent: String,
        workers: Option<u32>,
    }
    typed(content_type) payload / payload_base64
    [progress / progress_base64, checkpoint / checkpoint_base64, result / result_base64]
}

form! {
    Assignment {
        job: String,
        fence: i64,
        attempt: u32,
        max_attempts: u32,
        queue: String,
        kind: String,
        content_type: String,
        priority: i32,
        lease_ms: i64,
        timeout_ms: Option<i64>,
        traceparent: String,
        heartbeat_timeout_ms: Option<i64>,
        generation: u64,
        worker: String,
        start: u64,
        exclusive: bool,
        at_once: bool,
    }
    typed(content_type) payload / payload_base64
    [checkpoint / checkpoint_base64]
}

form! {
    Report { job: String, fence: i64, outcome: String, error: String, retry_after_ms: Option<i64> }
    [result / result_base64]
}

form! {
    End { id: String, state: String, error: String, attempt: u32, fence: i64 }
    [result / result_base64]
}

form! {
    ProgressNote { job: String, fence: i64 }
    [note / note_base64, checkpoint / checkpoint_base64]
}

#[cfg(test)]
mod tests;
