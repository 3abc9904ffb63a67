//! Which boot and which time namespace a reading of the clock belongs to.

use std::fs::{self, File};

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

/// Whether links, locks and listings there are those of another machine: NFS, SMB, CIFS. Others
/// that are not known are not refused.
#[cfg(target_os = "linux")]
pub(crate) fn is_network_file_system(folder: &File) -> bool {
    const NETWORK: [i128; 4] = [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42];
    let kind = rustix::fs::fstatfs(folder).map(|system| i128::from(system.f_type));
    kind.is_ok_and(|kind| NETWORK.contains(&kind))
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_network_file_system(_: &File) -> bool {
    false
}
