//! Whether this client is the active one of those that share a destination and a client id.
//!
//! A connector that is given a running monitor asks here right before each effect: before a batch
//! is handed out, before an acknowledgement is sent. What counts is the clock at that moment, not
//! a message of the monitor that may come late, so that a client which was held for a while (by
//! SIGSTOP, a long pause, a machine that slept) does nothing more once its turn is over.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::error::CanalError;

/// What a client is among those that share a destination and a client id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientRole {
    /// This client is the one that is served.
    Active,
    /// Another one is served; this one waits.
    Standby,
}

/// The time since the machine's boot, time asleep included. Only compared within a process.
pub(crate) fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

/// One turn of being active. It ends at its deadline unless it is extended before.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    /// Nanoseconds since boot; 0 once it is over.
    until: Arc<AtomicU64>,
}

impl Activity {
    pub(crate) fn new(until: Duration) -> Self {
        Self {
            until: Arc::new(AtomicU64::new(nanoseconds(until))),
        }
    }

    /// Until when it lasts.
    pub(crate) fn until(&self) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::Acquire))
    }

    pub(crate) fn is_valid(&self, now: Duration) -> bool {
        now < self.until()
    }

    /// Lasts until `until`, if it is not over `now`. A turn that is over never comes back.
    pub(crate) fn extend(&self, now: Duration, until: Duration) -> bool {
        let extended = |current: u64| {
            let lives = now < Duration::from_nanos(current);
            lives.then(|| nanoseconds(until).max(current))
        };
        let changed = self
            .until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, extended);
        changed.is_ok()
    }

    pub(crate) fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Whether this is that turn, not only an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.until, &other.until)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What a monitor says to its connector.
#[derive(Debug, Clone, Default)]
pub(crate) struct RoleView {
    /// Whether it is known who is active.
    pub(crate) decided: bool,
    pub(crate) activity: Option<Activity>,
    /// Who is active, as it calls itself.
    pub(crate) holder: Option<String>,
}

/// What a connector says to its monitor.
#[derive(Debug)]
pub(crate) enum Report {
    /// It wants to be active.
    Join,
    /// It does not want to be active any longer.
    Resign,
    /// Connected to a Canal server, from this address.
    Connected(SocketAddr),
    /// No Canal server could be connected to.
    ConnectFailed,
}

/// A connector's side of its monitor.
#[derive(Debug, Clone)]
pub(crate) struct RoleHandle {
    view: watch::Receiver<RoleView>,
    reports: mpsc::UnboundedSender<Report>,
    /// Keeps the monitor.
    _owner: Arc<dyn Any + Send + Sync>,
}

impl RoleHandle {
    pub(crate) fn new(
        view: watch::Receiver<RoleView>,
        reports: mpsc::UnboundedSender<Report>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            view,
            reports,
            _owner: owner,
        }
    }

    /// The monitor may be gone: then the turn ends by its deadline.
    pub(crate) fn report(&self, report: Report) {
        let _ = self.reports.send(report);
    }

    /// The present turn, or who has it.
    pub(crate) fn check(&self, destination: &str) -> Result<Activity, CanalError> {
        let view = self.view.borrow();
        match &view.activity {
            Some(activity) if activity.is_valid(boot_time()) => Ok(activity.clone()),
            _ => Err(CanalError::Standby {
                destination: destination.to_owned(),
                holder: view.holder.clone(),
            }),
        }
    }

    /// Until it is known who is active.
    pub(crate) async fn decided(&mut self, limit: Duration) -> Result<(), CanalError> {
        match tokio::time::timeout(limit, self.view.wait_for(|view| view.decided)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(monitor_is_gone()),
            Err(_) => Err(CanalError::ZooKeeper(format!(
                "it did not say within {limit:?} which client is the active one"
            ))),
        }
    }

    /// Until this client is active.
    pub(crate) async fn active(&mut self) -> Result<(), CanalError> {
        let active = |view: &RoleView| {
            let activity = view.activity.as_ref();
            activity.is_some_and(|activity| activity.is_valid(boot_time()))
        };
        match self.view.wait_for(active).await {
            Ok(_) => Ok(()),
            Err(_) => Err(monitor_is_gone()),
        }
    }

    /// Until `activity` is over.
    pub(crate) async fn ended(&mut self, activity: &Activity) {
        loop {
            let now = boot_time();
            if !activity.is_valid(now) {
                return;
            }
            let rest = activity.until().saturating_sub(now);
            let other = |view: &RoleView| !view.activity.as_ref().is_some_and(|a| a.is(activity));
            tokio::select! {
                gone = self.view.wait_for(other) => if gone.is_ok() { return },
                () = tokio::time::sleep(rest) => {}
            }
            // Without a monitor `wait_for` fails at once: the deadline is what is left.
            if self.view.has_changed().is_err() {
                tokio::time::sleep(rest).await;
            }
        }
    }
}

fn monitor_is_gone() -> CanalError {
    CanalError::ZooKeeper("the running monitor has ended".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_turn_that_is_over_is_not_extended() {
        let activity = Activity::new(seconds(10));
        assert!(activity.extend(seconds(9), seconds(14)));
        assert!(activity.is_valid(seconds(13)));
        assert!(!activity.extend(seconds(14), seconds(20)), "too late");
        assert!(!activity.is_valid(seconds(15)));
    }

    #[test]
    fn an_answer_that_was_sent_earlier_does_not_shorten_a_turn() {
        let activity = Activity::new(seconds(10));
        assert!(activity.extend(seconds(1), seconds(5)));
        assert_eq!(activity.until(), seconds(10));
        activity.end();
        assert!(!activity.extend(seconds(1), seconds(50)));
    }
}
