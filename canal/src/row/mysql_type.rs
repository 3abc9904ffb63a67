//! MySQL's types as the server names them.
//!
//! The number of `java.sql.Types` that comes beside the name says nothing about the column: it
//! depends on the value in unsigned columns.

/// How a column's text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `tinyint` to `bigint`, signed.
    Signed,
    /// `tinyint` to `bigint` unsigned, `bit`, `year`.
    Unsigned,
    /// `float`, `double`.
    Float,
    /// Each byte is a character up to U+00FF.
    Bytes,
    /// As bytes, and so many of them: the binlog leaves out the zeros at the end.
    FixedBytes(usize),
    /// MariaDB's own types, which servers take for text: so many bytes, read as UTF-8. Bytes that
    /// are none have become U+FFFD.
    BytesAsText(usize),
    /// An index into names, from 1.
    Enum,
    /// Bits for names.
    Set,
    /// Text, decimals, dates, JSON.
    Text,
}

/// The number of `java.sql.Types` for BLOB.
const SQL_BLOB: i32 = 2004;

impl Family {
    /// By MySQL's type, such as `int(11) unsigned`, and the number beside it.
    pub(super) fn of(mysql_type: &str, sql_type: i32) -> Self {
        // Once a value: no allocation, and one comparison by length and bytes.
        let bytes = mysql_type.as_bytes();
        let length = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric());
        let name = bytes.get(..length.count()).unwrap_or_default();
        if !name.iter().any(u8::is_ascii_uppercase) {
            return Self::named(name, mysql_type, sql_type);
        }
        let mut small = [0; LONGEST_NAME];
        match small.get_mut(..name.len()) {
            Some(small) => {
                small.copy_from_slice(name);
                small.make_ascii_lowercase();
                Self::named(small, mysql_type, sql_type)
            }
            None => Self::by_number(sql_type),
        }
    }

    fn named(name: &[u8], mysql_type: &str, sql_type: i32) -> Self {
        match name {
            b"varchar" | b"char" | b"decimal" | b"datetime" | b"timestamp" | b"date" | b"time"
            | b"json" => Self::by_number(sql_type),
            b"int" | b"bigint" | b"tinyint" | b"smallint" | b"mediumint" | b"integer"
            | b"serial" | b"bool" => match is_unsigned(mysql_type) {
                true => Self::Unsigned,
                false => Self::Signed,
            },
            b"bit" | b"year" => Self::Unsigned,
            b"float" | b"double" | b"real" => Self::Float,
            b"enum" => Self::Enum,
            b"set" => Self::Set,
            b"uuid" | b"inet6" => Self::BytesAsText(16),
            b"inet4" => Self::BytesAsText(4),
            b"binary" => width(mysql_type).map_or(Self::Bytes, Self::FixedBytes),
            b"tinyblob"
            | b"blob"
            | b"mediumblob"
            | b"longblob"
            | b"varbinary"
            | b"geometry"
            | b"point"
            | b"linestring"
            | b"polygon"
            | b"multipoint"
            | b"multilinestring"
            | b"multipolygon"
            | b"geometrycollection" => Self::Bytes,
            _ => Self::by_number(sql_type),
        }
    }

    /// For text, and for names that are not known.
    fn by_number(sql_type: i32) -> Self {
        match sql_type {
            SQL_BLOB => Self::Bytes,
            _ => Self::Text,
        }
    }
}

/// Of the names that are known: `geometrycollection`.
const LONGEST_NAME: usize = 18;

fn is_unsigned(mysql_type: &str) -> bool {
    mysql_type
        .split_ascii_whitespace()
        .any(|word| word.eq_ignore_ascii_case("unsigned") || word.eq_ignore_ascii_case("zerofill"))
}

/// The number in `binary(16)`, which MySQL limits to 255.
fn width(mysql_type: &str) -> Option<usize> {
    let (_, rest) = mysql_type.split_once('(')?;
    let (digits, _) = rest.split_once(')')?;
    digits.trim().parse().ok().filter(|width| *width <= 255)
}

/// The names in `enum('a','b')` or `set('a','b')`.
pub(super) fn names(mysql_type: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut characters = mysql_type.chars().peekable();
    while characters.any(|character| character == '\'') {
        let mut name = String::new();
        while let Some(character) = characters.next() {
            match character {
                '\'' if characters.peek() == Some(&'\'') => {
                    characters.next();
                    name.push('\'');
                }
                '\'' => break,
                other => name.push(other),
            }
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_follow_the_name() {
        for (mysql_type, family) in [
            ("int(11)", Family::Signed),
            ("INT UNSIGNED", Family::Unsigned),
            ("bigint(20) unsigned zerofill", Family::Unsigned),
            ("tinyint(1)", Family::Signed),
            ("bit(8)", Family::Unsigned),
            ("year(4)", Family::Unsigned),
            ("double(10,2)", Family::Float),
            ("decimal(65,30)", Family::Text),
            ("varbinary(16)", Family::Bytes),
            ("binary(16)", Family::FixedBytes(16)),
            ("binary(4000000000)", Family::Bytes),
            ("uuid", Family::BytesAsText(16)),
            ("inet4", Family::BytesAsText(4)),
            ("longblob", Family::Bytes),
            ("enum('a','b')", Family::Enum),
            ("set('a')", Family::Set),
            ("varchar(20)", Family::Text),
            ("point", Family::Bytes),
            ("interval", Family::Text),
            ("", Family::Text),
        ] {
            assert_eq!(Family::of(mysql_type, 12), family, "{mysql_type}");
        }
        assert_eq!(Family::of("unheard-of", 2004), Family::Bytes);
    }

    #[test]
    fn names_may_have_quotes_and_commas() {
        assert_eq!(
            names("enum('a','it''s','x,y','')"),
            ["a", "it's", "x,y", ""]
        );
        assert!(names("enum").is_empty());
    }
}
