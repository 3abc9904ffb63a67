//! Which tables a subscription asks for.

use std::fmt;

use crate::error::CanalError;

/// A subscription's filter: regular expressions over `schema.table`, any of which may match, on
/// the whole name and without regard to case.
///
/// **A filter replaces the one of the whole destination at the server, for every client, until
/// another one is set.** It acts on what the server reads from then on, not on what its buffer
/// holds. [`Filter::keep`] leaves the server's own in force.
///
/// ```
/// # use lockkeeper_canal::Filter;
/// let orders = Filter::table("shop", "orders");
/// assert_eq!(orders.to_string(), r"shop\.orders");
/// let both: Filter = r"shop\.orders, shop\.customers".parse()?;
/// assert_eq!(both.to_string(), r"shop\.orders,shop\.customers");
/// # Ok::<_, lockkeeper_canal::CanalError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    patterns: Vec<String>,
}

impl Filter {
    /// Leaves the filter that is in force at the server.
    pub fn keep() -> Self {
        Self::default()
    }

    /// Every table of every schema.
    pub fn all() -> Self {
        Self {
            patterns: vec![r".*\..*".to_owned()],
        }
    }

    /// One table, by its name.
    pub fn table(schema: &str, table: &str) -> Self {
        Self {
            patterns: vec![format!(r"{}\.{}", escape(schema), escape(table))],
        }
    }

    /// This or `other`. Keeping the server's filter is the neutral element.
    #[must_use]
    pub fn or(mut self, other: Filter) -> Self {
        self.patterns.extend(other.patterns);
        self
    }

    /// The text for the wire; empty for [`Filter::keep`].
    pub(crate) fn wire(&self) -> String {
        self.patterns.join(",")
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.wire())
    }
}

impl std::str::FromStr for Filter {
    type Err = CanalError;

    /// Reads Canal's own form: expressions with commas between them. Blanks around a comma are
    /// taken away: the server would not, and the expression would match nothing.
    ///
    /// # Errors
    /// [`CanalError::InvalidArgument`] for what the server accepts and then never matches or
    /// chokes on: a comma inside brackets or braces, which servers up to 1.1.8 take for the end of
    /// the expression; brackets that do not close; an expression without a dot between schema and
    /// table.
    fn from_str(text: &str) -> Result<Self, CanalError> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let patterns: Vec<String> = parts.map(str::to_owned).collect();
        for pattern in &patterns {
            check(pattern).map_err(|why| {
                CanalError::InvalidArgument(format!("filter `{pattern}` of `{text}`: {why}"))
            })?;
        }
        Ok(Self { patterns })
    }
}

fn check(pattern: &str) -> Result<(), &'static str> {
    let mut open = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                characters.next().ok_or("it ends with a backslash")?;
            }
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(character) => {
                return Err(
                    "its brackets do not match; a comma inside them would be taken for the \
                            end of the expression",
                );
            }
            _ => {}
        }
    }
    if !open.is_empty() {
        return Err(
            "its brackets do not match; a comma inside them would be taken for the end of \
                    the expression",
        );
    }
    if !pattern.contains('.') {
        return Err("it has no dot, so it cannot match `schema.table`");
    }
    Ok(())
}

fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars() {
        if !(character.is_alphanumeric() || character == '_') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_empty_parts_are_taken_away() {
        let filter: Filter = r"fa\.t1, fb\.T3 ,".parse().unwrap();
        assert_eq!(filter.wire(), r"fa\.t1,fb\.T3");
        assert_eq!("".parse::<Filter>().unwrap(), Filter::keep());
    }

    #[test]
    fn what_the_server_would_silently_never_match_is_refused() {
        for text in [r"fa\.t{1,2}1", "(((", "t1", r"fa\.t1\", r"fa\.[ab"] {
            assert!(
                matches!(text.parse::<Filter>(), Err(CanalError::InvalidArgument(_))),
                "{text}"
            );
        }
        for text in [r".*\..*", r"shop\.(orders|items)", r"a\.b[0-9]", r"a\.b\("] {
            text.parse::<Filter>().unwrap();
        }
    }

    #[test]
    fn a_tables_name_is_taken_as_it_is() {
        assert_eq!(Filter::table("my-shop", "a.b$").wire(), r"my\-shop\.a\.b\$");
        let both = Filter::table("a", "b").or(Filter::table("c", "d"));
        assert_eq!(both.wire(), r"a\.b,c\.d");
    }
}
