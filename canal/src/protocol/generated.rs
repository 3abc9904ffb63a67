//! What prost makes of `packet.proto` and `entry.proto`. Do not edit: change the schema and run
//! the test `generated_code_is_what_the_schemas_give` with `LOCKKEEPER_REGENERATE=1`.

/// Packets: what travels in frames.
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic
)]
pub(crate) mod packet {
    include!("generated/canal.packet.rs");
}

/// Entries: what travels in batches.
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic
)]
pub(crate) mod entry {
    include!("generated/canal.entry.rs");
}
