//! The generations of Canal servers, as far as a client can tell them apart.

/// Which server to behave like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ServerVersion {
    /// Up to 1.0.26: no seeds in the handshake, no passwords, and every error packet closes the
    /// connection.
    V1_0,
    /// 1.1.0 to 1.1.3: no seeds in the handshake and no passwords.
    V1_1_3,
    /// 1.1.4 to 1.1.7: a wrong password is answered with an error **and then with success**, and the
    /// session works.
    #[default]
    V1_1_7,
    /// 1.1.8: a wrong password is answered with an error only; the client may try again.
    V1_1_8,
}

impl ServerVersion {
    pub(crate) fn has_passwords(self) -> bool {
        matches!(self, Self::V1_1_7 | Self::V1_1_8)
    }

    pub(crate) fn lets_everyone_in(self) -> bool {
        matches!(self, Self::V1_1_7)
    }

    pub(crate) fn closes_after_an_error(self) -> bool {
        matches!(self, Self::V1_0)
    }
}
