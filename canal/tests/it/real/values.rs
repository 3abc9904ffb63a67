//! What the values of MariaDB's column types become.

mod table;

use std::collections::BTreeMap;

use lockkeeper_canal::{EventType, RawRow, RowChange, RowError, SimpleCanalConnector};
use rust_decimal::Decimal;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{MariaDb, on_the_real_server_with};
use crate::contract::{Subject, next};
use table::{Expect, Type};

const COLUMNS: &str = "
    id INT PRIMARY KEY, ti TINYINT, tu TINYINT UNSIGNED, si SMALLINT, mu MEDIUMINT UNSIGNED,
    iu INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, fl FLOAT, db DOUBLE, de DECIMAL(20,6),
    bo BOOLEAN, bt BIT(8), ye YEAR, da DATE, tm TIME(3), dt DATETIME(6),
    st ENUM('new','it''s paid','ÄÖ'), se SET('a','b','c'), ch CHAR(4), vc VARCHAR(40), tx TEXT,
    bl BLOB, vb VARBINARY(300), js JSON";

#[derive(Debug, PartialEq, Deserialize)]
struct Values {
    id: i32,
    ti: Option<i8>,
    tu: Option<u8>,
    si: Option<i16>,
    mu: Option<u32>,
    iu: Option<u32>,
    bi: Option<i64>,
    bu: Option<u64>,
    fl: Option<f32>,
    db: Option<f64>,
    de: Option<Decimal>,
    bo: Option<bool>,
    bt: Option<u8>,
    ye: Option<u16>,
    da: Option<String>,
    tm: Option<String>,
    dt: Option<String>,
    st: Option<State>,
    se: Option<String>,
    ch: Option<String>,
    vc: Option<String>,
    tx: Option<String>,
    bl: Option<Vec<u8>>,
    vb: Option<Vec<u8>>,
    js: Option<serde_json::Value>,
}

#[derive(Debug, PartialEq, Deserialize)]
enum State {
    #[serde(rename = "new")]
    New,
    #[serde(rename = "it's paid")]
    Paid,
    #[serde(rename = "ÄÖ")]
    Umlauts,
}

/// Every byte, as a hexadecimal literal of SQL.
fn every_byte() -> (Vec<u8>, String) {
    let bytes: Vec<u8> = (0..=255).collect();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    (bytes, format!("x'{digits}'"))
}

/// The texts as they came, for a failure's message.
fn texts(row: RawRow<'_>) -> String {
    row.after()
        .iter()
        .map(|column| format!("{column:?} ({})\n", column.sql_type()))
        .collect()
}

