//! Plain bodies: the first byte chooses the kind. Whatever is understood must have been spelled in the only way.

#![no_main]

use gossip_udp::codec::exchange::{decode_request, decode_response, encode_request, encode_response};
use gossip_udp::codec::packet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, body)) = bytes.split_first() else { return };
    let mut again = Vec::new();
    let known = match kind % 3 {
        0 => packet::decode(body).map(|(sequence, packet)| packet::encode(sequence, &packet, &mut again)),
        1 => decode_request(body).map(|request| encode_request(&request, &mut again)),
        _ => decode_response(body).map(|response| encode_response(&response, &mut again)),
    };
    if known.is_ok() {
        assert_eq!(body, again);
    }
});
