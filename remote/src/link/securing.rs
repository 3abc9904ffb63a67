//! What is put around a fresh socket before anything is said: TLS, or nothing.

use tokio::net::TcpStream;

use super::IntroductionError;
use super::stream::BoxStream;
use crate::security::Security;

/// Makes the dialling side's stream.
#[cfg_attr(
    not(feature = "tls"),
    expect(unused_variables, reason = "nothing to put around a socket")
)]
pub(crate) async fn secure_dialled(
    socket: TcpStream,
    host: &str,
    security: &Security,
) -> Result<BoxStream, IntroductionError> {
    #[cfg(feature = "tls")]
    if let Some(tls) = &security.tls {
        return tls.dial(socket, host).await;
    }
    Ok(Box::new(socket))
}

/// Makes the accepting side's stream.
#[cfg_attr(
    not(feature = "tls"),
    expect(unused_variables, reason = "nothing to put around a socket")
)]
pub(crate) async fn secure_accepted(
    socket: TcpStream,
    security: &Security,
) -> Result<BoxStream, IntroductionError> {
    #[cfg(feature = "tls")]
    if let Some(tls) = &security.tls {
        return accept_tls(socket, tls).await;
    }
    Ok(Box::new(socket))
}

#[cfg(feature = "tls")]
async fn accept_tls(
    mut socket: TcpStream,
    tls: &crate::security::Tls,
) -> Result<BoxStream, IntroductionError> {
    use super::introduction::{answer, answer_http, drain, is_http};
    use tokio::io::AsyncWriteExt;

    /// The first byte of a client's greeting.
    const HANDSHAKE: u8 = 0x16;
    /// A fatal alert, unexpected message: from it a peer without TLS knows that this side has it.
    const ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 10];

    let mut first = [0; 8];
    let size = socket.peek(&mut first).await?;
    if size == 0 {
        return Err(IntroductionError::Closed);
    }
    if first[0] != HANDSHAKE {
        if is_http(&first[..size]) {
            answer_http(&mut socket).await;
            return Err(IntroductionError::Http);
        }
        answer(&mut socket, &ALERT).await;
        return Err(IntroductionError::PeerSpeaksNoTls);
    }
    match tls.accept(socket).await {
        Ok(stream) => Ok(stream),
        Err(mut refused) => {
            if refused.stream.shutdown().await.is_ok() {
                drain(&mut refused.stream).await;
            }
            Err(refused.error)
        }
    }
}
