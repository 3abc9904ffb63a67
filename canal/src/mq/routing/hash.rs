//! Java's hash of a text, and the partition that Canal makes of it: rows have to go where those of
//! a Canal server went before.

use crate::protocol::generated::entry as wire;

/// `String.hashCode` over UTF-16 units.
pub(super) fn of(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// A column's value; NULL counts as the empty text.
pub(super) fn of_column(column: &wire::Column) -> i32 {
    match column.is_null {
        Some(true) => 0,
        _ => of(&String::from_utf8_lossy(&column.value)),
    }
}

/// `Math.abs(Math.abs(hash) % partitions)`: the outer one is for the hash whose absolute value is
/// no `int`.
pub(super) fn partition(hash: i32, partitions: u32) -> u32 {
    let partitions = i32::try_from(partitions).unwrap_or(i32::MAX).max(1);
    (hash.wrapping_abs() % partitions).unsigned_abs()
}
