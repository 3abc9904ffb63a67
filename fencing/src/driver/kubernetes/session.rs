//! One candidate: an identity that tries to be the Lease's holder.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Error};
use uuid::Uuid;

use super::{Kubernetes, lease};
use crate::clock::BootTime;
use crate::driver::candidate::{Ended, Session, SessionFactory, Turn};
use crate::election::{ComponentId, ElectionError, LeaderInformation};

/// How often a change is made anew because somebody else has changed the Lease meanwhile.
const CONFLICTS: usize = 5;

pub(crate) struct KubernetesSession {
    options: Kubernetes,
    api: Api<Lease>,
    id: Uuid,
    /// As the holder has written it last.
    held: Option<Lease>,
}

impl SessionFactory for Kubernetes {
    type Session = KubernetesSession;

    async fn open(&self, id: Uuid) -> Result<KubernetesSession, ElectionError> {
        Ok(KubernetesSession {
            options: self.clone(),
            api: self.connect().await?,
            id,
            held: None,
        })
    }
}

/// A Lease that somebody holds, and since when this process has seen it unchanged.
struct Seen {
    version: Option<String>,
    since: BootTime,
}

impl KubernetesSession {
    async fn get(&self) -> Result<Option<Lease>, Ended> {
        self.api.get_opt(&self.options.name).await.map_err(failed)
    }

    /// `None` when somebody else has changed it since `lease` was read.
    async fn replace(&self, lease: &Lease) -> Result<Option<Lease>, Ended> {
        let parameters = PostParams::default();
        let replaced = self.api.replace(&self.options.name, &parameters, lease);
        accepted(replaced.await)
    }

    /// Makes this candidate the holder, if the Lease is still as it was read.
    async fn take(&self, found: Option<Lease>) -> Result<Option<Lease>, Ended> {
        let (id, session) = (self.id, self.options.session);
        match found {
            Some(found) => self.replace(&lease::taken(found, id, session)).await,
            None => {
                let first = lease::first(&self.options.name, id, session);
                accepted(self.api.create(&PostParams::default(), &first).await)
            }
        }
    }

    /// Whether the Lease may be taken, by this process's clock.
    fn is_free(&self, found: &Lease, seen: &mut Option<Seen>) -> bool {
        // Read after the answer: the holder's last renewal had been sent before.
        let now = self.options.clock.now();
        if lease::holder(found).is_none() {
            return true;
        }
        let version = &found.metadata.resource_version;
        match seen {
            Some(seen) if seen.version == *version => now.since(seen.since) >= self.options.session,
            _ => {
                *seen = Some(Seen {
                    version: version.clone(),
                    since: now,
                });
                false
            }
        }
    }

    /// Changes the Lease as its holder.
    ///
    /// # Errors
    /// [`Ended::Lost`] when somebody else holds it, or it is gone.
    async fn change(&mut self, change: impl Fn(Lease) -> Lease) -> Result<(), Ended> {
        for _ in 0..CONFLICTS {
            // Without one, the last change had no answer: it may have been carried out.
            let present = match self.held.take() {
                Some(held) => held,
                None => self.get().await?.ok_or(Ended::Lost)?,
            };
            if lease::holder(&present) != Some(self.id.to_string().as_str()) {
                return Err(Ended::Lost);
            }
            if let Some(changed) = self.replace(&change(present)).await? {
                self.held = Some(changed);
                return Ok(());
            }
        }
        let problem = std::io::Error::other("others change it all the time");
        Err(ElectionError::unavailable("changing the Lease", problem).into())
    }
}

impl Session for KubernetesSession {
    async fn campaign(&mut self) -> Result<Turn, Ended> {
        let mut seen = None;
        loop {
            let found = self.get().await?;
            let is_free = found
                .as_ref()
                .is_none_or(|found| self.is_free(found, &mut seen));
            if is_free {
                let counts_from = self.options.clock.now();
                if let Some(held) = self.take(found).await? {
                    let epoch = u64::from(lease::transitions(&held).unsigned_abs());
                    let lineage = lease::lineage(&held)?;
                    self.held = Some(held);
                    return Ok(Turn {
                        lineage,
                        epoch,
                        length: self.options.session,
                        counts_from,
                    });
                }
            } else {
                tokio::time::sleep(self.options.poll_interval).await;
            }
        }
    }

    async fn renew(&mut self) -> Result<(), Ended> {
        self.change(lease::renewed).await
    }

    async fn write(
        &mut self,
        component: &ComponentId,
        information: Option<&LeaderInformation>,
    ) -> Result<(), Ended> {
        let annotation = lease::annotation(component)?;
        let text = match information.map(serde_json::to_string).transpose() {
            Ok(text) => text,
            Err(error) => {
                let what = format!("changing the information of {component}");
                return Err(ElectionError::unavailable(what, error).into());
            }
        };
        self.change(|mut lease| {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            match &text {
                Some(text) => annotations.insert(annotation.clone(), text.clone()),
                None => annotations.remove(&annotation),
            };
            lease
        })
        .await
    }

    async fn read(&mut self, component: &ComponentId) -> Result<Option<LeaderInformation>, Ended> {
        let found = self.get().await?;
        // What is damaged is as good as missing: it is written anew.
        Ok(found.and_then(|found| lease::information(&found, component).ok().flatten()))
    }

    async fn release(mut self) {
        let was_holder = match &self.held {
            Some(_) => true,
            // A candidate whose request to take it had no answer may be the holder.
            None => matches!(
                self.get().await,
                Ok(Some(found)) if lease::holder(&found) == Some(self.id.to_string().as_str())
            ),
        };
        if was_holder && let Err(error) = self.change(lease::released).await {
            tracing::debug!(?error, "a Lease could not be released; it will expire");
        }
    }
}

/// `None` for a conflict: another change came first.
fn accepted(answer: Result<Lease, Error>) -> Result<Option<Lease>, Ended> {
    const NOT_FOUND: u16 = 404;
    const CONFLICT: u16 = 409;
    match answer {
        Ok(lease) => Ok(Some(lease)),
        Err(Error::Api(status)) if matches!(status.code, CONFLICT | NOT_FOUND) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: Error) -> Ended {
    Ended::Failed(ElectionError::unavailable("asking the API server", error))
}
