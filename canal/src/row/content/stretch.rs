//! The bytes of a row, seen to be UTF-8 all at once.

use super::{Image, Span, View, part};

/// From a row's first value to its last, with what is between them, if all of it together is UTF-8: to look at
/// that once costs less than at each value. It is not in a row with a value of 128 bytes or more, because the
/// number that says so is none; there each value is looked at by itself.
#[derive(Debug, Clone, Copy)]
pub(in crate::row) struct Stretch<'a> {
    text: &'a str,
    start: u32,
}

impl<'a> Stretch<'a> {
    /// The text there, if it is known to be one.
    #[inline]
    fn text(self, span: Span) -> Option<&'a str> {
        let place = |at: u32| usize::try_from(at.checked_sub(self.start)?).ok();
        self.text.get(place(span.start)?..place(span.end)?)
    }
}

impl<'a> Image<'a> {
    /// Looks whether its values are UTF-8.
    pub(in crate::row) fn stretch(self) -> Stretch<'a> {
        // A column without a value has no place.
        let mut values = self.cells.iter().map(|cell| cell.value);
        let first = values.find(|value| value.end > 0).unwrap_or_default();
        let last = values.rfind(|value| value.end > 0).unwrap_or(first);
        let span = Span {
            start: first.start,
            end: last.end,
        };
        Stretch {
            text: std::str::from_utf8(part(self.bytes, span)).unwrap_or_default(),
            start: span.start,
        }
    }
}

impl<'a> View<'a> {
    /// The value, if it is UTF-8.
    #[inline]
    pub(in crate::row) fn text(&self, stretch: Stretch<'a>) -> Option<&'a str> {
        match stretch.text(self.value) {
            Some(text) => Some(text),
            None => std::str::from_utf8(self.value()).ok(),
        }
    }
}