#[test]
fn every_common_column_type_becomes_its_value() {
    on_the_real_server_with("every_common_column_type", async |subject, database| {
        let (schema, _) = subject.database.table();
        let mut connector = subject.connected().await;
        let filter = lockkeeper_canal::Filter::table(schema, "everything");
        connector.subscribe(&filter).await.unwrap();
        let (bytes, literal) = every_byte();
        database.execute(&format!(
            "SET sql_mode = ''; CREATE TABLE {schema}.everything ({COLUMNS}) CHARACTER SET utf8mb4;
             INSERT INTO {schema}.everything VALUES
             (1, 127, 255, 32767, 16777215, 4294967295, 9223372036854775807, 18446744073709551615,
              1.5, 1e10, 12345678901234.567890, 1, b'11111111', 2024, '2024-02-29', '23:59:59.125',
              '2024-02-29 12:34:56.789012', 'it''s paid', 'a,c', 'Ä🚀', 'ß', 'text', {literal},
              {literal}, '{{\"a\": [1, \"ü\"]}}'),
             (2, -128, 0, -32768, 0, 0, -9223372036854775808, 0, -0.25, -1e-10, -0.000001, 0, b'0',
              1901, '0000-00-00', '-838:59:59', '0000-00-00 00:00:00', 'new', '', '', '', '', '', '',
              '1');
             INSERT INTO {schema}.everything (id) VALUES (3);
             INSERT INTO {schema}.everything (id, st) VALUES (4, 'ÄÖ');"
        ));
        let mut changes: Vec<RowChange> = Vec::new();
        while changes.iter().map(RowChange::len).sum::<usize>() < 4 {
            let message = next(&mut connector, 1000).await;
            for entry in message.entries() {
                let entry = entry.unwrap();
                let ours = (entry.schema_name(), entry.table_name()) == (schema, "everything");
                let change = entry.row_change().unwrap();
                changes.extend(
                    change.filter(|change| ours && change.event_type() == EventType::Insert),
                );
            }
            connector.ack(message.id()).await.unwrap();
        }
        let rows: Vec<Values> = changes
            .iter()
            .flat_map(|change| change.rows::<Values>().zip(change.raw_rows()))
            .map(|(row, raw)| match row {
                Ok(row) => row.after.unwrap(),
                Err(error) => panic!("{error}\n{}", texts(raw)),
            })
            .collect();
        let first = Values {
            id: 1,
            ti: Some(127),
            tu: Some(255),
            si: Some(32767),
            mu: Some(16_777_215),
            iu: Some(u32::MAX),
            bi: Some(i64::MAX),
            bu: Some(u64::MAX),
            fl: Some(1.5),
            db: Some(1e10),
            de: Some(Decimal::from_i128_with_scale(12_345_678_901_234_567_890, 6)),
            bo: Some(true),
            bt: Some(255),
            ye: Some(2024),
            da: Some("2024-02-29".into()),
            tm: Some("23:59:59.125".into()),
            dt: Some("2024-02-29 12:34:56.789012".into()),
            st: Some(State::Paid),
            se: Some("a,c".into()),
            ch: Some("Ä🚀".into()),
            vc: Some("ß".into()),
            tx: Some("text".into()),
            bl: Some(bytes.clone()),
            vb: Some(bytes),
            js: Some("{\"a\": [1, \"ü\"]}".into()),
        };
        assert_eq!(rows[0], first);
        let second = Values {
            id: 2,
            ti: Some(-128),
            tu: Some(0),
            si: Some(-32768),
            mu: Some(0),
            iu: Some(0),
            bi: Some(i64::MIN),
            bu: Some(0),
            fl: Some(-0.25),
            db: Some(-1e-10),
            de: Some(Decimal::new(-1, 6)),
            bo: Some(false),
            bt: Some(0),
            ye: Some(1901),
            da: Some("0000-00-00".into()),
            tm: rows[1].tm.clone(),
            dt: rows[1].dt.clone(),
            st: Some(State::New),
            se: Some(String::new()),
            ch: Some(String::new()),
            vc: Some(String::new()),
            tx: Some(String::new()),
            bl: Some(Vec::new()),
            vb: Some(Vec::new()),
            js: Some("1".into()),
        };
        assert_eq!(rows[1], second);
        // Servers write these with and without a fraction.
        assert!(
            rows[1].tm.as_deref().unwrap().starts_with("-838:59:59"),
            "{:?}",
            rows[1].tm
        );
        assert!(
            rows[1]
                .dt
                .as_deref()
                .unwrap()
                .starts_with("0000-00-00 00:00:00")
        );
        assert_eq!(
            (rows[2].id, &rows[2].tu, &rows[2].bl, &rows[2].st),
            (3, &None, &None, &None)
        );
        assert_eq!(rows[3].st, Some(State::Umlauts));
    });
}

/// The changes of rows of a schema's tables whose names begin with `prefix`, until `rows` came.
async fn rows_of(
    connector: &mut SimpleCanalConnector,
    schema: &str,
    prefix: &str,
    rows: usize,
) -> Vec<RowChange> {
    let mut changes: Vec<RowChange> = Vec::new();
    while changes.iter().map(RowChange::len).sum::<usize>() < rows {
        let message = next(connector, 1000).await;
        for entry in message.entries() {
            let entry = entry.unwrap();
            if entry.schema_name() == schema && entry.table_name().starts_with(prefix) {
                changes.extend(entry.row_change().unwrap());
            }
        }
        connector.ack(message.id()).await.unwrap();
    }
    changes
}

/// The column `v` of one row, as a type.
#[derive(Debug, Deserialize)]
struct One<T> {
    v: T,
}

fn one<T: DeserializeOwned>(change: &RowChange, row: usize) -> Result<T, RowError> {
    let row = change.rows::<One<T>>().nth(row).unwrap()?;
    Ok(row.after.unwrap().v)
}

