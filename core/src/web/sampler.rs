//! The thread that takes the values of the plots.
//!
//! A thread, not a task: the console needs no runtime, and an arbiter that is blocked does not make
//! a gap in the picture.

use std::{
    io,
    sync::{
        Weak,
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
};

use super::console::{Inner, SAMPLE_EVERY};

/// The recorder's upkeep is done after so many samples.
const UPKEEP_EVERY: u64 = 10;

/// Ends the thread when it is dropped.
pub(super) struct Sampler {
    _end: SyncSender<()>,
}

impl Sampler {
    pub(super) fn start(console: Weak<Inner>) -> io::Result<Self> {
        let (end, ended) = sync_channel::<()>(0);
        thread::Builder::new()
            .name("lockkeeper-console".to_owned())
            .spawn(move || {
                let mut samples = 0_u64;
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SAMPLE_EVERY) {
                    let Some(console) = console.upgrade() else {
                        return;
                    };
                    console.sample();
                    samples += 1;
                    if let Some(upkeep) = &console.upkeep
                        && samples.is_multiple_of(UPKEEP_EVERY)
                    {
                        upkeep();
                    }
                }
            })?;
        Ok(Self { _end: end })
    }
}
