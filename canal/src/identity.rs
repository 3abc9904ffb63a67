//! Who a client is: destination, client id, user, password.

use crate::error::CanalError;

/// A destination of a Canal server and the id of the client that follows it.
///
/// The server keeps one position per client id, and one read pointer per destination: **two
/// clients on one destination take each other's rows**, whatever their ids. Use one consumer a
/// destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    destination: String,
    client_id: u16,
}

impl ClientIdentity {
    /// The client id that Canal's own clients use.
    pub const DEFAULT_CLIENT_ID: u16 = 1001;

    /// The identity of client [`DEFAULT_CLIENT_ID`](Self::DEFAULT_CLIENT_ID) on `destination`.
    pub fn new(destination: impl Into<String>) -> Self {
        Self {
            destination: destination.into(),
            client_id: Self::DEFAULT_CLIENT_ID,
        }
    }

    /// The same destination with another client id, 1 to 32767: the server reads it as a Java
    /// `short`.
    ///
    /// # Errors
    /// [`CanalError::InvalidClientId`] outside of that range.
    pub fn with_client_id(self, client_id: u32) -> Result<Self, CanalError> {
        let valid = u16::try_from(client_id)
            .ok()
            .filter(|id| (1..=32_767).contains(id));
        let client_id = valid.ok_or(CanalError::InvalidClientId(client_id))?;
        Ok(Self { client_id, ..self })
    }

    /// The destination's name.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// The client id.
    pub fn client_id(&self) -> u16 {
        self.client_id
    }
}

/// A password. It is printed nowhere: `Debug` shows stars and there is no `Display`.
///
/// Servers below 1.1.8 let every client in whatever its password: keep them on a private network.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A password from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The bytes that are hashed.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(***)")
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_that_is_no_java_short_is_refused() {
        for id in [0, 32_768, 40_000, 70_000, u32::MAX] {
            let error = ClientIdentity::new("example")
                .with_client_id(id)
                .unwrap_err();
            assert_eq!(error, CanalError::InvalidClientId(id));
        }
        let identity = ClientIdentity::new("example")
            .with_client_id(32_767)
            .unwrap();
        assert_eq!(identity.client_id(), 32_767);
    }

    #[test]
    fn a_password_is_not_printed() {
        assert_eq!(format!("{:?}", Password::new("secret")), "Password(***)");
    }
}
