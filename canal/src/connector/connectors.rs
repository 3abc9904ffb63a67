//! Several destinations at once.

use std::collections::BTreeMap;

use actix::{Actor as _, Addr};
use futures_util::future::join_all;

use super::actor::{CanalConnector, GetStatus, Stop};
use super::status::{ConnectorEnd, ConnectorStatus};
use crate::error::CanalError;

/// A [`CanalConnector`] a destination, each with a connection, a position and a supervision of
/// its own: one that fails or stalls does not hold up the others.
#[derive(Debug, Default)]
pub struct CanalConnectors {
    connectors: BTreeMap<String, Addr<CanalConnector>>,
}

impl CanalConnectors {
    /// Makes a connector for each destination, and starts all of them on this arbiter once each
    /// could be made.
    ///
    /// # Errors
    /// What `make` says, before any is started; [`CanalError::InvalidArgument`] for a destination
    /// that is there twice: two consumers would take each other's rows.
    pub fn start<D: AsRef<str>>(
        destinations: impl IntoIterator<Item = D>,
        mut make: impl FnMut(&str) -> Result<CanalConnector, CanalError>,
    ) -> Result<Self, CanalError> {
        let mut made = BTreeMap::new();
        for destination in destinations {
            let destination = destination.as_ref();
            let connector = make(destination)?;
            if made.insert(destination.to_owned(), connector).is_some() {
                return Err(CanalError::InvalidArgument(format!(
                    "destination `{destination}` is there twice"
                )));
            }
        }
        let connectors = made
            .into_iter()
            .map(|(destination, connector)| (destination, connector.start()))
            .collect();
        Ok(Self { connectors })
    }

    /// The connector of a destination.
    pub fn get(&self, destination: &str) -> Option<&Addr<CanalConnector>> {
        self.connectors.get(destination)
    }

    /// The destinations, sorted.
    pub fn destinations(&self) -> impl Iterator<Item = &str> {
        self.connectors.keys().map(String::as_str)
    }

    /// Each connector's status; one whose arbiter has ended is left out.
    pub async fn statuses(&self) -> BTreeMap<String, ConnectorStatus> {
        let asked = self.connectors.iter().map(async |(destination, address)| {
            let status = address.send(GetStatus).await.ok()?;
            Some((destination.clone(), status))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Stops all of them in order, at the same time, and says how each has ended.
    pub async fn stop(self) -> BTreeMap<String, ConnectorEnd> {
        let stopped = self
            .connectors
            .into_iter()
            .map(async |(destination, address)| {
                // The actor may have ended before.
                let end = address.send(Stop).await.unwrap_or(ConnectorEnd::Stopped);
                (destination, end)
            });
        join_all(stopped).await.into_iter().collect()
    }
}
