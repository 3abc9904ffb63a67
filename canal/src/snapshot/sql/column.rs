//! Columns: how each is read so that its text is the one that Canal writes.

use bytes::Bytes;

use super::quoted;
use crate::protocol::generated::entry as wire;
use crate::snapshot::error::SnapshotError;
use crate::snapshot::key::{Key, KeyColumn, KeyKind, KeyValue};

/// What a table is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::snapshot) struct TableColumns {
    columns: Vec<Column>,
    key: Vec<KeyColumn>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    mysql_type: String,
    sql_type: i32,
    reading: Reading,
    is_key: bool,
}

/// How a column is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// As it is written.
    Written,
    /// As the number behind it: an enum's index, a set's bits, without zeros before it.
    Number,
    /// A decimal, without the zeros that Canal leaves out.
    Decimal,
    /// A `float`, in as many digits as it has.
    Float,
    /// Characters, whatever their set.
    Characters,
    /// Bytes, each a character up to U+00FF.
    Bytes,
    /// The same, without zeros at the end, which the binlog does not have.
    TrimmedBytes,
}

/// Numbers of `java.sql.Types`, as Canal's server gives them for small values.
fn known(data_type: &str) -> Option<(Reading, i32)> {
    Some(match data_type {
        "tinyint" => (Reading::Number, -6),
        "smallint" => (Reading::Number, 5),
        "mediumint" | "int" | "integer" => (Reading::Number, 4),
        "bigint" => (Reading::Number, -5),
        "bit" | "set" => (Reading::Number, -7),
        "enum" => (Reading::Number, 4),
        "decimal" | "numeric" => (Reading::Decimal, 3),
        "float" => (Reading::Float, 7),
        "double" | "real" => (Reading::Written, 8),
        "year" => (Reading::Written, 12),
        "date" => (Reading::Written, 91),
        "time" => (Reading::Written, 92),
        "datetime" | "timestamp" => (Reading::Written, 93),
        "char" => (Reading::Characters, 1),
        "varchar" | "json" => (Reading::Characters, 12),
        "tinytext" | "text" | "mediumtext" | "longtext" => (Reading::Characters, 2005),
        "binary" => (Reading::TrimmedBytes, 2004),
        "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "geometry" | "point"
        | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
        | "geometrycollection" | "geomcollection" => (Reading::Bytes, 2004),
        _ => return None,
    })
}

impl TableColumns {
    /// From name, type's name, type and collation of each column, and the primary key's names in
    /// order.
    pub(super) fn new(
        table: &str,
        columns: Vec<[String; 4]>,
        key: &[String],
    ) -> Result<Self, SnapshotError> {
        if columns.is_empty() {
            return Err(SnapshotError::NoTable {
                table: table.to_owned(),
            });
        }
        let unfit = |reason: String| SnapshotError::Key {
            table: table.to_owned(),
            reason,
        };
        if key.is_empty() {
            return Err(unfit("it has no primary key".to_owned()));
        }
        let kinds = key.iter().map(|name| {
            let column = columns.iter().find(|[column, ..]| column == name);
            let column = column.ok_or_else(|| unfit(format!("its column `{name}` is hidden")))?;
            let [name, data_type, mysql_type, collation] = column;
            let kind = key_kind(data_type, mysql_type, collation)
                .ok_or_else(|| unfit(format!("its column `{name}` is {mysql_type} {collation}")))?;
            Ok(KeyColumn {
                name: name.clone(),
                kind,
            })
        });
        let kinds = kinds.collect::<Result<_, SnapshotError>>()?;
        let columns = columns.into_iter().map(|[name, data_type, mysql_type, _]| {
            let (reading, sql_type) = known(&data_type).ok_or_else(|| {
                SnapshotError::InvalidArgument(format!(
                    "table {table} cannot be read: how Canal writes its column `{name}` of type \
                     {mysql_type} is not known"
                ))
            })?;
            Ok(Column {
                is_key: key.contains(&name),
                name,
                mysql_type,
                sql_type,
                reading,
            })
        });
        Ok(Self {
            columns: columns.collect::<Result<_, SnapshotError>>()?,
            key: kinds,
        })
    }

    /// The primary key.
    pub(in crate::snapshot) fn key(&self) -> &[KeyColumn] {
        &self.key
    }

