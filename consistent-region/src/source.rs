//! Start operators that read from the outside world and can be read again after a reset.
//!
//! | source | goes back by | for |
//! |---|---|---|
//! | [`FileSource`](file::FileSource) | seeking | files of lines |
//! | `CanalSource` (feature `canal`) | recognising what is delivered again | row changes of MySQL and MariaDB |
//! | `QueueSource`, `KafkaSource` (features `mq`, `kafka`) | seeking | message queues with offsets |
//! | [`ReplayableStart`](replayable::ReplayableStart) | a buffer | what can't be read again: requests, messages, sensors |
//!
//! - [`bad_row`]: what becomes of a row that can't be taken; [`change`]: of a source that is another one
//! - [`commands`]: try again, leave a row out, go on further down
//! - [`history`], [`replay`], [`intake`]: how what is delivered again is recognised

pub mod bad_row;
#[cfg(feature = "canal")]
pub mod canal;
pub mod change;
pub mod commands;
mod describe;
pub mod file;
pub mod history;
pub mod intake;
#[cfg(feature = "mq")]
pub mod queue;
pub mod replay;
pub mod replayable;
#[cfg(feature = "canal")]
mod spool;

#[cfg(feature = "_fuzzing")]
pub(crate) use describe::STATE_TYPES;
pub(crate) use describe::{describe, is_source};
#[cfg(feature = "_fuzzing")]
pub(crate) use spool::Segment;
