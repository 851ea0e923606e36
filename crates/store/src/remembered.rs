//! How durable stores write down the answer to a request, so that a repeat is answered as the first time: 17 bytes for each
//! job, its id and whether it was there before.

use model::JobId;

use crate::port::Enqueued;

const ENTRY_BYTES: usize = 17;

/// An answer as bytes.
pub fn encode_answer(jobs: &[Enqueued]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(jobs.len() * ENTRY_BYTES);
    for job in jobs {
        bytes.extend_from_slice(&job.id.to_bytes());
        bytes.push(u8::from(job.duplicate));
    }
    bytes
}

/// The answer in these bytes.
pub fn decode_answer(bytes: &[u8]) -> Vec<Enqueued> {
    let entries = bytes.as_chunks::<ENTRY_BYTES>().0.iter();
    entries
        .map(|entry| {
            let (id, duplicate) = entry.split_first_chunk::<16>().expect("an entry is longer than an id");
            Enqueued { id: JobId::from_bytes(*id), duplicate: duplicate == [1] }
        })
        .collect()
}
