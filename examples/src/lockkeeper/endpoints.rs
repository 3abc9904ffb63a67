//! `lockkeeper endpoints`: the parts of a process, as it tells them itself.

use std::fmt::Write as _;

use lockkeeper_core::admin::{ADMIN_ENDPOINT, GetParts, Part, ServiceAdminGateway};
use lockkeeper_core::status::{StatusValue, Unit};
use serde_json::json;

use super::Shown;
use super::connection::Connection;
use super::ending::{Ending, Failure};
use super::options::ConnectionOptions;

pub(super) async fn run(options: &ConnectionOptions) -> Result<Shown, Failure> {
    let connection = Connection::open(options, ADMIN_ENDPOINT).await?;
    let shown = ask(&connection).await;
    connection.close().await;
    shown
}

/// Asks every process whose address is given.
async fn ask(connection: &Connection) -> Result<Shown, Failure> {
    let (mut text, mut processes) = (String::new(), Vec::new());
    for address in &connection.addresses {
        let asked = async {
            let gateway = connection.to::<ServiceAdminGateway>(address).await?;
            gateway.send(GetParts).timeout(connection.question).await
        };
        let parts = asked
            .await
            .map_err(|error| Failure::unreachable(format!("{address}: {error}")))?;
        text.push_str(&show(&address.to_string(), &parts));
        processes.push(json!({"address": address.to_string(), "parts": parts}));
    }
    Shown::new(Ending::Done, text, &processes)
}

fn show(address: &str, parts: &[Part]) -> String {
    let mut text = format!("{address}\n");
    // a String takes everything
    for part in parts {
        let state = part.state.as_deref().unwrap_or_default();
        let _ = writeln!(text, "  {} {state}", part.name);
        if let Some(unready) = &part.unready {
            let _ = writeln!(text, "    NOT READY: {unready}");
        }
        for value in &part.values {
            let shown = shown(&value.value, value.unit);
            let _ = writeln!(text, "    {:<24} {shown}", value.label);
        }
        for table in &part.tables {
            let _ = writeln!(text, "    {}", table.caption);
            for row in &table.rows {
                let cells = table.columns.iter().zip(row);
                let cells =
                    cells.map(|((label, unit), value)| format!("{label} {}", shown(value, *unit)));
                let _ = writeln!(text, "      {}", cells.collect::<Vec<_>>().join(", "));
            }
        }
    }
    text
}

fn shown(value: &StatusValue, unit: Unit) -> String {
    let value = match value {
        StatusValue::Flag(flag) => flag.to_string(),
        StatusValue::Count(count) => count.to_string(),
        StatusValue::Number(number) => format!("{number:.3}"),
        StatusValue::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let unit = match unit {
        Unit::Bytes => " bytes",
        Unit::Seconds => " s",
        Unit::PerSecond => " a second",
        Unit::UnixMilliseconds => " ms since 1970",
        _ => "",
    };
    value + unit
}
