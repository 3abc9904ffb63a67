//! The shared key: each side proves to the other that it knows it, without saying it.
//!
//! A proof is an HMAC-SHA256 over a label of the side that proves and both prefaces, each of which
//! has a fresh nonce in it: a proof is good for one connection and one direction, and nothing that
//! the prefaces claim can be changed on the way.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_core::{RpcError, RpcErrorKind};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// The shortest key, in bytes: what a hash of that strength deserves.
pub const MIN_SHARED_KEY_BYTES: usize = 16;

/// Keys that are accepted at a time, at most.
pub const MAX_SHARED_KEYS: usize = 4;

/// The keys that a service accepts. Two services come together if they have one in common.
///
/// To change the key of a running system, give each process both, new and old, one process after
/// the other; when all have both, start them anew with the new one alone. At no time does a
/// connection fail.
///
/// A key proves who connects. It does not encrypt, and it does not protect what is said afterwards:
/// where others can read or change what is on the wire, use TLS (feature `tls`), alone or with it.
///
/// ```
/// use lockkeeper_remote::SharedKeys;
/// # fn main() -> Result<(), lockkeeper_core::RpcError> {
/// let keys = SharedKeys::new(["the new secret of 2026-11", "the old secret, 2026-05"])?;
/// # let _ = keys;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedKeys {
    keys: Arc<[hmac::Key]>,
    random: SystemRandom,
}

impl SharedKeys {
    /// Takes one to [`MAX_SHARED_KEYS`] keys, each of at least [`MIN_SHARED_KEY_BYTES`] bytes that
    /// cannot be guessed: random ones, no password.
    ///
    /// # Errors
    /// `InvalidConfiguration` for no key, too many, or one that is too short.
    pub fn new<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Result<Self, RpcError> {
        let invalid = |text: String| Err(RpcError::new(RpcErrorKind::InvalidConfiguration, text));
        let mut made = Vec::new();
        for key in keys {
            let key = key.as_ref();
            if key.len() < MIN_SHARED_KEY_BYTES {
                return invalid(format!(
                    "shared key {} has {} bytes, it must have at least {MIN_SHARED_KEY_BYTES}",
                    made.len() + 1,
                    key.len()
                ));
            }
            made.push(hmac::Key::new(hmac::HMAC_SHA256, key));
        }
        if made.is_empty() || made.len() > MAX_SHARED_KEYS {
            return invalid(format!(
                "{} shared keys, there must be 1 to {MAX_SHARED_KEYS}",
                made.len()
            ));
        }
        let random = SystemRandom::new();
        // Once here, so that a system without randomness is found at the start.
        if random.fill(&mut [0; 32]).is_err() {
            return invalid("the operating system gives no random bytes".to_owned());
        }
        Ok(Self {
            keys: made.into(),
            random,
        })
    }

    pub(crate) fn nonce(&self) -> [u8; 32] {
        let mut nonce = [0; 32];
        if self.random.fill(&mut nonce).is_err() {
            // It worked at the start. Two random identifiers are 244 bits from the same source.
            nonce[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
            nonce[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        }
        nonce
    }

    /// The dialling side's proofs, one a key.
    pub(crate) fn prove(&self, transcript: &Transcript) -> Vec<[u8; PROOF]> {
        let keys = self.keys.iter();
        keys.map(|key| sign(key, Side::Dialler, transcript))
            .collect()
    }

    /// The proof with the first of our keys that one of the other side's proofs was made with.
    pub(crate) fn answer(
        &self,
        proofs: &[[u8; PROOF]],
        transcript: &Transcript,
    ) -> Option<[u8; PROOF]> {
        let known = |key: &&hmac::Key| {
            proofs
                .iter()
                .any(|proof| verify(key, Side::Dialler, transcript, proof))
        };
        let key = self.keys.iter().find(known)?;
        Some(sign(key, Side::Acceptor, transcript))
    }

    /// Whether the accepting side knows one of our keys.
    pub(crate) fn accepts(&self, proof: &[u8; PROOF], transcript: &Transcript) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|key| verify(key, Side::Acceptor, transcript, proof))
    }
}

/// Keys are never shown.
impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKeys")
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

/// Bytes of a proof.
pub(crate) const PROOF: usize = 32;

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Dialler,
    Acceptor,
}

impl Side {
    /// Without it a proof could be sent back to whom it came from.
    fn label(self) -> &'static [u8] {
        match self {
            Self::Dialler => b"lockkeeper 1 dialler",
            Self::Acceptor => b"lockkeeper 1 acceptor",
        }
    }
}

/// Both prefaces, as they were on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    pub(crate) dialler: Bytes,
    pub(crate) acceptor: Bytes,
}

impl Transcript {
    /// The bytes that are signed. Prefaces say how long they are, so their border is certain.
    fn signed(&self, side: Side) -> Vec<u8> {
        [side.label(), &self.dialler, &self.acceptor].concat()
    }
}

fn sign(key: &hmac::Key, side: Side, transcript: &Transcript) -> [u8; PROOF] {
    let tag = hmac::sign(key, &transcript.signed(side));
    let mut proof = [0; PROOF];
    proof.copy_from_slice(tag.as_ref());
    proof
}

fn verify(key: &hmac::Key, side: Side, transcript: &Transcript, proof: &[u8; PROOF]) -> bool {
    hmac::verify(key, &transcript.signed(side), proof).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript() -> Transcript {
        Transcript {
            dialler: Bytes::from_static(b"one"),
            acceptor: Bytes::from_static(b"two"),
        }
    }

    fn keys(keys: &[&str]) -> SharedKeys {
        SharedKeys::new(keys).unwrap()
    }

    const OLD: &str = "an old key of 24 bytes..";
    const NEW: &str = "a new key of 23 bytes..";

    #[test]
    fn one_common_key_is_enough_whatever_the_order() {
        let both = keys(&[NEW, OLD]);
        for other in [keys(&[OLD]), keys(&[NEW]), keys(&[OLD, NEW])] {
            for (dialler, acceptor) in [(&both, &other), (&other, &both)] {
                let proofs = dialler.prove(&transcript());
                let answer = acceptor.answer(&proofs, &transcript()).unwrap();
                assert!(dialler.accepts(&answer, &transcript()));
            }
        }
        let proofs = keys(&[OLD]).prove(&transcript());
        assert!(keys(&[NEW]).answer(&proofs, &transcript()).is_none());
    }

    #[test]
    fn a_proof_is_good_for_one_connection_and_one_direction() {
        let keys = keys(&[OLD]);
        let proofs = keys.prove(&transcript());
        assert!(!keys.accepts(&proofs[0], &transcript()));
        let other = Transcript {
            dialler: Bytes::from_static(b"tno"),
            ..transcript()
        };
        assert!(keys.answer(&proofs, &other).is_none());
    }

    #[test]
    fn keys_are_checked_and_never_shown() {
        assert!(
            SharedKeys::new(["short"])
                .unwrap_err()
                .text()
                .contains("5 bytes")
        );
        assert!(SharedKeys::new(Vec::<&str>::new()).is_err());
        assert!(SharedKeys::new([OLD; 5]).is_err());
        assert!(!format!("{:?}", keys(&[OLD])).contains("old"));
    }
}
