//! An endpoint as a transport sees it: handshake, and calls that come in encoded.

use std::sync::Arc;

use tokio::time::Instant;

use futures_core::future::BoxFuture;

use super::{
    RpcEndpoint, ServedGateway,
    core::Core,
    entry::{Call, EncodedCall, Entry, Header},
    fence::TokenCheck,
    local::Handle,
};
use crate::{
    error::{RpcError, RpcErrorKind},
    gateway::GatewayDescriptor,
    trace::TraceContext,
    transport::{Caller, Handshake, InboundCall, InboundEndpoint, InboundSession, ReplySink},
};

struct Session<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    /// The caller's method numbers → places in the endpoint's table.
    methods: Vec<usize>,
    check: TokenCheck,
    caller: Caller,
}

impl<A: RpcEndpoint> InboundEndpoint for Handle<A> {
    fn accept(&self, handshake: Handshake) -> Result<Arc<dyn InboundSession>, RpcError> {
        let core = &self.0;
        let place = self.find(&handshake.gateway, handshake.version)?;
        let Some(served) = core.gateways.get(place) else {
            return Err(RpcError::new(RpcErrorKind::WrongGateway, handshake.gateway));
        };
        let check = match (served.descriptor.fenced, handshake.token) {
            (false, _) => TokenCheck::None,
            (true, Some(token)) => TokenCheck::of(token),
            (true, None) => {
                let text = format!(
                    "{} of {} is fenced: connect with a token",
                    served.descriptor.name, core.address
                );
                return Err(RpcError::new(RpcErrorKind::MissingToken, text));
            }
        };
        core.fence
            .check(&check)
            .map_err(|error| error.in_context(&core.address))?;
        let find = |name: &String| {
            let found = (0_u16..)
                .zip(served.methods)
                .find(|(_, method)| method.run_encoded.is_some() && method.name == name)
                .and_then(|(number, _)| core.method(place, number));
            found.ok_or_else(|| {
                let text = format!(
                    "{} of {} has no method {name:?} for other processes",
                    served.descriptor.name, core.address
                );
                RpcError::new(RpcErrorKind::UnknownMethod, text)
            })
        };
        let methods = handshake
            .methods
            .iter()
            .map(find)
            .collect::<Result<Vec<_>, _>>()?;
        if core.shared.settings.check_shapes {
            check_shapes(served, &handshake.methods, &handshake.shapes)
                .map_err(|error| error.in_context(&core.address))?;
        }
        Ok(Arc::new(Session {
            core: Arc::clone(core),
            methods,
            check,
            caller: handshake.caller,
        }))
    }
}

/// Refuses a caller to whom a method's bytes mean something else.
fn check_shapes<A: RpcEndpoint>(
    served: &ServedGateway<A>,
    methods: &[String],
    theirs: &[u64],
) -> Result<(), RpcError> {
    for (name, theirs) in methods.iter().zip(theirs) {
        let place = served.methods.iter().position(|method| method.name == name);
        let ours = place.and_then(|place| (served.shapes)().get(place));
        let ours = ours.copied().unwrap_or(0);
        if *theirs != 0 && ours != 0 && *theirs != ours {
            let GatewayDescriptor {
                name: gateway,
                version,
                ..
            } = served.descriptor;
            return Err(RpcError::new(
                RpcErrorKind::GatewayVersionMismatch,
                format!(
                    "{name} of {gateway} version {version} has another shape at the caller: raise \
                     the gateway's version where it was changed, or build both sides from one \
                     source, or, if all of its bytes are understood, set check_shapes(false)"
                ),
            ));
        }
    }
    Ok(())
}

impl<A: RpcEndpoint> Session<A> {
    fn submit(&self, call: InboundCall, reply: Option<ReplySink>, trace: Option<TraceContext>) {
        let InboundCall {
            method,
            payload,
            deadline,
            cancellation,
        } = call;
        let Some(method) = self.methods.get(usize::from(method)).copied() else {
            let text = format!("{} has no method number {method}", self.core.address);
            let error = RpcError::new(RpcErrorKind::UnknownMethod, text);
            self.core.shared.dead_letters.refusal(error.kind());
            match reply {
                Some(reply) => reply.reply(Err(error)),
                None => self.core.dead_letter(&self.header("?", 0), error),
            }
            return;
        };
        let name = self.core.methods.get(method).map_or("?", |m| m.name);
        let mut header = self.header(name, payload.len());
        header.trace = trace.map(Box::new);
        let mut asked = None;
        if reply.is_some() {
            header.deadline = deadline;
            asked = Some(cancellation);
        }
        let call = Call::Encoded(Box::new(EncodedCall {
            header: Arc::new(header),
            payload,
            reply,
            cancellation: asked,
        }));
        if let Err(rejected) = self.core.push(Entry::Call { method, call }) {
            let (entry, error) = *rejected;
            self.core.refuse(entry, error);
        }
    }

    fn header(&self, method: &'static str, bytes: usize) -> Header {
        Header {
            method,
            sent: Instant::now(),
            deadline: None,
            check: self.check.clone(),
            caller: self.caller.clone(),
            trace: None,
            bytes,
        }
    }
}

impl<A: RpcEndpoint> InboundSession for Session<A> {
    fn ask(&self, call: InboundCall, reply: ReplySink) {
        self.submit(call, Some(reply), None);
    }

    fn ask_traced(&self, call: InboundCall, reply: ReplySink, trace: TraceContext) {
        self.submit(call, Some(reply), Some(trace));
    }

    fn tell(&self, call: InboundCall) {
        self.submit(call, None, None);
    }

    fn tell_traced(&self, call: InboundCall, trace: TraceContext) {
        self.submit(call, None, Some(trace));
    }

    fn closed(&self) -> BoxFuture<'static, RpcError> {
        let terminated = Core::<A>::terminated(self.core.termination.subscribe());
        Box::pin(async move {
            terminated.await.err().unwrap_or_else(|| {
                RpcError::new(RpcErrorKind::Stopped, "the endpoint was terminated")
            })
        })
    }
}

impl<A: RpcEndpoint> std::fmt::Debug for Session<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("endpoint", &self.core.address)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}
