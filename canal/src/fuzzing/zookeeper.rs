//! What servers and clients leave in ZooKeeper's nodes.

use crate::access::running_address;
use crate::filter::Filter;
use crate::running::{ClientRunningData, ServerCursor};

/// The content of a node: running data of a server or a client, a cursor, a filter. What is read is
/// written again as text that is the same.
///
/// # Panics
/// When it is not.
pub fn zookeeper(bytes: &[u8]) {
    if let Some(address) = running_address(bytes) {
        assert!(address.contains(':'), "{address}");
    }
    if let Some(data) = ClientRunningData::from_json(bytes) {
        assert_eq!(ClientRunningData::from_json(&data.to_json()), Some(data));
    }
    let _ = ServerCursor::from_json(bytes);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(filter) = text.parse::<Filter>()
    {
        let shown = filter.to_string();
        let again = shown.parse::<Filter>().expect("what was read can be read");
        assert_eq!(again, filter, "{shown}");
    }
}
