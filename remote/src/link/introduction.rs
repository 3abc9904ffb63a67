//! The exchange of prefaces on a fresh socket.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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
}

impl From<std::io::Error> for IntroductionError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return Self::Closed;
        }
        Self::Wire(error.into())
    }
}

/// Tells the peer who we are and learns who it is.
///
/// The acceptor answers before it judges versions, so that both sides name the mismatch.
pub(crate) async fn introduce(
    stream: &mut TcpStream,
    role: Role,
    ours: &Preface,
) -> Result<Preface, IntroductionError> {
    let mut bytes = BytesMut::new();
    ours.encode(&mut bytes)?;
    if role == Role::Dialler {
        stream.write_all(&bytes).await?;
    }
    let theirs = match read_preface(stream).await {
        Err(IntroductionError::Wire(WireError::WrongProtocol { found })) => {
            if role == Role::Acceptor && is_http(&found) {
                answer_http(stream).await;
            }
            return Err(WireError::WrongProtocol { found }.into());
        }
        other => other?,
    };
    if role == Role::Acceptor {
        stream.write_all(&bytes).await?;
    }
    if ours.versions.highest_common(theirs.versions).is_none() {
        return Err(IntroductionError::Versions {
            ours: ours.versions,
            theirs: theirs.versions,
        });
    }
    Ok(theirs)
}

async fn read_preface(stream: &mut TcpStream) -> Result<Preface, IntroductionError> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; Preface::body_length(&head)?];
    stream.read_exact(&mut body).await?;
    Ok(Preface::decode(Bytes::from(body))?)
}

/// Whether these are the first bytes of an HTTP request.
fn is_http(found: &[u8]) -> bool {
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
async fn answer_http(stream: &mut TcpStream) {
    const TEXT: &str = "This is a Lockkeeper RPC port; it does not speak HTTP.\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    if stream.write_all(answer.as_bytes()).await.is_ok() && stream.shutdown().await.is_ok() {
        // Closing with unread bytes resets the connection, and the answer would be lost.
        let mut rest = [0; 4096];
        for _ in 0..16 {
            match stream.read(&mut rest).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
}
