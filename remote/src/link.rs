//! A connection with its socket: the shell around [`crate::connection`].
//!
//! [`introduce`] exchanges prefaces, [`LinkHandle`] is what callers hold, and the [`task`] on the
//! I/O thread feeds the machine.

mod ask_room;
mod asked;
mod handle;
mod introduction;
mod securing;
mod served;
mod stream;
mod task;

pub(crate) use asked::Asked;
pub(crate) use handle::{LinkHandle, Opened, Peer, Request, Room, WHOLE_LIMIT};
pub(crate) use introduction::{IntroductionError, Role, introduce};
pub(crate) use securing::{secure_accepted, secure_dialled};
pub(crate) use stream::BoxStream;
pub(crate) use task::{Endpoints, LinkTask};
