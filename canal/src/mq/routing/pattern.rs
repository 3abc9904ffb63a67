//! A name, or an expression over names.

use regex::{Regex, RegexBuilder};

use crate::mq::error::MqError;

/// Bytes that a compiled expression may take.
const SIZE_LIMIT: usize = 1 << 20;

/// What makes a text an expression; all else is a name.
const EXPRESSION: &[char] = &[
    '*', '?', '+', '|', '(', ')', '{', '}', '[', ']', '\\', '$', '^',
];

/// Fits whole names, without regard to case.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    Name(String),
    Expression { regex: Regex, of_tables: bool },
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, MqError> {
        if !text.contains(EXPRESSION) {
            return Ok(Self::Name(text.to_lowercase()));
        }
        let regex = RegexBuilder::new(&format!("^(?:{text})$"))
            .case_insensitive(true)
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|error| MqError::InvalidArgument(format!("expression `{text}`: {error}")))?;
        Ok(Self::Expression {
            regex,
            of_tables: text.contains("\\."),
        })
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => *own == name.to_lowercase(),
            Self::Expression { regex, .. } => regex.is_match(name),
        }
    }

    /// The same for topics, where an expression is either for tables or for schemas.
    pub(super) fn fits_topic(&self, name: &str, is_table: bool) -> bool {
        match self {
            Self::Name(_) => self.fits(name),
            Self::Expression { of_tables, .. } => *of_tables == is_table && self.fits(name),
        }
    }
}
