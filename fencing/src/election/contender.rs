//! What a contender is told.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use actix::{Actor, Addr, Handler, Message, Recipient};
use lockkeeper_core::token::FencingToken;

use super::ElectionError;
use crate::clock::LocalDeadline;

/// A granted leadership.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// The token to serve under: above all former ones of its lineage.
    pub token: FencingToken,
    /// To be checked right before each effect.
    pub deadline: LocalDeadline,
}

/// What a callback returns: the next one comes when it has resolved.
pub type Callback = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Somebody who wants to lead. An actor is one through [`ActorContender`].
///
/// The callbacks of one component come one after another and never under a lock. They run on
/// the service's thread: a callback that blocks delays the contenders of other components, never
/// the driver that renews the lease.
pub trait LeaderContender: Send + 'static {
    /// Leadership is granted: start what serves under the token, then confirm.
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback;

    /// Leadership is over; the deadline has ended already. Where it is given up in peace (a
    /// close), the driver releases it only after this has resolved or `revoke_timeout` has
    /// passed, so that work under way is drained before another one leads.
    fn revoke_leadership(&mut self) -> Callback;

    /// The driver has a problem. It goes on by itself: this is for logs and for deciding to give
    /// up.
    fn handle_error(&mut self, error: ElectionError) -> Callback;
}

/// Tells an actor that it leads. Its result is awaited before the next message.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct GrantLeadership(pub Leadership);

/// Tells an actor that it does not lead any longer. Its result means "drained".
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct RevokeLeadership;

/// Tells an actor about a problem of the driver.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ElectionFailed(pub ElectionError);

/// Hands the callbacks to an actor as messages.
pub struct ActorContender {
    grant: Recipient<GrantLeadership>,
    revoke: Recipient<RevokeLeadership>,
    failed: Recipient<ElectionFailed>,
}

impl ActorContender {
    /// The contender that is this actor.
    #[must_use]
    pub fn new<A>(actor: &Addr<A>) -> Self
    where
        A: Actor<Context = actix::Context<A>>
            + Handler<GrantLeadership>
            + Handler<RevokeLeadership>
            + Handler<ElectionFailed>,
    {
        ActorContender {
            grant: actor.clone().recipient(),
            revoke: actor.clone().recipient(),
            failed: actor.clone().recipient(),
        }
    }
}

impl LeaderContender for ActorContender {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        deliver(&self.grant, GrantLeadership(leadership))
    }

    fn revoke_leadership(&mut self) -> Callback {
        deliver(&self.revoke, RevokeLeadership)
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        deliver(&self.failed, ElectionFailed(error))
    }
}

fn deliver<M>(recipient: &Recipient<M>, message: M) -> Callback
where
    M: Message<Result = ()> + Send + 'static,
{
    let sending = recipient.send(message);
    Box::pin(async move {
        if let Err(error) = sending.await {
            tracing::warn!(%error, "a contender's actor did not take a message of its election");
        }
    })
}

impl fmt::Debug for ActorContender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ActorContender")
    }
}
