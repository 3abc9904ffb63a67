//! How far a source had come, told from its state: for people, from outside the region.

/// The types of state that can be described.
pub(crate) const STATE_TYPES: &[&str] = &[
    super::file::STATE_TYPE,
    super::replayable::STATE_TYPE,
    #[cfg(feature = "canal")]
    super::canal::STATE_TYPE,
    #[cfg(feature = "mq")]
    super::queue::STATE_TYPE,
];

/// Whether the state of this type is that of a source that can be described.
pub(crate) fn is_source(state_type: &str) -> bool {
    STATE_TYPES.contains(&state_type)
}

/// Where the source stood, and how often it went on although it was another one; `None` when the
/// state can't be read.
pub(crate) fn describe(state_type: &str, state: &[u8]) -> Option<(String, u64)> {
    match state_type {
        super::file::STATE_TYPE => super::file::describe(state),
        super::replayable::STATE_TYPE => super::replayable::describe(state),
        #[cfg(feature = "canal")]
        super::canal::STATE_TYPE => super::canal::describe(state),
        #[cfg(feature = "mq")]
        super::queue::STATE_TYPE => super::queue::describe(state),
        _ => None,
    }
}
