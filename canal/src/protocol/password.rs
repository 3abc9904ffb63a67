//! The password's token: MySQL's 4.1 scramble, sent as hexadecimal text.
//!
//! Servers below 1.1.8 let a client in after a wrong password, so it protects nothing there.

use sha1::{Digest, Sha1};

/// What the server keeps of a password (`canal.passwd`): SHA-1 of its SHA-1.
pub(crate) fn stored_hash(password: &[u8]) -> [u8; 20] {
    Sha1::digest(Sha1::digest(password)).into()
}

/// The token of `password` for this connection's `seeds`: 40 lower-case hexadecimal characters.
pub(crate) fn token(password: &[u8], seeds: &[u8]) -> String {
    let once: [u8; 20] = Sha1::digest(password).into();
    let salted: [u8; 20] = Sha1::new()
        .chain_update(seeds)
        .chain_update(stored_hash(password))
        .finalize()
        .into();
    once.iter()
        .zip(salted)
        .map(|(left, right)| format!("{:02x}", left ^ right))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn tokens_are_those_of_the_java_client() {
        assert_eq!(
            token(b"canal", &SEEDS),
            "7de44690d8e53782cb61804a2455c284a3bbfb06"
        );
        assert_eq!(
            token(b"", &SEEDS),
            "ed26d729f84a104ddef91f5ba7b5174f537fad40"
        );
        assert_eq!(
            token(
                "密码".as_bytes(),
                &[0x80, 0xff, 0x00, 0x01, 0x7f, 0xfe, 0x10, 0xaa]
            ),
            "40dccf74277a7aae7886deac43b79c46cdc9adee"
        );
    }

    #[test]
    fn stored_hashes_are_those_of_the_server() {
        assert_eq!(
            hex(&stored_hash(b"canal")),
            "e3619321c1a937c46a0d8bd1dac39f93b27d4458"
        );
        assert_eq!(
            hex(&stored_hash(b"")),
            "be1bdec0aa74b4dcb079943e70528096cca985f8"
        );
        assert_eq!(
            hex(&stored_hash("密码".as_bytes())),
            "e04600bb4bc876c4a82bb0860ede6f7829ae5d2a"
        );
    }
}
