//! Integers as servers write them: digits, and a minus sign before them.

/// A number of so many digits is an `i64`, whichever they are.
const DIGITS: usize = 18;

/// The number, if the text is a plain one that fits: what [`str::parse`] would say. `None` says nothing: it may
/// be a number all the same.
#[inline]
pub(super) fn plain<N: TryFrom<i64>>(text: &[u8]) -> Option<N> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > DIGITS {
        return None;
    }
    let mut number = 0_i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    match (negative, number) {
        // A number without a sign refuses it.
        (true, 0) => None,
        (true, number) => N::try_from(-number).ok(),
        (false, number) => N::try_from(number).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;
    use proptest::prelude::*;

    fn agrees<N>(text: &str)
    where
        N: TryFrom<i64> + std::str::FromStr + PartialEq + std::fmt::Debug,
    {
        if let Some(number) = plain::<N>(text.as_bytes()) {
            assert_eq!(text.parse().ok(), Some(number), "{text:?}");
        }
    }

    fn agree(text: &str) {
        agrees::<i8>(text);
        agrees::<i16>(text);
        agrees::<i32>(text);
        agrees::<i64>(text);
        agrees::<i128>(text);
        agrees::<u8>(text);
        agrees::<u16>(text);
        agrees::<u32>(text);
        agrees::<u64>(text);
        agrees::<u128>(text);
    }

    #[test]
    fn what_is_usual_is_plain() {
        assert_eq!(plain(b"0"), Some(0_u8));
        assert_eq!(plain(b"255"), Some(255_u8));
        assert_eq!(plain(b"-128"), Some(-128_i8));
        assert_eq!(plain(b"007"), Some(7_u64));
        assert_eq!(
            plain(b"999999999999999999"),
            Some(999_999_999_999_999_999_u64)
        );
    }

    #[test]
    fn the_rest_is_left_to_the_standard_library() {
        for text in ["", "-", "+1", " 1", "1 ", "1.0", "256", "--1", "-1", "-0"] {
            assert_eq!(plain::<u8>(text.as_bytes()), None, "{text:?}");
            agree(text);
        }
        assert_eq!(plain::<u64>(b"18446744073709551615"), None);
        assert_eq!(plain::<u64>(b"1\xff"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_the_standard_library_does(
            text in prop_oneof!["\\PC{0,25}", "[-+ ]?[0-9]{0,22}[ .x]?", "-?[0-9]{1,6}"],
        ) {
            agree(&text);
        }

        #[test]
        fn every_number_is_read_as_the_standard_library_does(number in any::<i128>(), shift in 0..127_u32) {
            agree(&(number >> shift).to_string());
        }
    }
}
