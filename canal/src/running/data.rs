//! What stands in a client's running node.

use serde::{Deserialize, Serialize};

/// The content of `/otter/canal/destinations/D/{clientId}/running`, as Canal's Java client writes
/// and reads it: `{"active":true,"address":"10.0.0.5:53124","clientId":1001}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientRunningData {
    /// Set to false by an administrator who wants another client to take over.
    #[serde(default = "active_unless_said")]
    pub active: bool,
    /// The client's side of its connection to the Canal server; without a port while it is not
    /// connected.
    #[serde(default)]
    pub address: String,
    /// The client id. Some clients write it as text.
    #[serde(rename = "clientId", deserialize_with = "number_or_text")]
    pub client_id: u16,
}

fn active_unless_said() -> bool {
    true
}

fn number_or_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(u16),
        Text(String),
    }
    match Id::deserialize(from)? {
        Id::Number(id) => Ok(id),
        Id::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

impl ClientRunningData {
    pub(crate) fn new(client_id: u16, address: String) -> Self {
        Self {
            active: true,
            address,
            client_id,
        }
    }

    /// Reads a node's content; `None` for what no client writes.
    pub fn from_json(data: &[u8]) -> Option<Self> {
        serde_json::from_slice(data).ok()
    }

    /// The node's content.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_is_the_one_of_the_java_client() {
        let text = br#"{"active":true,"address":"10.0.0.5:53124","clientId":1001}"#;
        let data = ClientRunningData::new(1001, "10.0.0.5:53124".to_owned());
        assert_eq!(data.to_json(), text);
        assert_eq!(ClientRunningData::from_json(text), Some(data));
    }

    #[test]
    fn other_clients_texts_are_read() {
        let read = |text: &str| ClientRunningData::from_json(text.as_bytes());
        let sharp = read(r#"{"clientId":"1001","address":"10.0.0.5","active":true,"new":1}"#);
        assert_eq!(sharp, Some(ClientRunningData::new(1001, "10.0.0.5".into())));
        let released = read(r#"{"active":false,"address":"a:1","clientId":1001}"#);
        assert!(released.is_some_and(|data| !data.active));
        assert_eq!(read("[]"), None);
        assert_eq!(read(""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_data_or_none(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = ClientRunningData::from_json(&data);
        }

        #[test]
        fn what_is_written_is_read(address in ".{0,40}", active: bool, client_id in 1..=32_767_u16) {
            let data = ClientRunningData { active, address, client_id };
            prop_assert_eq!(ClientRunningData::from_json(&data.to_json()), Some(data));
        }
    }
}
