//! What the election reads and changes in a Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use lockkeeper_core::token::Lineage;
use uuid::Uuid;

use super::LONGEST_COMPONENT;
use crate::election::{ComponentId, ElectionError, LeaderInformation};

/// The annotation of a component.
///
/// # Errors
/// [`ElectionError::InvalidComponent`] for an id that is no name of an annotation.
pub(super) fn annotation(component: &ComponentId) -> Result<String, ElectionError> {
    let name = component.to_string();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.len() > LONGEST_COMPONENT || !is_end(bytes.first()) || !is_end(bytes.last()) {
        return Err(ElectionError::InvalidComponent { name });
    }
    Ok(format!("lockkeeper.leader/{name}"))
}

pub(super) fn information(
    lease: &Lease,
    component: &ComponentId,
) -> Result<Option<LeaderInformation>, ElectionError> {
    let annotation = annotation(component)?;
    let annotations = lease.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|all| all.get(&annotation)) else {
        return Ok(None);
    };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|error| ElectionError::Corrupt {
            name: annotation,
            reason: error.to_string(),
        })
}

/// Who holds it: nobody, if the holder has released it.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

/// The holder's token: none, while there is no holder of ours.
pub(super) fn is_held_by(lease: &Lease, information: &LeaderInformation) -> bool {
    holder(lease) == Some(information.token.session.to_string().as_str())
}

pub(super) fn transitions(lease: &Lease) -> i32 {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.lease_transitions).unwrap_or(0)
}

/// # Errors
/// [`ElectionError::Corrupt`] for a uid that is none.
pub(super) fn lineage(lease: &Lease) -> Result<Lineage, ElectionError> {
    let corrupt = |reason: String| ElectionError::Corrupt {
        name: "the Lease's uid".to_owned(),
        reason,
    };
    let uid = lease.metadata.uid.as_deref();
    let uid = uid.ok_or_else(|| corrupt("it is missing".to_owned()))?;
    let uid = Uuid::parse_str(uid).map_err(|error| corrupt(error.to_string()))?;
    Ok(Lineage::from(uid))
}

/// The Lease as its first holder creates it.
pub(super) fn first(name: &str, id: Uuid, session: Duration) -> Lease {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    };
    taken(lease, id, session)
}

/// The Lease as the next holder writes it: one transition more, and nothing published.
pub(super) fn taken(mut lease: Lease, id: Uuid, session: Duration) -> Lease {
    let transitions = transitions(&lease).saturating_add(1);
    let seconds = session.as_millis().div_ceil(1_000);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(id.to_string()),
        lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        lease_transitions: Some(transitions),
        acquire_time: Some(MicroTime(Timestamp::now())),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    });
    if let Some(annotations) = &mut lease.metadata.annotations {
        annotations.retain(|name, _| !name.starts_with("lockkeeper.leader/"));
    }
    lease
}

pub(super) fn renewed(mut lease: Lease) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.renew_time = Some(MicroTime(Timestamp::now()));
    }
    lease
}

/// The Lease as a holder leaves it behind in peace.
pub(super) fn released(mut lease: Lease) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.holder_identity = None;
    }
    if let Some(annotations) = &mut lease.metadata.annotations {
        annotations.retain(|name, _| !name.starts_with("lockkeeper.leader/"));
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Duration = Duration::from_millis(1_500);

    #[test]
    fn each_holder_counts_one_transition_more_and_publishes_anew() {
        let (first_id, next_id) = (Uuid::new_v4(), Uuid::new_v4());
        let mut lease = first("orders", first_id, SESSION);
        assert_eq!(transitions(&lease), 1);
        assert_eq!(lease.spec.as_ref().unwrap().lease_duration_seconds, Some(2));
        let annotations = [("lockkeeper.leader/a", "{}"), ("other", "kept")];
        let annotations = annotations.map(|(name, text)| (name.to_owned(), text.to_owned()));
        lease.metadata.annotations = Some(annotations.into());
        let next = taken(released(lease), next_id, SESSION);
        assert_eq!(transitions(&next), 2);
        assert_eq!(holder(&next), Some(next_id.to_string().as_str()));
        let left = next.metadata.annotations.unwrap();
        assert_eq!(left.keys().collect::<Vec<_>>(), ["other"]);
    }

    #[test]
    fn a_component_must_fit_into_an_annotation() {
        for name in ["a-", "_a", &"a".repeat(64)] {
            let component = ComponentId::new(name).unwrap();
            assert!(annotation(&component).is_err(), "{name}");
        }
        let component = ComponentId::new("a.b-c").unwrap();
        assert_eq!(annotation(&component).unwrap(), "lockkeeper.leader/a.b-c");
    }
}
