//! What most users need beside core's prelude: `use lockkeeper_remote::prelude::*`.

#[cfg(feature = "shared-key")]
pub use crate::SharedKeys;
#[cfg(feature = "tls")]
pub use crate::Tls;
pub use crate::{RemoteBuilder, RemoteBuilderExt, RemoteSettings};
