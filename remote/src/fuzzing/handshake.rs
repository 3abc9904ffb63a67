//! What a stranger says first.

use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::link::{IntroductionError, Role, introduce};
use crate::security::{Security, SharedKeys};
use crate::wire::{HEAD, Preface, VERSIONS, WireError};

/// Prefaces and proofs: a stranger comes to an end with either role, with and without a shared key,
/// is never let in without a proof of the key, and a preface is written again as the same one.
///
/// # Panics
/// When not.
pub fn handshake(bytes: &[u8]) {
    if let Some((head, body)) = bytes.split_first_chunk::<HEAD>() {
        let _ = Preface::body_length(head);
        preface(Bytes::copy_from_slice(body));
    }
    let keys = SharedKeys::new(["a key that no stranger knows"]).expect("it is long enough");
    let with_key = Security {
        keys: Some(keys),
        ..Security::default()
    };
    for role in [Role::Dialler, Role::Acceptor] {
        let theirs = introduced(bytes, role, &Security::default());
        if let Ok(theirs) = theirs {
            assert_eq!(theirs.nonce, None, "it demands a proof and got none");
        }
        let theirs = introduced(bytes, role, &with_key);
        assert!(theirs.is_err(), "{theirs:?} knows no key and is let in");
    }
}

fn preface(body: Bytes) {
    let Ok(theirs) = Preface::decode(body) else {
        return;
    };
    let mut written = BytesMut::new();
    match theirs.encode(&mut written) {
        Ok(()) => {
            let again = Preface::decode(written.split_off(HEAD).freeze());
            assert_eq!(again.as_ref(), Ok(&theirs));
        }
        // The body came without its length here, and may be longer than that says.
        Err(error) => assert!(matches!(error, WireError::NameTooLong { .. }), "{error}"),
    }
}

/// This side's word on a peer that says `bytes`, whatever it hears, and then nothing more.
fn introduced(bytes: &[u8], role: Role, security: &Security) -> Result<Preface, IntroductionError> {
    let ours = Preface {
        versions: VERSIONS,
        incarnation: Uuid::from_u128(1),
        frame_limit: 64 * 1024,
        application: "fuzzing".to_owned(),
        listening: String::new(),
        nonce: None,
    };
    // A last word to a stranger has a time-out.
    let _clock = clock().enter();
    let mut stream = tokio::io::join(bytes, tokio::io::sink());
    let introduced = introduce(&mut stream, role, &ours, security).now_or_never();
    introduced.expect("nothing is waited for: all bytes are there")
}

fn clock() -> &'static Runtime {
    static CLOCK: OnceLock<Runtime> = OnceLock::new();
    CLOCK.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_time()
            .build()
            .expect("a runtime without I/O")
    })
}
