//! Named points of a round, where tests kill or stop the process.
//!
//! The region calls its [`Hook`] whenever it reaches a [`Point`]. Without a hook that costs one
//! comparison. Chaos tests end or stop their own process there, which is how "killed between the
//! manifest and the commit" becomes a test that can be repeated.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A place in the life of a round. Written in kebab case: `after-manifest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Point {
    /// A start operator has handed on tuples.
    Emitting,
    /// A worker has begun to drain.
    Draining,
    /// A worker writes state and stages output.
    Staging,
    /// The coordinator has every worker's result and is about to publish the manifest.
    BeforeManifest,
    /// The manifest is published, nobody was told.
    AfterManifest,
    /// A worker knows that the cut is complete and is about to commit.
    BeforeCommit,
    /// A worker has committed and not yet acknowledged anything to its source.
    AfterCommitBeforeAck,
    /// A worker is setting its instances back.
    DuringReset,
    /// The coordinator's record is persisted, the message that follows from it is not sent.
    BetweenRecordAndMessage,
    /// A worker has checked its lease and is about to fetch from its source.
    BetweenCheckAndGet,
    /// A worker has checked its lease and is about to acknowledge to its source.
    BetweenCheckAndAck,
    /// A worker has checked its lease and is about to stage output.
    BetweenCheckAndStage,
    /// A worker has checked its lease and is about to commit.
    BetweenCheckAndCommit,
    /// A worker has checked its lease and is about to hand tuples to another worker.
    BetweenCheckAndHandOver,
}

impl Point {
    /// Every point.
    pub const ALL: [Self; 14] = [
        Self::Emitting,
        Self::Draining,
        Self::Staging,
        Self::BeforeManifest,
        Self::AfterManifest,
        Self::BeforeCommit,
        Self::AfterCommitBeforeAck,
        Self::DuringReset,
        Self::BetweenRecordAndMessage,
        Self::BetweenCheckAndGet,
        Self::BetweenCheckAndAck,
        Self::BetweenCheckAndStage,
        Self::BetweenCheckAndCommit,
        Self::BetweenCheckAndHandOver,
    ];

    /// Its name in kebab case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Emitting => "emitting",
            Self::Draining => "draining",
            Self::Staging => "staging",
            Self::BeforeManifest => "before-manifest",
            Self::AfterManifest => "after-manifest",
            Self::BeforeCommit => "before-commit",
            Self::AfterCommitBeforeAck => "after-commit-before-ack",
            Self::DuringReset => "during-reset",
            Self::BetweenRecordAndMessage => "between-record-and-message",
            Self::BetweenCheckAndGet => "between-check-and-get",
            Self::BetweenCheckAndAck => "between-check-and-ack",
            Self::BetweenCheckAndStage => "between-check-and-stage",
            Self::BetweenCheckAndCommit => "between-check-and-commit",
            Self::BetweenCheckAndHandOver => "between-check-and-hand-over",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Point {
    type Err = UnknownPoint;

    fn from_str(text: &str) -> Result<Self, UnknownPoint> {
        Self::ALL
            .into_iter()
            .find(|point| point.name() == text)
            .ok_or_else(|| UnknownPoint(text.to_owned()))
    }
}

/// The text names no [`Point`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no point of a round; the points are the names of Point::ALL in kebab case")]
pub struct UnknownPoint(pub String);

/// What is called at each point; by default nothing.
///
/// It may be called on an arbiter: it must not wait. Stopping or ending the process is what it is
/// for.
#[derive(Clone, Default)]
pub struct Hook(Option<Arc<dyn Fn(Point) + Send + Sync>>);

impl Hook {
    /// Calls `at` whenever the region reaches a point.
    pub fn new(at: impl Fn(Point) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(at)))
    }

    /// The region is at `point`.
    pub fn at(&self, point: Point) {
        if let Some(call) = &self.0 {
            call(point);
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Hook(set)"
        } else {
            "Hook(none)"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_point_is_read_back_from_its_name() {
        for point in Point::ALL {
            assert_eq!(point.to_string().parse::<Point>(), Ok(point));
        }
        assert_eq!(
            "elsewhere".parse::<Point>(),
            Err(UnknownPoint("elsewhere".to_owned()))
        );
    }

    #[test]
    fn a_hook_is_told_the_point_and_the_default_does_nothing() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hook = Hook::new({
            let seen = Arc::clone(&seen);
            move |point| seen.lock().unwrap().push(point)
        });
        hook.at(Point::AfterManifest);
        Hook::default().at(Point::Emitting);
        assert_eq!(*seen.lock().unwrap(), [Point::AfterManifest]);
    }
}
