//! How messages and replies are written: MessagePack by `rmp-serde`, structs as arrays.
//!
//! The same bytes travel between processes and, with
//! [`force_serialization`](crate::RpcServiceBuilder::force_serialization), inside one.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use self::bounded::Bounds;

mod bounded;

/// Encodes a value.
///
/// # Errors
/// The encoder's text, if the type's `Serialize` fails.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, String> {
    rmp_serde::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| error.to_string())
}

/// How deeply values may nest, in levels: arrays, maps, structs, enums, options and newtypes each
/// count one, and a variant with several fields counts two. Hostile input must not exhaust the
/// stack, which would end the process.
pub const MAX_DEPTH: usize = 128;

/// Decodes a value, which must fill the bytes exactly.
///
/// # Errors
/// The decoder's text; a value that nests deeper than [`MAX_DEPTH`]; a list or map that announces
/// more elements than the message has bytes; trailing bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut rest = bytes;
    let mut decoder = rmp_serde::Deserializer::new(&mut rest);
    let bounded = Bounds::of(bytes).around(&mut decoder);
    let value = T::deserialize(bounded).map_err(|error| error.to_string())?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("{} bytes follow the value", rest.len()))
    }
}

#[cfg(test)]
mod tests;
