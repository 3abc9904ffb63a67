//! The table: MariaDB's types, a value each, and what it becomes.

use rust_decimal::Decimal;

/// What a value becomes.
#[derive(Debug)]
pub(super) enum Expect {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    Number(Decimal),
    Json(serde_json::Value),
    Null,
    /// As an integer of this width it is a typed error that has these words.
    NoByte(&'static str),
    /// As a number of 28 digits it is a typed error.
    NoNumber,
    /// As text it is a typed error that has these words.
    NoText(&'static str),
    /// As bytes it is a typed error that has these words.
    NoBytes(&'static str),
}

use Expect::{
    Bool, Bytes, Float, Json, NoByte, NoBytes, NoNumber, NoText, Null, Number, Signed, Unsigned,
};

/// A type of MariaDB, and values in SQL with what each is to become.
pub(super) struct Type {
    pub(super) definition: String,
    pub(super) values: Vec<(String, Expect)>,
}

fn text(text: &str) -> Expect {
    Expect::Text(text.to_owned())
}

/// Every byte, as a hexadecimal literal of SQL.
fn every_byte() -> (String, Vec<u8>) {
    let bytes: Vec<u8> = (0..=255).collect();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    (format!("x'{digits}'"), bytes)
}

/// A set or an enum with so many names.
fn names(kind: &str, count: usize) -> String {
    let names: Vec<_> = (0..count).map(|number| format!("'n{number}'")).collect();
    format!("{kind}({})", names.join(","))
}

/// Well-known binary of a point, little endian, behind the number of its reference system.
fn point(system: u32, x: f64, y: f64) -> Vec<u8> {
    let mut bytes = system.to_le_bytes().to_vec();
    bytes.extend([1, 1, 0, 0, 0]);
    bytes.extend(x.to_le_bytes());
    bytes.extend(y.to_le_bytes());
    bytes
}

fn polygon() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 1, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0];
    let corners = [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]];
    bytes.extend(
        corners
            .as_flattened()
            .iter()
            .copied()
            .flat_map(f64::to_le_bytes),
    );
    bytes
}

macro_rules! types {
    ($($definition:expr => [$($literal:expr => $expect:expr),* $(,)?]),* $(,)?) => {
        vec![$(Type {
            definition: $definition.to_string(),
            values: vec![$(($literal.to_string(), $expect)),*],
        }),*]
    };
}

/// Numbers.
pub(super) fn numbers() -> Vec<Type> {
    let long = "12345678901234567890123456789012345.123456789012345678901234567890";
    types![
        "TINYINT" => ["-128" => Signed(-128), "127" => Signed(127), "NULL" => Null],
        "TINYINT UNSIGNED" => ["0" => Unsigned(0), "127" => Unsigned(127), "128" => Unsigned(128),
            "255" => Unsigned(255), "255" => NoByte("255"), "NULL" => Null],
        "SMALLINT" => ["-32768" => Signed(-32768), "32767" => Signed(32767)],
        "SMALLINT UNSIGNED" => ["65535" => Unsigned(65535), "32768" => Unsigned(32768)],
        "MEDIUMINT" => ["-8388608" => Signed(-8_388_608), "8388607" => Signed(8_388_607)],
        "MEDIUMINT UNSIGNED" => ["16777215" => Unsigned(16_777_215), "1" => Unsigned(1)],
        "INT" => ["-2147483648" => Signed(i32::MIN.into()), "2147483647" => Signed(i32::MAX.into())],
        "INT UNSIGNED" => ["4294967295" => Unsigned(u32::MAX.into()), "NULL" => Null],
        "INT(8) UNSIGNED ZEROFILL" => ["42" => Unsigned(42)],
        "BIGINT" => ["-9223372036854775808" => Signed(i64::MIN),
            "9223372036854775807" => Signed(i64::MAX), "1000" => NoByte("1000")],
        "BIGINT UNSIGNED" => ["18446744073709551615" => Unsigned(u64::MAX), "0" => Unsigned(0),
            "NULL" => Null],
        "BOOLEAN" => ["TRUE" => Bool(true), "FALSE" => Bool(false), "NULL" => Null],
        "BIT(1)" => ["b'1'" => Bool(true), "b'0'" => Bool(false)],
        "BIT(8)" => ["b'11111111'" => Unsigned(255)],
        "BIT(64)" => ["0xFFFFFFFFFFFFFFFF" => Unsigned(u64::MAX), "1" => Unsigned(1)],
        "FLOAT" => ["1.5" => Float(1.5), "-0.25" => Float(-0.25), "0" => Float(0.0)],
        "DOUBLE" => ["1e10" => Float(1e10), "-1e-300" => Float(-1e-300),
            "1.7976931348623157e308" => Float(f64::MAX), "NULL" => Null],
        "DECIMAL(12,2)" => ["1234.50" => Number(Decimal::new(123_450, 2)),
            "-0.01" => Number(Decimal::new(-1, 2)), "1234.50" => text("1234.50"), "NULL" => Null],
        "DECIMAL(65,30)" => [long => text(long), format!("-{long}") => text(&format!("-{long}")),
            long => NoNumber, // The server writes a zero with 27 digits behind the point.
            "0" => text("0.000000000000000000000000000"),
            "1e-30" => text("0.000000000000000000000000000001")],
        "YEAR" => ["2024" => Unsigned(2024), "1901" => Unsigned(1901), "0" => Unsigned(0)],
    ]
}

