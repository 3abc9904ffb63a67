//! How messages and replies are written: MessagePack by `rmp-serde`, structs as arrays.
//!
//! The same bytes travel between processes and, with
//! [`force_serialization`](crate::RpcServiceBuilder::force_serialization), inside one.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// Encodes a value.
///
/// # Errors
/// The encoder's text, if the type's `Serialize` fails.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, String> {
    rmp_serde::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| error.to_string())
}

/// How deeply values may nest, in levels. Hostile input must not exhaust the stack.
pub const MAX_DEPTH: usize = 128;

/// Decodes a value, which must fill the bytes exactly.
///
/// # Errors
/// The decoder's text; a value that nests deeper than [`MAX_DEPTH`]; trailing bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut rest = bytes;
    let mut decoder = rmp_serde::Deserializer::new(&mut rest);
    decoder.set_max_depth(MAX_DEPTH);
    let value = T::deserialize(&mut decoder).map_err(|error| error.to_string())?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("{} bytes follow the value", rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_unit_and_nested_results_survive() {
        let value: (Option<u8>, (), Result<u8, String>) = (None, (), Err("no".into()));
        assert_eq!(
            decode::<(Option<u8>, (), Result<u8, String>)>(&encode(&value).unwrap()),
            Ok(value)
        );
    }

    #[test]
    fn trailing_bytes_are_refused() {
        assert!(
            decode::<u8>(&[1, 2])
                .unwrap_err()
                .contains("1 bytes follow")
        );
    }

    #[test]
    fn deep_nesting_is_refused_without_a_stack_overflow() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its shape matters")]
        struct Nested(Vec<Nested>);
        assert!(decode::<Nested>(&vec![0x91; 1_000_000]).is_err());
    }
}
