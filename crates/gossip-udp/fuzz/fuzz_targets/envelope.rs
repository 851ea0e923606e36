//! Envelopes, sealed and open: nobody without the key can make one that is opened.

#![no_main]

use std::sync::LazyLock;

use gossip_udp::codec::packet;
use gossip_udp::seal::{Key, KeyRing, Seal, Sealer};
use libfuzzer_sys::fuzz_target;

static OPEN: LazyLock<Sealer> = LazyLock::new(|| Sealer::new("fuzz", Seal::Open));
static SEALED: LazyLock<Sealer> =
    LazyLock::new(|| Sealer::new("fuzz", Seal::Keys(KeyRing::new(&[Key::generate()]).expect("one key"))));

fuzz_target!(|bytes: &[u8]| {
    assert!(SEALED.open_datagram(&mut bytes.to_vec()).is_err());
    if let Ok(body) = OPEN.open_datagram(&mut bytes.to_vec()) {
        let _ = packet::decode(body);
    }
});
