//! The guard: a third process whose only task is to outlive the other two (`docs/decisions/0010`).
//!
//! It holds a second copy of every run's pipes and pidfd, so that the last output and the exit
//! status of a run survive when neither keeper nor daemon lives. And it starts a keeper when there
//! has been none for a moment. It reads no output, parses no file and knows no service: a run is a
//! number here. [`link`] is the keeper's side, [`process`] the guard's.

pub(crate) mod link;
pub(crate) mod process;

/// Size of a message: its kind, seven bytes of padding, a key.
pub(crate) const MESSAGE: usize = 16;

/// A message between keeper and guard. Descriptors travel beside it. A guard ignores an unknown
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// A keeper has connected and requests every held pidfd.
    Hello,
    /// Hold these pipes for the run of this key.
    Pipes(u64),
    /// Hold this pidfd for the run of this key.
    Process(u64),
    /// All output of the run with this key is stored.
    Release(u64),
    /// Release every run that this keeper did not name.
    Settled,
    /// An orderly shutdown has begun: start no keeper when this one exits.
    Retire,
    /// Exit now.
    End,
    /// The response to [`Message::Hello`]: some pidfds.
    Held,
    /// The end of the pidfds.
    HeldAll,
}

impl Message {
    pub(crate) fn encode(self) -> [u8; MESSAGE] {
        let (kind, key) = match self {
            Message::Hello => (1, 0),
            Message::Pipes(key) => (2, key),
            Message::Process(key) => (3, key),
            Message::Release(key) => (4, key),
            Message::Settled => (5, 0),
            Message::Retire => (6, 0),
            Message::End => (7, 0),
            Message::Held => (8, 0),
            Message::HeldAll => (9, 0),
        };
        let mut bytes = [0; MESSAGE];
        bytes[0] = kind;
        bytes[8..].copy_from_slice(&u64::to_le_bytes(key));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; MESSAGE] = bytes.try_into().ok()?;
        let key = u64::from_le_bytes(*bytes.last_chunk()?);
        Some(match bytes[0] {
            1 => Message::Hello,
            2 => Message::Pipes(key),
            3 => Message::Process(key),
            4 => Message::Release(key),
            5 => Message::Settled,
            6 => Message::Retire,
            7 => Message::End,
            8 => Message::Held,
            9 => Message::HeldAll,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As every version has sent them: kind, unused bytes, key.
    #[test]
    fn messages_keep_their_bytes_and_unused_ones_are_ignored() {
        let bytes = *b"\x02\0\0\0\0\0\0\0\x15\xcd\x5b\x07\0\0\0\x80";
        let message = Message::Pipes(0x8000_0000_075b_cd15);
        assert_eq!(message.encode(), bytes);
        let mut later = bytes;
        later[1..8].fill(0xff);
        assert_eq!(Message::decode(&later), Some(message));
        let kinds = [
            (Message::Hello, 1),
            (Message::Process(0), 3),
            (Message::Release(0), 4),
            (Message::Settled, 5),
            (Message::Retire, 6),
            (Message::End, 7),
            (Message::Held, 8),
            (Message::HeldAll, 9),
        ];
        for (message, kind) in kinds {
            let mut bytes = [0; MESSAGE];
            bytes[0] = kind;
            assert_eq!(message.encode(), bytes, "{message:?}");
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let all = [
            Message::Hello,
            Message::Pipes(u64::MAX),
            Message::Process(7),
            Message::Release(1 << 40),
            Message::Settled,
            Message::Retire,
            Message::End,
            Message::Held,
            Message::HeldAll,
        ];
        for message in all {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        assert_eq!(Message::decode(&[0; MESSAGE]), None);
        assert_eq!(Message::decode(&[1; MESSAGE - 1]), None);
    }
}
