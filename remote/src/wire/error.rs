//! What can be wrong with bytes.

/// Bytes that are not what the protocol says, or a value that has no bytes in it.
///
/// Inbound, each of these ends the connection: after a frame that can't be read the next border is
/// not known to be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error(
        "the peer does not speak Lockkeeper's protocol: its first bytes are {:?}; check that the address is that of an RpcService",
        String::from_utf8_lossy(found)
    )]
    WrongProtocol { found: [u8; 8] },
    #[error("a frame of {size} bytes is over the limit of {limit} bytes")]
    FrameTooLong { size: u64, limit: u64 },
    #[error("a frame without a kind byte")]
    EmptyFrame,
    #[error("frame kind {kind} is unknown to this version")]
    UnknownKind { kind: u8 },
    #[error("{frame} ends within its field {field:?}")]
    Truncated {
        frame: &'static str,
        field: &'static str,
    },
    #[error("{frame} has {size} bytes after its last field")]
    TrailingBytes { frame: &'static str, size: usize },
    #[error("{frame}: field {field:?} is not UTF-8")]
    NotText {
        frame: &'static str,
        field: &'static str,
    },
    #[error("{frame}: {value} is no value for field {field:?}")]
    BadValue {
        frame: &'static str,
        field: &'static str,
        value: u64,
    },
    #[error("{field} of {size} bytes is too long for the protocol")]
    NameTooLong { field: &'static str, size: usize },
    #[error("the connection broke: {0}")]
    Io(std::io::ErrorKind),
}

impl From<std::io::Error> for WireError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.kind())
    }
}
