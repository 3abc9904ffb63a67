//! Writing protobuf fields by hand.
//!
//! The server encodes a million rows in a test, and most bytes of a row are the same in each: the
//! columns' names and types. So the constant parts are encoded once and copied; this module has the
//! few primitives that it takes. Reading goes through the generated types.

const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

/// Bytes that `value` takes as a varint.
pub(crate) fn varint_length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    usize::try_from(bits.div_ceil(7)).unwrap_or(10)
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

fn put_key(out: &mut Vec<u8>, field: u32, wire_type: u32) {
    put_varint(out, u64::from(field << 3 | wire_type));
}

/// A varint field, written also when the value is 0.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    put_key(out, field, VARINT);
    put_varint(out, value);
}

/// A signed varint field (`int32`, `int64`), written also when the value is 0.
pub(crate) fn put_signed(out: &mut Vec<u8>, field: u32, value: i64) {
    put_number(out, field, value.cast_unsigned());
}

/// A string, bytes or message field, written also when it is empty.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_length(out, field, value.len());
    out.extend_from_slice(value);
}

/// The key and length of a string, bytes or message field whose `length` bytes follow.
pub(crate) fn put_length(out: &mut Vec<u8>, field: u32, length: usize) {
    put_key(out, field, LENGTH_DELIMITED);
    put_varint(out, u64::try_from(length).unwrap_or(u64::MAX));
}

/// A length prefix for a frame of `length` bytes; what does not fit in 31 bits is cut to the greatest.
pub(crate) fn frame_prefix(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_the_length_that_is_foretold() {
        for value in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_length(value), "{value}");
            assert_eq!(
                prost::decode_length_delimiter(&*out).ok(),
                usize::try_from(value).ok()
            );
        }
    }
}
