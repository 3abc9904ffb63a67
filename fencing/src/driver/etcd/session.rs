//! One candidate: a lease, and a key that lives as long.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, LeaseKeepAliveStream, LeaseKeeper, PutOptions,
    SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse, WatchOptions,
};
use lockkeeper_core::token::Lineage;
use uuid::Uuid;

use super::Etcd;
use crate::driver::candidate::{Ended, Session, SessionFactory, Turn};
use crate::election::{ComponentId, ElectionError, LeaderInformation};

pub(crate) struct EtcdSession {
    options: Etcd,
    client: Client,
    lease: i64,
    length: Duration,
    key: String,
    /// The create revision of the candidate's key.
    revision: i64,
    lineage: Lineage,
    /// Taken during a renewal: one that was given up must not leave its answer to the next one.
    keep_alive: Option<(LeaseKeeper, LeaseKeepAliveStream)>,
}

impl SessionFactory for Etcd {
    type Session = EtcdSession;

    async fn open(&self, id: Uuid) -> Result<EtcdSession, ElectionError> {
        open(self, id)
            .await
            .map_err(|error| ElectionError::unavailable("opening a session", error))
    }
}

async fn open(options: &Etcd, id: Uuid) -> Result<EtcdSession, Error> {
    let mut client = options.connect().await?;
    let seconds = options.session.as_millis().div_ceil(1_000);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let granted = client.lease_grant(seconds, None).await?;
    let lease = granted.id();
    let key = format!("{}{lease:016x}", options.candidates());
    let leased = PutOptions::new().with_lease(lease);
    let put = client
        .put(key.clone(), id.to_string(), Some(leased))
        .await?;
    let missing = || Error::Internal("an answer without a header".to_owned());
    let header = put.header().ok_or_else(missing)?;
    let (revision, cluster) = (header.revision(), header.cluster_id());
    let lineage = lineage(&mut client, options, cluster).await?;
    Ok(EtcdSession {
        options: options.clone(),
        client,
        lease,
        length: Duration::from_secs(granted.ttl().unsigned_abs()),
        key,
        revision,
        lineage,
        keep_alive: None,
    })
}

/// The cluster's id is made of its configuration: one that lost its data has the same again. So the
/// first candidate of all leaves a mark of its own. (A restored backup has the mark, and is told by
/// its new id.)
async fn lineage(client: &mut Client, options: &Etcd, cluster: u64) -> Result<Lineage, Error> {
    let (key, new) = (options.lineage(), Uuid::new_v4());
    let absent = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
    let mark = TxnOp::put(key.clone(), new.to_string(), None);
    let look = TxnOp::get(key.clone(), None);
    let marking = Txn::new().when([absent]).and_then([mark]).or_else([look]);
    let marked = client.txn(marking).await?;
    let found = marked
        .op_responses()
        .into_iter()
        .find_map(|answer| match answer {
            TxnOpResponse::Get(found) => Some(found),
            _ => None,
        });
    let mark = match &found {
        None => Some(new),
        Some(found) => found.kvs().first().and_then(|found| {
            let text = found.value_str().ok()?;
            Uuid::parse_str(text).ok()
        }),
    };
    let mark = mark.ok_or_else(|| Error::Internal(format!("{key} is damaged: no uuid")))?;
    Ok(Lineage::new(mark.as_u128() ^ u128::from(cluster)))
}

impl EtcdSession {
    fn is_ours(&self) -> Compare {
        Compare::create_revision(self.key.clone(), CompareOp::Equal, self.revision)
    }

    /// # Errors
    /// [`Ended::Lost`] when the lease is over.
    async fn keep_alive(&mut self) -> Result<(), Ended> {
        let (mut keeper, mut answers) = match self.keep_alive.take() {
            Some(open) => open,
            None => {
                self.client
                    .lease_keep_alive(self.lease)
                    .await
                    .map_err(|error| match error {
                        // The client's word for a lease that the cluster does not know.
                        Error::LeaseKeepAliveError(_) => Ended::Lost,
                        error => failed(error),
                    })?
            }
        };
        keeper.keep_alive().await.map_err(failed)?;
        let answer = answers.message().await.map_err(failed)?;
        match answer {
            Some(answer) if answer.ttl() > 0 => {
                self.keep_alive = Some((keeper, answers));
                Ok(())
            }
            Some(_) => Err(Ended::Lost),
            None => {
                let end = Error::LeaseKeepAliveError("the stream has ended".to_owned());
                Err(failed(end))
            }
        }
    }

