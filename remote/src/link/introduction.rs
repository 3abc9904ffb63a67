//! The exchange of prefaces on a fresh stream, and of proofs if a shared key is set.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::security::Security;
use crate::wire::{HEAD, Preface, VersionRange, WireError};

/// Which side of the socket this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It dialled, and speaks first.
    Dialler,
    /// It accepted, and answers.
    Acceptor,
}

/// Why two processes do not come together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(all(feature = "tls", feature = "shared-key")),
    expect(dead_code, reason = "what needs a feature that is off")
)]
pub(crate) enum IntroductionError {
    #[error("protocol versions do not overlap: this side speaks {ours}, the peer {theirs}")]
    Versions {
        ours: VersionRange,
        theirs: VersionRange,
    },
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("the peer closed the connection without introducing itself")]
    Closed,
    #[error("an HTTP client; this is no HTTP port")]
    Http,
    #[error(
        "the peer speaks TLS and this side does not: set the builder's tls on both sides or on none"
    )]
    PeerSpeaksTls,
    #[error(
        "the peer does not speak TLS and this side does: set the builder's tls on both sides or on \
         none"
    )]
    PeerSpeaksNoTls,
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the peer demands a shared key and this side has none: set the builder's shared_keys")]
    PeerDemandsKey,
    #[error("the peer has no shared key and this side demands one")]
    PeerHasNoKey,
    #[error("the peer knows none of this side's shared keys")]
    WrongKey,
    #[error("the peer refused this side: it knows none of this side's shared keys")]
    KeyRefused,
    #[error("the peer claims to know this side's shared key and does not")]
    FalseProof,
}

impl IntroductionError {
    /// The reason as counters name it.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Versions { .. } => "protocol version",
            Self::Wire(WireError::Io(_)) | Self::Closed => "closed",
            Self::Wire(_) => "other protocol",
            Self::Http => "HTTP",
            Self::PeerSpeaksTls => "TLS on a plain port",
            Self::PeerSpeaksNoTls => "plain text on a TLS port",
            Self::Tls(_) => "TLS",
            Self::PeerDemandsKey | Self::PeerHasNoKey => "no shared key",
            Self::WrongKey | Self::KeyRefused | Self::FalseProof => "wrong shared key",
        }
    }
}

impl From<std::io::Error> for IntroductionError {
    fn from(error: std::io::Error) -> Self {
        #[cfg(feature = "tls")]
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            return crate::security::explain(error);
        }
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return Self::Closed;
        }
        Self::Wire(error.into())
    }
}

/// Tells the peer who we are and learns who it is.
///
/// The acceptor answers before it judges versions, so that both sides name the mismatch.
pub(crate) async fn introduce<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    role: Role,
    ours: &Preface,
    security: &Security,
) -> Result<Preface, IntroductionError> {
    let nonce = security.nonce();
    let mut bytes = BytesMut::new();
    Preface {
        nonce,
        ..ours.clone()
    }
    .encode(&mut bytes)?;
    let bytes = bytes.freeze();
    if role == Role::Dialler {
        // If that fails the peer may have said why.
        let wrote = write(stream, &bytes).await;
        let read = read_preface(stream).await;
        return match (wrote, read) {
            (
                Err(error),
                Err(IntroductionError::Closed | IntroductionError::Wire(WireError::Io(_))),
            ) => Err(error.into()),
            (_, Err(error)) => Err(error),
            (_, Ok((theirs, raw))) => {
                agree(ours, &theirs)?;
                let said = Said {
                    dialler: bytes,
                    acceptor: raw,
                };
                prove(stream, role, &theirs, said, security).await?;
                Ok(theirs)
            }
        };
    }
    let (theirs, raw) = match read_preface(stream).await {
        Err(error) => {
            match error {
                IntroductionError::Http => answer_http(stream).await,
                // Whoever speaks TLS sees from it that this side does not.
                IntroductionError::PeerSpeaksTls => answer(stream, &bytes).await,
                _ => {}
            }
            return Err(error);
        }
        Ok(read) => read,
    };
    write(stream, &bytes).await?;
    agree(ours, &theirs)?;
    let said = Said {
        dialler: raw,
        acceptor: bytes,
    };
    prove(stream, role, &theirs, said, security).await?;
    Ok(theirs)
}

/// Both prefaces, as they were on the wire.
#[cfg_attr(
    not(feature = "shared-key"),
    expect(dead_code, reason = "nothing is proved without the feature")
)]
struct Said {
    dialler: Bytes,
    acceptor: Bytes,
}

fn agree(ours: &Preface, theirs: &Preface) -> Result<(), IntroductionError> {
    match ours.versions.highest_common(theirs.versions) {
        Some(_) => Ok(()),
        None => Err(IntroductionError::Versions {
            ours: ours.versions,
            theirs: theirs.versions,
        }),
    }
}

