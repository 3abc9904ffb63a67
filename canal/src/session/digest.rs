//! A number that tells an entry from others.

/// Odd, and its bits without a pattern: of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Words that are taken at a time, each into a sum of its own: one need not wait for the other.
const LANES: usize = 4;

/// Bytes of a word.
const WORD: usize = 8;

/// A number made of all these bytes. An entry can have hundreds of thousands, so they are taken by words. It is
/// no secret how: who wants to can make others with the same number.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut lanes = [0, 1, 2, 3].map(|lane: u64| length ^ lane);
    let (blocks, rest) = bytes.as_chunks::<{ LANES * WORD }>();
    for block in blocks {
        let (words, _) = block.as_chunks();
        take(&mut lanes, words.iter().copied());
    }
    let padded = rest.chunks(WORD).map(|bytes| {
        let mut word = [0; WORD];
        word.iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        word
    });
    take(&mut lanes, padded);
    lanes.into_iter().fold(FACTOR, mixed)
}

#[inline]
fn take(lanes: &mut [u64; LANES], words: impl Iterator<Item = [u8; WORD]>) {
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane = mixed(*lane, u64::from_le_bytes(word));
    }
}

/// Both halves of the product, so that each bit reaches most of the others.
#[inline]
fn mixed(sum: u64, word: u64) -> u64 {
    let product = u128::from(sum.rotate_left(32) ^ word) * u128::from(FACTOR);
    half(product) ^ half(product >> 64)
}

#[inline]
fn half(product: u128) -> u64 {
    u64::try_from(product & u128::from(u64::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::digest;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_changed_byte_gives_another_number(
            bytes in proptest::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            bits in 1..=u8::MAX,
        ) {
            let mut other = bytes.clone();
            other[at.index(bytes.len())] ^= bits;
            prop_assert_ne!(digest(&bytes), digest(&other));
            prop_assert_eq!(digest(&bytes), digest(&bytes.clone()));
        }

        #[test]
        fn bytes_in_another_order_give_another_number(
            bytes in proptest::collection::vec(any::<u8>(), 2..200),
            by in any::<prop::sample::Index>(),
        ) {
            let mut other = bytes.clone();
            other.rotate_left(by.index(bytes.len()));
            prop_assert_eq!(digest(&bytes) == digest(&other), bytes == other);
        }

        #[test]
        fn zeros_at_the_end_count(length in 0..100_usize) {
            prop_assert_ne!(digest(&vec![0; length]), digest(&vec![0; length + 1]));
        }
    }
}