    /// What is selected.
    pub(super) fn expressions(&self) -> String {
        let expressions = self.columns.iter().map(|column| {
            let name = quoted(&column.name);
            match column.reading {
                Reading::Written | Reading::Decimal => format!("CAST({name} AS CHAR)"),
                Reading::Number => format!("CAST({name} + 0 AS CHAR)"),
                Reading::Float => format!("CAST({name} + 0e0 AS CHAR)"),
                Reading::Characters => format!("CONVERT({name} USING utf8mb4)"),
                Reading::Bytes | Reading::TrimmedBytes => format!("HEX({name})"),
            }
        });
        expressions.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn order(&self) -> String {
        let names = self.key.iter().map(|key| quoted(&key.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The condition for rows behind a key, with its arguments: a greater first column, or an equal
    /// one and a greater second …
    pub(super) fn behind<'a>(&self, key: Option<&'a Key>) -> (String, Vec<&'a KeyValue>) {
        let Some(Key(values)) = key else {
            return (String::new(), Vec::new());
        };
        let (mut conditions, mut arguments) = (Vec::new(), Vec::new());
        for last in 0..self.key.len().min(values.len()) {
            let parts = self.key[..=last].iter().enumerate().map(|(at, column)| {
                let sign = if at == last { '>' } else { '=' };
                format!("{} {sign} ?", quoted(&column.name))
            });
            conditions.push(format!("({})", parts.collect::<Vec<_>>().join(" AND ")));
            arguments.extend(&values[..=last]);
        }
        (format!(" WHERE {}", conditions.join(" OR ")), arguments)
    }

    /// A row, from the texts of what was selected.
    pub(super) fn row(
        &self,
        text: impl Fn(usize) -> Result<Option<String>, SnapshotError>,
    ) -> Result<Vec<wire::Column>, SnapshotError> {
        let columns = self.columns.iter().enumerate().map(|(index, column)| {
            let value = text(index)?.map(|text| column.value(text)).transpose()?;
            Ok(wire::Column {
                index: i32::try_from(index).unwrap_or(i32::MAX),
                sql_type: column.sql_type,
                name: column.name.clone().into(),
                is_key: column.is_key,
                is_null: Some(value.is_none()),
                value: value.unwrap_or_default(),
                mysql_type: column.mysql_type.clone().into(),
                ..wire::Column::default()
            })
        });
        columns.collect()
    }
}

impl Column {
    /// The text that Canal writes for what was selected.
    fn value(&self, text: String) -> Result<Bytes, SnapshotError> {
        match self.reading {
            Reading::Written | Reading::Number | Reading::Characters => Ok(text.into()),
            Reading::Decimal => Ok(decimal(text).into()),
            Reading::Float => {
                let digits = text.parse::<f32>().map(|number| number.to_string());
                Ok(digits.unwrap_or(text).into())
            }
            Reading::Bytes | Reading::TrimmedBytes => {
                let mut letters = letters(&text).ok_or_else(|| {
                    SnapshotError::Database(format!("column `{}` is no HEX text", self.name))
                })?;
                if self.reading == Reading::TrimmedBytes {
                    letters.truncate(letters.trim_end_matches('\0').len());
                }
                Ok(letters.into())
            }
        }
    }
}

/// Canal reads the digits behind the point in groups of nine, and leaves out the last one if it is
/// shorter and nothing but zeros.
fn decimal(mut text: String) -> String {
    if let Some(point) = text.find('.') {
        let digits = text.len() - point - 1;
        let rest = text.len() - digits % 9;
        if text[rest..].bytes().all(|digit| digit == b'0') {
            text.truncate(rest);
        }
        if text.ends_with('.') {
            text.push('0');
        }
    }
    text
}

/// Bytes in hexadecimal digits as characters.
fn letters(hex: &str) -> Option<String> {
    let pairs = hex.as_bytes().chunks(2);
    let letters = pairs.map(|pair| {
        let digits = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(digits, 16).ok().map(char::from)
    });
    letters.collect()
}

/// How a key's column is ordered, if that is known.
fn key_kind(data_type: &str, mysql_type: &str, collation: &str) -> Option<KeyKind> {
    Some(match data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => {
            match mysql_type.contains("unsigned") || mysql_type.contains("zerofill") {
                true => KeyKind::Unsigned,
                false => KeyKind::Signed,
            }
        }
        "year" => KeyKind::Unsigned,
        "binary" | "varbinary" => KeyKind::Bytes,
        "date" | "datetime" => KeyKind::Moment,
        "char" | "varchar" => {
            // The characters of these sets are in the order of their UTF-8 bytes.
            let (set, rest) = collation.split_once('_')?;
            if !["utf8", "utf8mb3", "utf8mb4", "ascii"].contains(&set) {
                return None;
            }
            match rest {
                // MySQL's newer collation does not pad.
                "0900_bin" | "nopad_bin" => KeyKind::Text,
                "bin" => KeyKind::PaddedText,
                _ => return None,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, data_type: &str, mysql_type: &str, collation: &str) -> [String; 4] {
        [name, data_type, mysql_type, collation].map(str::to_owned)
    }

    fn table(key: &[&str]) -> Result<TableColumns, SnapshotError> {
        let columns = vec![
            column("a`b", "int", "int(10) unsigned", ""),
            column("name", "varchar", "varchar(20)", "utf8mb4_bin"),
            column("free", "varchar", "varchar(20)", "utf8mb4_general_ci"),
            column("state", "enum", "enum('a')", "utf8mb4_general_ci"),
            column("bytes", "binary", "binary(4)", ""),
            column("real", "float", "float", ""),
        ];
        let key: Vec<_> = key.iter().map(|name| (*name).to_owned()).collect();
        TableColumns::new("shop.orders", columns, &key)
    }

    #[test]
    fn a_key_of_several_columns_is_compared_column_by_column() {
        let table = table(&["name", "a`b"]).unwrap();
        assert_eq!(table.order(), "`name`, `a``b`");
        assert_eq!(table.behind(None), (String::new(), vec![]));
        let key = Key(vec![
            KeyValue::PaddedText("x".to_owned()),
            KeyValue::Unsigned(7),
        ]);
        let (condition, arguments) = table.behind(Some(&key));
        assert_eq!(
            condition,
            " WHERE (`name` > ?) OR (`name` = ? AND `a``b` > ?)"
        );
        assert_eq!(arguments, [&key.0[0], &key.0[0], &key.0[1]]);
    }

    #[test]
    fn tables_that_cannot_be_read_in_chunks_are_told_why() {
        for (key, reason) in [
            (vec![], "no primary key"),
            (vec!["free"], "utf8mb4_general_ci"),
            (vec!["state"], "enum"),
            (vec!["real"], "float"),
        ] {
            let failed = table(&key).unwrap_err();
            assert!(matches!(failed, SnapshotError::Key { .. }), "{failed}");
            assert!(failed.to_string().contains(reason), "{failed}");
        }
        let gone = TableColumns::new("shop.orders", vec![], &[]);
        assert!(matches!(gone, Err(SnapshotError::NoTable { .. })));
        let uuid = vec![
            column("id", "int", "int", ""),
            column("u", "uuid", "uuid", ""),
        ];
        let failed = TableColumns::new("shop.orders", uuid, &["id".to_owned()]).unwrap_err();
        assert!(failed.to_string().contains("uuid"), "{failed}");
    }

    #[test]
    fn a_decimals_last_short_group_of_zeros_is_left_out() {
        for (sql, canal) in [
            ("1.00", "1.0"),
            ("-0.50", "-0.50"),
            ("12.678000", "12.678000"),
            ("1.678000000000", "1.678000000"),
            ("1.000000000", "1.000000000"),
            ("7", "7"),
        ] {
            assert_eq!(decimal(sql.to_owned()), canal);
        }
    }

    #[test]
    fn values_become_canals_texts() {
        let table = table(&["a`b"]).unwrap();
        let texts = ["7", "Ä", "x", "1", "41FF0000", "0.10000000149011612"];
        let row = table
            .row(|index| Ok(Some(texts[index].to_owned())))
            .unwrap();
        let values: Vec<_> = row.iter().map(|column| column.value.clone()).collect();
        assert_eq!(values, ["7", "Ä", "x", "1", "Aÿ", "0.1"]);
        assert!(row[0].is_key && !row[1].is_key);
        let nothing = table.row(|_| Ok(None)).unwrap();
        assert!(nothing.iter().all(|column| column.is_null == Some(true)));
        assert!(
            table.row(|_| Ok(Some("4".to_owned()))).is_err(),
            "half a byte"
        );
    }
}
