//! Slices that are shared where they would be copied often, as serde sees them: like a vector.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    slice: &Arc<[T]>,
    to: S,
) -> Result<S::Ok, S::Error> {
    (**slice).serialize(to)
}

pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Arc<[T]>, D::Error> {
    Vec::deserialize(from).map(Arc::from)
}
