//! What the Canal server keeps in ZooKeeper for a client: shown, never relied on.

use serde::Deserialize;

/// The position from which the server goes on after its restart, as the `cursor` node says.
///
/// For display. The server writes it up to a second after an acknowledgement, and only at ends of
/// transactions; a file's name and an offset may repeat after a quick rotation of the binlog.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCursor {
    /// The binlog's file.
    pub journal_name: String,
    /// The offset in it, in bytes.
    pub position: i64,
    /// When the entry there was executed, in milliseconds since 1970.
    pub timestamp: i64,
    /// The executed transactions, where the server works with them; else empty.
    pub gtid: String,
}

#[derive(Deserialize)]
struct LogPosition {
    // The server's spelling.
    postion: EntryPosition,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryPosition {
    #[serde(default)]
    journal_name: String,
    #[serde(default)]
    position: i64,
    #[serde(default)]
    timestamp: i64,
    #[serde(default)]
    gtid: String,
}

impl ServerCursor {
    /// Reads a `cursor` node's content; `None` for what no server writes.
    pub fn from_json(data: &[u8]) -> Option<Self> {
        let EntryPosition {
            journal_name,
            position,
            timestamp,
            gtid,
        } = serde_json::from_slice::<LogPosition>(data).ok()?.postion;
        Some(Self {
            journal_name,
            position,
            timestamp,
            gtid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_servers_cursor_is_read() {
        let text = r#"{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition",
            "identity":{"slaveId":-1,"sourceAddress":{"address":"localhost","port":13306}},
            "postion":{"gtid":"","included":false,"journalName":"binlog.000002",
            "position":66434,"serverId":1,"timestamp":1796008169000}}"#;
        let cursor = ServerCursor {
            journal_name: "binlog.000002".to_owned(),
            position: 66434,
            timestamp: 1_796_008_169_000,
            gtid: String::new(),
        };
        assert_eq!(ServerCursor::from_json(text.as_bytes()), Some(cursor));
        assert_eq!(ServerCursor::from_json(b"{}"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_cursor_or_none(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = ServerCursor::from_json(&data);
        }
    }
}
