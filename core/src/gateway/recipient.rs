//! A gateway's message as an actix `Recipient`: for code that knows actix only.

use std::sync::Arc;

use actix::{
    Actor, AsyncContext, Context, Handler, Message, Recipient, WrapFuture,
    dev::{MessageResponse, OneshotSender},
};
use tokio::sync::Semaphore;

use super::{Carries, Gateway, RpcGateway};
use crate::error::RpcError;

/// Asks that one recipient has under way; more wait in its mailbox.
const UNDER_WAY: usize = 1_024;

impl<G: RpcGateway> Gateway<G> {
    /// This gateway's endpoint as an actix recipient of `M`, wherever the endpoint lives. A small
    /// actor on the present arbiter hands the messages on; it ends with the last clone.
    ///
    /// actix has one error for all: whatever fails is `MailboxError::Closed` to who sends to it, and
    /// the reason is in the log. Use the gateway itself where the reason matters.
    ///
    /// # Errors
    /// `InvalidState` when called outside an arbiter.
    pub fn recipient<M>(&self) -> Result<Recipient<M>, RpcError>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        crate::service::refuse_off_arbiter()?;
        let forwarder = Forwarder {
            gateway: self.clone(),
            room: Arc::new(Semaphore::new(UNDER_WAY)),
        };
        Ok(forwarder.start().recipient())
    }
}

struct Forwarder<G: RpcGateway> {
    gateway: Gateway<G>,
    room: Arc<Semaphore>,
}

impl<G: RpcGateway> Actor for Forwarder<G> {
    type Context = Context<Self>;
}

impl<G, M> Handler<M> for Forwarder<G>
where
    G: Carries<M>,
    M: Message<Result: Send> + Send + 'static,
{
    type Result = Forwarded<G, M>;

    fn handle(&mut self, message: M, context: &mut Context<Self>) -> Forwarded<G, M> {
        if self.room.available_permits() <= 1 {
            let room = Arc::clone(&self.room);
            // The next message waits until there is room for it.
            let waiting = async move { drop(room.acquire_many(2).await) };
            context.wait(waiting.into_actor(self));
        }
        Forwarded {
            gateway: self.gateway.clone(),
            room: Arc::clone(&self.room),
            message,
        }
    }
}

/// A message on its way.
struct Forwarded<G: RpcGateway, M> {
    gateway: Gateway<G>,
    room: Arc<Semaphore>,
    message: M,
}

impl<G, M> MessageResponse<Forwarder<G>, M> for Forwarded<G, M>
where
    G: Carries<M>,
    M: Message<Result: Send> + Send + 'static,
{
    fn handle(self, _: &mut Context<Forwarder<G>>, reply: Option<OneshotSender<M::Result>>) {
        let Self {
            gateway,
            room,
            message,
        } = self;
        let Some(reply) = reply else {
            gateway.do_send(message);
            return;
        };
        actix::spawn(async move {
            let _permit = room.acquire().await;
            match gateway.send(message).await {
                // Who asked and went away needs no answer.
                Ok(value) => drop(reply.send(value)),
                Err(error) => tracing::debug!(%error, "a recipient's message was not answered"),
            }
        });
    }
}
