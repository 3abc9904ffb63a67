//! Which boot and which time namespace a reading of the clock belongs to.

use std::fs;

use serde::{Deserialize, Serialize};

/// Readings of the clock are comparable only if both parts are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ClockIdentity {
    pub(crate) boot: String,
    pub(crate) time_namespace: String,
}

impl ClockIdentity {
    pub(crate) fn of_this_process() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/time");
        let time_namespace = namespace
            .map(|link| link.display().to_string())
            .unwrap_or_default();
        ClockIdentity {
            boot: boot.trim().to_owned(),
            time_namespace,
        }
    }
}