    /// The candidate right before this one, and the revision at which it was there.
    async fn predecessor(&mut self) -> Result<(Option<Vec<u8>>, i64), Ended> {
        let options = GetOptions::new()
            .with_prefix()
            .with_keys_only()
            .with_max_create_revision(self.revision)
            .with_sort(SortTarget::Create, SortOrder::Ascend);
        let candidates = self.options.candidates();
        let found = self
            .client
            .get(candidates, Some(options))
            .await
            .map_err(failed)?;
        let at = found
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        let mut before = None;
        for candidate in found.kvs() {
            if candidate.create_revision() == self.revision {
                return Ok((before, at));
            }
            before = Some(candidate.key().to_vec());
        }
        Err(Ended::Lost)
    }
}

impl Session for EtcdSession {
    async fn campaign(&mut self) -> Result<Turn, Ended> {
        loop {
            let (before, at) = self.predecessor().await?;
            let Some(before) = before else { break };
            let from = WatchOptions::new().with_start_revision(at + 1);
            let mut changes = self
                .client
                .watch(before, Some(from))
                .await
                .map_err(failed)?;
            // Also without an event: the lease needs its renewals, and the own key may be gone.
            let change = tokio::time::timeout(self.length / 4, changes.message()).await;
            if let Ok(Err(error)) = change {
                return Err(failed(error));
            }
            self.keep_alive().await?;
        }
        let counts_from = self.options.clock.now();
        self.renew().await?;
        let epoch = u64::try_from(self.revision).map_err(|_| {
            Ended::Failed(ElectionError::Corrupt {
                name: self.key.clone(),
                reason: "its create revision is below 0".to_owned(),
            })
        })?;
        Ok(Turn {
            lineage: self.lineage,
            epoch,
            length: self.length,
            counts_from,
        })
    }

    async fn renew(&mut self) -> Result<(), Ended> {
        self.keep_alive().await?;
        // The lease may live on without its key, if somebody has deleted that.
        let look = Txn::new().when([self.is_ours()]);
        let looked = self.client.txn(look).await.map_err(failed)?;
        if looked.succeeded() {
            Ok(())
        } else {
            Err(Ended::Lost)
        }
    }

    async fn write(
        &mut self,
        component: &ComponentId,
        information: Option<&LeaderInformation>,
    ) -> Result<(), Ended> {
        let key = self.options.information_of(component);
        let change = match information {
            Some(information) => {
                let bytes = serde_json::to_vec(information)
                    .map_err(|error| failed(Error::Internal(error.to_string())))?;
                TxnOp::put(key, bytes, Some(PutOptions::new().with_lease(self.lease)))
            }
            None => TxnOp::delete(key, None),
        };
        let change = Txn::new().when([self.is_ours()]).and_then([change]);
        let changed = self.client.txn(change).await.map_err(failed)?;
        if changed.succeeded() {
            Ok(())
        } else {
            Err(Ended::Lost)
        }
    }

    async fn read(&mut self, component: &ComponentId) -> Result<Option<LeaderInformation>, Ended> {
        let key = self.options.information_of(component);
        let found = self.client.get(key, None).await.map_err(failed)?;
        // What is damaged is as good as missing: it is written anew.
        let found = found.kvs().first();
        Ok(found.and_then(|found| serde_json::from_slice(found.value()).ok()))
    }

    async fn release(mut self) {
        // With the lease all its keys go.
        if let Err(error) = self.client.lease_revoke(self.lease).await {
            tracing::debug!(%error, "a lease could not be revoked; it will expire");
        }
    }
}

fn failed(error: Error) -> Ended {
    Ended::Failed(ElectionError::unavailable("campaigning", error))
}
