//! What most users need beside core's prelude: `use lockkeeper_remote::prelude::*`.

pub use crate::{RemoteBuilder, RemoteBuilderExt, RemoteSettings};