/// Dates and times, as MySQL writes them.
pub(super) fn times() -> Vec<Type> {
    types![
        "DATE" => ["'2024-02-29'" => text("2024-02-29"), "'0000-00-00'" => text("0000-00-00"),
            "'2024-00-00'" => text("2024-00-00"), "'9999-12-31'" => text("9999-12-31"),
            "NULL" => Null],
        "TIME" => ["'23:59:59'" => text("23:59:59"), "'-838:59:59'" => text("-838:59:59"),
            "'100:00:01'" => text("100:00:01"), "'00:00:00'" => text("00:00:00"),
            "'-00:00:01'" => text("-00:00:01")],
        "TIME(3)" => ["'23:59:59.125'" => text("23:59:59.125"),
            "'-00:00:00.125'" => text("-00:00:00.125"), "'-12:34:56.750'" => text("-12:34:56.750")],
        "TIME(6)" => ["'-838:59:58.999999'" => text("-838:59:58.999999"),
            "'00:00:00.000001'" => text("00:00:00.000001")],
        "DATETIME" => ["'2024-02-29 12:34:56'" => text("2024-02-29 12:34:56"),
            "'0000-00-00 00:00:00'" => text("0000-00-00 00:00:00"),
            "'2024-01-00 00:00:00'" => text("2024-01-00 00:00:00")],
        "DATETIME(2)" => ["'2024-02-29 12:34:56.78'" => text("2024-02-29 12:34:56.78"),
            "'2024-02-29 12:34:56.00'" => text("2024-02-29 12:34:56.00")],
        "DATETIME(6)" => ["'2024-02-29 12:34:56.789012'" => text("2024-02-29 12:34:56.789012"),
            "'1000-01-01 00:00:00.000001'" => text("1000-01-01 00:00:00.000001"), "NULL" => Null],
        "TIMESTAMP NULL" => ["'2024-02-29 12:34:56'" => text("2024-02-29 12:34:56"),
            "'0000-00-00 00:00:00'" => text("0000-00-00 00:00:00"), "NULL" => Null],
        "TIMESTAMP(6) NULL" => ["'2024-02-29 12:34:56.000001'" => text("2024-02-29 12:34:56.000001")],
    ]
}

