//! The fencing token: who leads, in which order, and whether a caller's view is older or newer.
//!
//! Plain data and one comparison. What *decides* tokens (election, leases) is in
//! `lockkeeper-fencing`. Flink compares its token for equality only; ours is ordered within one
//! [`Lineage`], so that an endpoint can tell "you are stale" from "I am stale".

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The history in which epochs count up: one coordination store from its creation on.
///
/// Epochs of two lineages cannot be compared: a new data directory or a restored backup starts to
/// count anew. ZooKeeper's lineage is the parent node's czxid, etcd's the cluster id, a lease
/// folder's its uuid. On the wire and in files it is written as a [`Uuid`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Uuid", into = "Uuid")]
pub struct Lineage(u128);

impl Lineage {
    /// The lineage with exactly these 128 bits.
    #[must_use]
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// The 128 bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl From<Uuid> for Lineage {
    fn from(id: Uuid) -> Self {
        Self(id.as_u128())
    }
}

impl From<Lineage> for Uuid {
    fn from(lineage: Lineage) -> Self {
        Self::from_u128(lineage.0)
    }
}

impl From<u128> for Lineage {
    fn from(bits: u128) -> Self {
        Self(bits)
    }
}

impl From<u64> for Lineage {
    fn from(bits: u64) -> Self {
        Self(u128::from(bits))
    }
}

impl From<i64> for Lineage {
    /// Takes the 64 bits as they are (ZooKeeper's czxid is signed).
    fn from(bits: i64) -> Self {
        Self::from(bits.cast_unsigned())
    }
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lineage({:x})", self.0)
    }
}

/// Names one leadership. Flink's counterpart is the leader session id.
///
/// Two tokens are the same only if all three parts are equal. Within one lineage the higher epoch
/// is the later leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FencingToken {
    /// The history in which `epoch` counts.
    pub lineage: Lineage,
    /// The number of the leadership, rising within a lineage.
    pub epoch: u64,
    /// The leader's own session: tells two holders apart that claim one epoch.
    pub session: Uuid,
}

/// How a caller's token relates to the endpoint's own, see [`FencingToken::relation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRelation {
    /// All parts are equal.
    Same,
    /// The other token is of an earlier leadership: "you are stale".
    OtherIsStale,
    /// The other token is of a later leadership: "I am stale", time to step down.
    OwnIsStale,
    /// One lineage and epoch, two sessions: neither is newer.
    OtherSession,
    /// The epochs count in two histories and cannot be compared.
    OtherLineage,
}

impl FencingToken {
    /// A token with these parts.
    #[must_use]
    pub fn new(lineage: impl Into<Lineage>, epoch: u64, session: Uuid) -> Self {
        Self {
            lineage: lineage.into(),
            epoch,
            session,
        }
    }

    /// How `other` relates to this token, seen from the side that holds `self`.
    #[must_use]
    pub fn relation(&self, other: &Self) -> TokenRelation {
        if self.lineage != other.lineage {
            return TokenRelation::OtherLineage;
        }
        match other.epoch.cmp(&self.epoch) {
            std::cmp::Ordering::Less => TokenRelation::OtherIsStale,
            std::cmp::Ordering::Greater => TokenRelation::OwnIsStale,
            std::cmp::Ordering::Equal if self.session == other.session => TokenRelation::Same,
            std::cmp::Ordering::Equal => TokenRelation::OtherSession,
        }
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "epoch {} session {} lineage {}",
            self.epoch, self.session, self.lineage
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(lineage: u64, epoch: u64, session: u128) -> FencingToken {
        FencingToken::new(lineage, epoch, Uuid::from_u128(session))
    }

    #[test]
    fn relation_tells_who_is_stale() {
        let own = token(1, 5, 9);
        assert_eq!(own.relation(&token(1, 5, 9)), TokenRelation::Same);
        assert_eq!(own.relation(&token(1, 4, 9)), TokenRelation::OtherIsStale);
        assert_eq!(own.relation(&token(1, 6, 9)), TokenRelation::OwnIsStale);
        assert_eq!(own.relation(&token(1, 5, 8)), TokenRelation::OtherSession);
        assert_eq!(own.relation(&token(2, 9, 9)), TokenRelation::OtherLineage);
    }

    #[test]
    fn a_signed_lineage_keeps_its_bits() {
        assert_eq!(Lineage::from(-1_i64), Lineage::from(u64::MAX));
    }

    #[test]
    fn a_token_survives_the_codec() {
        let token = token(u64::MAX, u64::MAX, u128::MAX);
        let bytes = rmp_serde::to_vec(&token).unwrap();
        assert_eq!(
            rmp_serde::from_slice::<FencingToken>(&bytes).unwrap(),
            token
        );
    }
}