/// Each side proves that it knows a key of the other's, if keys are set.
#[cfg(feature = "shared-key")]
async fn prove<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    role: Role,
    theirs: &Preface,
    said: Said,
    security: &Security,
) -> Result<(), IntroductionError> {
    use crate::security::{MAX_SHARED_KEYS, PROOF, Transcript};

    let keys = match (&security.keys, theirs.nonce) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(IntroductionError::PeerDemandsKey),
        (Some(_), None) => return Err(IntroductionError::PeerHasNoKey),
        (Some(keys), Some(_)) => keys,
    };
    let transcript = Transcript {
        dialler: said.dialler,
        acceptor: said.acceptor,
    };
    match role {
        Role::Dialler => {
            let proofs = keys.prove(&transcript);
            let mut bytes = vec![u8::try_from(proofs.len()).unwrap_or(u8::MAX)];
            bytes.extend(proofs.iter().flatten());
            write(stream, &bytes).await?;
            if stream.read_u8().await? == 0 {
                return Err(IntroductionError::KeyRefused);
            }
            let mut proof = [0; PROOF];
            stream.read_exact(&mut proof).await?;
            if !keys.accepts(&proof, &transcript) {
                return Err(IntroductionError::FalseProof);
            }
        }
        Role::Acceptor => {
            let count = usize::from(stream.read_u8().await?);
            let mut proofs = vec![[0; PROOF]; count.min(MAX_SHARED_KEYS)];
            for proof in &mut proofs {
                stream.read_exact(proof).await?;
            }
            let Some(proof) = keys.answer(&proofs, &transcript) else {
                answer(stream, &[0]).await;
                return Err(IntroductionError::WrongKey);
            };
            write(stream, &[&[1], &proof[..]].concat()).await?;
        }
    }
    Ok(())
}

#[cfg(not(feature = "shared-key"))]
async fn prove<S: AsyncRead + AsyncWrite + Unpin>(
    _: &mut S,
    _: Role,
    theirs: &Preface,
    _: Said,
    _: &Security,
) -> Result<(), IntroductionError> {
    match theirs.nonce {
        None => Ok(()),
        Some(_) => Err(IntroductionError::PeerDemandsKey),
    }
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// Reads the peer's preface; returns it with its bytes.
async fn read_preface<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> Result<(Preface, Bytes), IntroductionError> {
    let mut raw = BytesMut::with_capacity(HEAD);
    while raw.len() < HEAD {
        let mut rest = [0; HEAD];
        let missing = HEAD - raw.len();
        let size = stream.read(&mut rest[..missing]).await?;
        raw.extend_from_slice(&rest[..size]);
        if is_tls(&raw) {
            return Err(IntroductionError::PeerSpeaksTls);
        }
        if size == 0 {
            return Err(IntroductionError::Closed);
        }
    }
    if is_http(&raw) {
        return Err(IntroductionError::Http);
    }
    let mut head = [0; HEAD];
    head.copy_from_slice(&raw);
    let mut body = vec![0; Preface::body_length(&head)?];
    stream.read_exact(&mut body).await?;
    raw.extend_from_slice(&body);
    Ok((Preface::decode(Bytes::from(body))?, raw.freeze()))
}

/// Whether these are the first bytes of a TLS record: a greeting or an alert.
fn is_tls(found: &[u8]) -> bool {
    matches!(found, [0x15 | 0x16, 3, ..])
}

/// Whether these are the first bytes of an HTTP request.
pub(super) fn is_http(found: &[u8]) -> bool {
    const METHODS: [&[u8]; 6] = [
        b"GET ",
        b"POST ",
        b"HEAD ",
        b"PUT ",
        b"OPTIONS ",
        b"DELETE ",
    ];
    METHODS.iter().any(|method| found.starts_with(method)) || found.starts_with(b"PRI * HT")
}

/// Tells a lost HTTP client where it is. Whether it reads that is its own affair.
pub(super) async fn answer_http<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    const TEXT: &str = "This is a Lockkeeper RPC port; it does not speak HTTP.\n";
    let text = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    answer(stream, text.as_bytes()).await;
}

/// Time for a stranger to read what it was told.
const LINGER: std::time::Duration = std::time::Duration::from_millis(250);

/// The last word to a stranger.
pub(super) async fn answer<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) {
    if stream.write_all(bytes).await.is_ok() && stream.shutdown().await.is_ok() {
        // Closing with unread bytes resets the connection, and the answer would be lost.
        drain(stream).await;
    }
}

/// Reads what a stranger still says, within a limit, so that it reads what it was told.
pub(super) async fn drain<S: AsyncRead + Unpin>(stream: &mut S) {
    let read = async {
        let mut rest = [0; 4096];
        for _ in 0..16 {
            match stream.read(&mut rest).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    };
    // Whether it closes in time or not: it has been told.
    let _ = tokio::time::timeout(LINGER, read).await;
}
