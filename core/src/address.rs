//! Where an endpoint lives: `lockkeeper://host:port/endpoint-id`, or `lockkeeper-local:///endpoint-id`.
//!
//! Routing inside a process is by [`EndpointId`] alone, never by the host name that a caller used:
//! an endpoint behind NAT or a port forward is reached under any address that leads to its process
//! (FLINK-2821).

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::error::{RpcError, RpcErrorKind};

/// The scheme of addresses that other processes can connect to.
pub const REMOTE_SCHEME: &str = "lockkeeper";
/// The scheme of addresses that are valid inside one process only.
pub const LOCAL_SCHEME: &str = "lockkeeper-local";
/// The longest endpoint id, in bytes.
pub const MAX_ENDPOINT_ID_BYTES: usize = 128;
/// The longest host name, in bytes (DNS allows 253).
pub const MAX_HOST_BYTES: usize = 253;

/// The name of an endpoint, unique within its service while the endpoint lives.
///
/// 1 to 128 bytes of ASCII letters, digits and `_ - . :`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EndpointId(Arc<str>);

impl EndpointId {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`RpcErrorKind::InvalidAddress`] if it is empty, too long or has another character.
    pub fn new(name: &str) -> Result<Self, RpcError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
        if name.is_empty() || name.len() > MAX_ENDPOINT_ID_BYTES || !name.bytes().all(allowed) {
            return Err(RpcError::new(
                RpcErrorKind::InvalidAddress,
                format!(
                    "endpoint id {:?} must be 1 to {MAX_ENDPOINT_ID_BYTES} ASCII letters, digits \
                     or one of _ - . :",
                    name.chars().take(MAX_ENDPOINT_ID_BYTES).collect::<String>()
                ),
            ));
        }
        Ok(Self(name.into()))
    }

    /// `prefix` with a random end, unique in practice: for endpoints that nobody looks up by name.
    ///
    /// # Errors
    /// As [`new`](Self::new), for the prefix.
    pub fn random(prefix: &str) -> Result<Self, RpcError> {
        Self::new(&format!("{prefix}-{}", uuid::Uuid::new_v4().simple()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EndpointId {
    type Error = RpcError;

    fn try_from(name: String) -> Result<Self, RpcError> {
        Self::new(&name)
    }
}

impl From<EndpointId> for String {
    fn from(id: EndpointId) -> Self {
        id.as_str().to_owned()
    }
}

impl std::borrow::Borrow<str> for EndpointId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The host and port of a process, as it advertises them.
///
/// Host names are lower-cased; an IPv6 address is kept without brackets and shown with them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authority {
    host: Arc<str>,
    port: u16,
}

impl Authority {
    /// Checks a host name or IP address (without brackets) and joins it with a port.
    ///
    /// # Errors
    /// [`RpcErrorKind::InvalidAddress`] for an empty or over-long host, or one with characters that
    /// no host name has.
    pub fn new(host: &str, port: u16) -> Result<Self, RpcError> {
        let is_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let is_name = !host.is_empty() && host.len() <= MAX_HOST_BYTES && host.bytes().all(allowed);
        if !is_ipv6 && !is_name {
            let shown = host.chars().take(MAX_HOST_BYTES).collect::<String>();
            return Err(RpcError::new(
                RpcErrorKind::InvalidAddress,
                format!("{shown:?} is neither a host name nor an IP address"),
            ));
        }
        Ok(Self {
            host: host.to_ascii_lowercase().into(),
            port,
        })
    }

    /// The host name, or the IP address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl From<std::net::SocketAddr> for Authority {
    fn from(address: std::net::SocketAddr) -> Self {
        Self {
            host: address.ip().to_string().into(),
            port: address.port(),
        }
    }
}

impl FromStr for Authority {
    type Err = RpcError;

    fn from_str(text: &str) -> Result<Self, RpcError> {
        let shown = || text.chars().take(MAX_HOST_BYTES).collect::<String>();
        let invalid = |why: &str| {
            RpcError::new(
                RpcErrorKind::InvalidAddress,
                format!("{:?} is no host:port: {why}", shown()),
            )
        };
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| invalid("the port is missing"))?;
        let port = port
            .parse()
            .map_err(|_| invalid("the port must be 0 to 65535"))?;
        match host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => Self::new(v6, port),
            Some(_) => Err(invalid("brackets hold an IPv6 address")),
            None if host.contains(':') => Err(invalid("an IPv6 address needs brackets")),
            None => Self::new(host, port),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The address of an endpoint.
///
/// ```
/// use lockkeeper_core::RpcAddress;
/// let address: RpcAddress = "lockkeeper://db.example:7000/orders".parse()?;
/// assert_eq!(address.authority().map(|a| a.port()), Some(7000));
/// assert_eq!(address.endpoint().as_str(), "orders");
/// # Ok::<(), lockkeeper_core::RpcError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RpcAddress {
    authority: Option<Authority>,
    endpoint: EndpointId,
}

impl RpcAddress {
    /// An address that is valid inside this process only.
    #[must_use]
    pub fn local(endpoint: EndpointId) -> Self {
        Self {
            authority: None,
            endpoint,
        }
    }

    /// An address that other processes can connect to.
    #[must_use]
    pub fn remote(authority: Authority, endpoint: EndpointId) -> Self {
        Self {
            authority: Some(authority),
            endpoint,
        }
    }

    /// Host and port; `None` for an address inside this process.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// The host, or `""` for an address inside this process (as Flink's local service has it).
    #[must_use]
    pub fn hostname(&self) -> &str {
        self.authority.as_ref().map_or("", Authority::host)
    }

    /// The endpoint's name.
    #[must_use]
    pub fn endpoint(&self) -> &EndpointId {
        &self.endpoint
    }
}

impl FromStr for RpcAddress {
    type Err = RpcError;

    fn from_str(text: &str) -> Result<Self, RpcError> {
        let invalid = || {
            let shown = text.chars().take(MAX_HOST_BYTES).collect::<String>();
            RpcError::new(
                RpcErrorKind::InvalidAddress,
                format!(
                    "{shown:?} is no address: write {REMOTE_SCHEME}://host:port/endpoint-id or \
                     {LOCAL_SCHEME}:///endpoint-id"
                ),
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(invalid)?;
        let (authority, endpoint) = rest.split_once('/').ok_or_else(invalid)?;
        match (scheme, authority) {
            (LOCAL_SCHEME, "") => Ok(Self::local(EndpointId::new(endpoint)?)),
            (REMOTE_SCHEME, _) => Ok(Self::remote(authority.parse()?, EndpointId::new(endpoint)?)),
            _ => Err(invalid()),
        }
    }
}

impl TryFrom<String> for RpcAddress {
    type Error = RpcError;

    fn try_from(text: String) -> Result<Self, RpcError> {
        text.parse()
    }
}

impl From<RpcAddress> for String {
    fn from(address: RpcAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for RpcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.authority {
            Some(authority) => write!(f, "{REMOTE_SCHEME}://{authority}/{}", self.endpoint),
            None => write!(f, "{LOCAL_SCHEME}:///{}", self.endpoint),
        }
    }
}

impl fmt::Debug for RpcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_they_are_parsed() {
        for text in [
            "lockkeeper://127.0.0.1:7000/counter",
            "lockkeeper://[::1]:7000/counter",
            "lockkeeper://db.example:0/a.b-c_d:1",
            "lockkeeper-local:///counter",
        ] {
            assert_eq!(text.parse::<RpcAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn host_names_are_lower_cased() {
        let address: RpcAddress = "lockkeeper://DB.Example:1/x".parse().unwrap();
        assert_eq!(address.hostname(), "db.example");
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in [
            "",
            "counter",
            "http://a:1/x",
            "lockkeeper://a/x",
            "lockkeeper://a:99999/x",
            "lockkeeper://:1/x",
            "lockkeeper://a:1/",
            "lockkeeper://a:1/x y",
            "lockkeeper://::1:7000/x",
            "lockkeeper://[nope]:7000/x",
            "lockkeeper-local://a:1/x",
            "lockkeeper://a:1",
        ] {
            let error = text.parse::<RpcAddress>().unwrap_err();
            assert_eq!(error.kind(), RpcErrorKind::InvalidAddress, "{text}");
        }
    }
}