/// What is wrong with a value.
fn fault(expect: &Expect, change: &RowChange, row: usize) -> Option<String> {
    fn differs<T: PartialEq + std::fmt::Debug>(
        got: Result<T, RowError>,
        wanted: T,
    ) -> Option<String> {
        match got {
            Ok(got) if got == wanted => None,
            Ok(got) => Some(format!("became {got:?}")),
            Err(error) => Some(error.to_string()),
        }
    }
    fn refused<T: std::fmt::Debug>(got: Result<T, RowError>, words: &str) -> Option<String> {
        match got {
            Err(error) if error.column() == Some("v") && error.to_string().contains(words) => None,
            other => Some(format!("{other:?} and not an error")),
        }
    }
    match expect {
        Expect::Signed(wanted) => differs(one(change, row), *wanted),
        Expect::Unsigned(wanted) => differs(one(change, row), *wanted),
        Expect::Float(wanted) => differs(one(change, row), *wanted),
        Expect::Bool(wanted) => differs(one(change, row), *wanted),
        Expect::Text(wanted) => differs(one(change, row), wanted.clone()),
        Expect::Bytes(wanted) => differs(one(change, row), wanted.clone()),
        Expect::Number(wanted) => differs(one(change, row), *wanted),
        Expect::Json(wanted) => {
            let text = one::<String>(change, row);
            differs(
                text.map(|text| serde_json::from_str(&text).unwrap()),
                wanted.clone(),
            )
        }
        Expect::Null => differs(one(change, row), None::<String>),
        Expect::NoByte(words) => refused(one::<i8>(change, row), words),
        Expect::NoNumber => refused(one::<Decimal>(change, row), ""),
        Expect::NoBytes(words) => refused(one::<Vec<u8>>(change, row), words),
        Expect::NoText(words) => refused(one::<String>(change, row), words),
    }
}

/// A table a type with one row a value.
async fn become_what_the_table_says(subject: &Subject, database: &MariaDb, types: Vec<Type>) {
    let (schema, _) = subject.database.table();
    let mut connector = subject.connected().await;
    let filter = format!(r"{schema}\.t\d+").parse().unwrap();
    connector.subscribe(&filter).await.unwrap();
    let mut script = "SET sql_mode = ''; SET time_zone = SYSTEM;".to_owned();
    for (number, Type { definition, values }) in types.iter().enumerate() {
        script +=
            &format!("CREATE TABLE {schema}.t{number} (v {definition}) CHARACTER SET utf8mb4;");
        for (literal, _) in values {
            script += &format!("INSERT INTO {schema}.t{number} VALUES ({literal});");
        }
    }
    database.execute(&script);
    let count = types.iter().map(|one| one.values.len()).sum();
    let changes = rows_of(&mut connector, schema, "t", count).await;
    let mut rows: BTreeMap<&str, Vec<(&RowChange, usize)>> = BTreeMap::new();
    for change in &changes {
        let table = rows.entry(change.entry().table_name()).or_default();
        table.extend((0..change.len()).map(|row| (change, row)));
    }
    let mut faults = Vec::new();
    for (number, Type { definition, values }) in types.iter().enumerate() {
        let rows = &rows[format!("t{number}").as_str()];
        assert_eq!(rows.len(), values.len(), "{definition:.60}");
        for ((literal, expect), (change, row)) in values.iter().zip(rows) {
            if let Some(fault) = fault(expect, change, *row) {
                let raw = texts(change.raw_rows().nth(*row).unwrap());
                faults.push(format!(
                    "{definition:.60} {literal:.80} wants {:.200}: {fault:.400}; {raw:.400}",
                    format!("{expect:?}")
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn numbers_become_what_the_table_says() {
    on_the_real_server_with("numbers_become_it", async |subject, database| {
        become_what_the_table_says(subject, database, table::numbers()).await;
    });
}

#[test]
fn dates_and_times_become_what_the_table_says() {
    on_the_real_server_with("dates_become_it", async |subject, database| {
        become_what_the_table_says(subject, database, table::times()).await;
    });
}

#[test]
fn texts_names_and_json_become_what_the_table_says() {
    on_the_real_server_with("texts_become_it", async |subject, database| {
        become_what_the_table_says(subject, database, table::texts()).await;
    });
}

#[test]
fn bytes_and_geometry_become_what_the_table_says() {
    on_the_real_server_with("bytes_become_it", async |subject, database| {
        become_what_the_table_says(subject, database, table::bytes()).await;
    });
}
