//! What the files say.

use lockkeeper_core::token::FencingToken;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::host::ClockIdentity;
use crate::clock::BootTime;
use crate::election::LeaderInformation;

/// `lease-<epoch>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) session: Uuid,
    pub(crate) clock: ClockIdentity,
    /// Renewals are in `expires-<epoch>`.
    pub(crate) expires: BootTime,
}

/// `expires-<epoch>`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Expires {
    pub(crate) expires: BootTime,
}

/// `information-<epoch>-<component>`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Published {
    pub(crate) address: String,
    pub(crate) token: FencingToken,
}

impl From<&LeaderInformation> for Published {
    fn from(information: &LeaderInformation) -> Self {
        Published {
            address: information.address.clone(),
            token: information.token,
        }
    }
}

impl From<Published> for LeaderInformation {
    fn from(published: Published) -> Self {
        LeaderInformation {
            address: published.address,
            token: published.token,
        }
    }
}
