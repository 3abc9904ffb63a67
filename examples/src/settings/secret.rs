//! Passwords: by a file of their own or by the environment, never in settings or arguments.

use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// What the reader knows a secret by.
pub(super) const NAME: &str = "Secret";

/// A password. Never shown, and never written.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// The password itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The first line of a file.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(file: &Path) -> std::io::Result<Self> {
        let text = std::fs::read_to_string(file)?;
        Ok(Self(text.lines().next().unwrap_or_default().to_owned()))
    }

    /// The one that was given, or the first line of the file.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn given(secret: Option<&Self>, file: Option<&Path>) -> anyhow::Result<Option<Self>> {
        match (secret, file) {
            (Some(secret), _) => Ok(Some(secret.clone())),
            (None, Some(file)) => Self::read(file)
                .map(Some)
                .with_context(|| format!("the password file {}", file.display())),
            (None, None) => Ok(None),
        }
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// As if there was none.
impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}
