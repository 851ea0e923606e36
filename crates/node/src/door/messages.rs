//! Where one gRPC message ends and the next begins, in a stream of bytes: five bytes of head, the last four of them the length.

const HEAD_BYTES: usize = 5;

/// Follows one stream.
#[derive(Debug, Default)]
pub(super) struct Messages {
    head: [u8; HEAD_BYTES],
    /// Bytes of the present message so far, its head among them.
    seen: usize,
}

impl Messages {
    /// Bytes of the message that is not complete after these, 0 at the end of one.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() {
            if self.seen < HEAD_BYTES {
                let part = bytes.len().min(HEAD_BYTES - self.seen);
                self.head[self.seen..self.seen + part].copy_from_slice(&bytes[..part]);
                self.seen += part;
                bytes = &bytes[part..];
                if self.seen < HEAD_BYTES {
                    break;
                }
            }
            let [_, length @ ..] = self.head;
            let length = HEAD_BYTES + u32::from_be_bytes(length) as usize;
            let part = bytes.len().min(length - self.seen);
            self.seen += part;
            bytes = &bytes[part..];
            if self.seen == length {
                self.seen = 0;
            }
        }
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        [&[0][..], &(length as u32).to_be_bytes(), &vec![7; length]].concat()
    }

    #[test]
    fn ends_are_found_however_the_bytes_are_cut() {
        let stream: Vec<u8> = [0, 3, 300, 0, 1].into_iter().flat_map(message).collect();
        let ends: Vec<usize> = [5, 13, 318, 323, 329].into();
        for size in [1, 2, 4, 5, 6, 7, 100, stream.len()] {
            let mut messages = Messages::default();
            let mut at = 0;
            for chunk in stream.chunks(size) {
                at += chunk.len();
                let begun = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or(0);
                assert_eq!(messages.follow(chunk), at - begun, "{size} at {at}");
            }
        }
    }

    #[test]
    fn an_announced_length_costs_nothing_until_it_comes() {
        let mut messages = Messages::default();
        assert_eq!(messages.follow(&[0, 255, 255, 255, 255, 1]), 6);
        assert_eq!(messages.follow(&[1; 1000]), 1006);
    }
}