/// Characters, names, JSON.
pub(super) fn texts() -> Vec<Type> {
    let sixty_four = names("SET", 64);
    let all: Vec<_> = (0..64).map(|number| format!("n{number}")).collect();
    let all = all.join(",");
    types![
        "CHAR(8)" => ["'ÄÖ🚀'" => text("ÄÖ🚀"), "''" => text(""), "NULL" => Null],
        "VARCHAR(300)" => ["'👩‍👩‍👧 ß 漢'" => text("👩‍👩‍👧 ß 漢"), "'it''s \\\\ \"q\"'" => text("it's \\ \"q\""),
            "REPEAT('🚀', 300)" => text(&"🚀".repeat(300))],
        "TINYTEXT" => ["'tiny'" => text("tiny")],
        "TEXT" => ["'line\\nnext\\ttab'" => text("line\nnext\ttab"), "NULL" => Null],
        "MEDIUMTEXT" => ["REPEAT('ü', 70000)" => text(&"ü".repeat(70_000))],
        "LONGTEXT" => ["'long'" => text("long")],
        "JSON" => ["'{\"a\": [1, \"ü🚀\", null]}'" => Json(serde_json::json!({"a": [1, "ü🚀", null]})),
            "'[]'" => Json(serde_json::json!([])), "NULL" => Null],
        "ENUM('new','it''s paid','a,b','ÄÖ🚀','')" => ["'new'" => text("new"),
            "'it''s paid'" => text("it's paid"), "'a,b'" => text("a,b"), "'ÄÖ🚀'" => NoText("use the number"), "'ÄÖ🚀'" => Unsigned(4),
            "''" => text(""), "'a,b'" => Unsigned(3), "'no such name'" => Unsigned(0), "NULL" => Null],
        names("ENUM", 300) => ["'n299'" => text("n299"), "'n299'" => Unsigned(300)],
        "SET('a','b','c')" => ["'a,c'" => text("a,c"), "'a,c'" => Unsigned(5), "''" => text(""),
            "NULL" => Null],
        sixty_four => [format!("'{all}'") => text(&all), "'n63'" => text("n63"),
            "'n63'" => Unsigned(1 << 63)],
    ]
}

/// Bytes.
pub(super) fn bytes() -> Vec<Type> {
    let (literal, all) = every_byte();
    let wide = format!("REPEAT({literal}, 300)");
    types![
        "TINYBLOB" => [literal.replace("FF'", "'") => Bytes(all[..255].to_vec())],
        "BLOB" => [literal => Bytes(all.clone()), "''" => Bytes(Vec::new()), "NULL" => Null,
            "x'FF'" => NoText("UTF-8"), "x'C3A9'" => text("é")],
        "MEDIUMBLOB" => [wide => Bytes(all.repeat(300))],
        "LONGBLOB" => ["x'00'" => Bytes(vec![0])],
        "BINARY(4)" => ["x'01020304'" => Bytes(vec![1, 2, 3, 4]), "x'FF000000'" => Bytes(vec![255, 0, 0, 0])],
        "VARBINARY(300)" => [literal => Bytes(all.clone()), "x'0000'" => Bytes(vec![0, 0])],
        "GEOMETRY" => ["ST_GeomFromText('POINT(1 2)')" => Bytes(point(0, 1.0, 2.0)),
            "ST_GeomFromText('POINT(-180 90)', 4326)" => Bytes(point(4326, -180.0, 90.0)),
            "NULL" => Null],
        "POLYGON" => ["ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))')" => Bytes(polygon())],
        "POINT" => ["ST_GeomFromText('POINT(0.1 -0.1)')" => Bytes(point(0, 0.1, -0.1))],
        // What is no UTF-8 is destroyed by the server; what is comes whole.
        "UUID" => ["'123e4567-e89b-12d3-a456-426655440000'" => NoBytes("BINARY(16)"),
            "'61626364-6566-6768-696a-6b6c6d6ec3a9'" => Bytes(b"abcdefghijklmn\xc3\xa9".to_vec())],
        "INET6" => ["'2001:db8::ff00:42:8329'" => NoBytes("BINARY(16)"),
            "'2001::1'" => Bytes(vec![0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])],
        "INET4" => ["'192.0.2.255'" => NoBytes("BINARY(4)"), "'10.0.0.1'" => Bytes(vec![10, 0, 0, 1])],
    ]
}
