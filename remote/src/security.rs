//! Who may connect, and how both sides prove it: mutual TLS, a shared key, or both.
//!
//! TLS is under everything; the shared key is proved after both prefaces, over what they said.

#[cfg(feature = "shared-key")]
mod shared_key;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "shared-key")]
pub use shared_key::{MAX_SHARED_KEYS, MIN_SHARED_KEY_BYTES, SharedKeys};
#[cfg(feature = "tls")]
pub use tls::Tls;

#[cfg(feature = "shared-key")]
pub(crate) use shared_key::{PROOF, Transcript};
#[cfg(feature = "tls")]
pub(crate) use tls::explain;

/// What this side demands of everyone who connects, and shows to those that it connects to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    #[cfg(feature = "shared-key")]
    pub(crate) keys: Option<SharedKeys>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Tls>,
}

impl Security {
    /// Whether a stranger is kept out.
    #[cfg_attr(
        not(any(feature = "shared-key", feature = "tls")),
        expect(
            clippy::unused_self,
            reason = "without either feature nothing can be set"
        )
    )]
    pub(crate) fn keeps_strangers_out(&self) -> bool {
        #[cfg(not(feature = "shared-key"))]
        let keys = false;
        #[cfg(feature = "shared-key")]
        let keys = self.keys.is_some();
        #[cfg(not(feature = "tls"))]
        let tls = false;
        #[cfg(feature = "tls")]
        let tls = self.tls.is_some();
        keys || tls
    }

    /// The nonce of this side's next preface, if it proves a key.
    pub(crate) fn nonce(&self) -> Option<[u8; 32]> {
        #[cfg(feature = "shared-key")]
        if let Some(keys) = &self.keys {
            return Some(keys.nonce());
        }
        None
    }
}
