//! Follows a call whose handler has returned a future, until it is answered.

use std::future::{pending, poll_fn};

use actix::Message;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{RpcEndpoint, core::Pending, entry::Reply};
use crate::error::{RpcError, RpcErrorKind, TimeoutPhase};

/// Brings the result to the caller; or says why there is none: the endpoint's end, or the deadline.
/// Tells the handler when its answer is not wanted any more. `pending` counts the call until its
/// handler is really done.
pub(crate) async fn forward<A: RpcEndpoint, M: Message<Result: Send> + Send + 'static>(
    mut result: oneshot::Receiver<M::Result>,
    reply: Reply<M>,
    cancellation: Option<CancellationToken>,
    pending: Pending<A>,
    // Open until the call is answered.
    _span: Span,
) {
    let begin = Instant::now();
    let (method, deadline) = (reply.header().method, reply.header().deadline);
    let mut reply = Some(reply);
    let mut is_revoked = false;
    while let Some(mut waiting) = reply.take_if(|reply| reply.is_ask()) {
        tokio::select! {
            biased;
            value = &mut result => {
                let answer = match value {
                    Ok(value) => pending.refuse_reply().map(|()| value),
                    Err(_) if pending.incarnation.is_over() => {
                        Err(pending.incarnation.ended().await)
                    }
                    Err(_) => {
                        let text = format!("the handler of {method} ended without an answer");
                        Err(RpcError::new(RpcErrorKind::NoReply, text))
                    }
                };
                waiting.answer(answer);
                return;
            }
            cause = pending.incarnation.ended() => {
                waiting.answer(Err(cause));
                cancel(cancellation.as_ref());
                return;
            }
            () = abandoned(&waiting, cancellation.as_ref()), if !is_revoked => {
                cancel(cancellation.as_ref());
            }
            () = passed(&waiting, deadline) => {
                let limit = Instant::now().duration_since(begin);
                let error = RpcError::timeout(&method, limit, TimeoutPhase::Sent);
                waiting.answer(Err(error));
                cancel(cancellation.as_ref());
            }
            () = pending.revoked(), if !is_revoked => {
                // It may still finish; what it must not do is take effect: it looks at cancelled().
                is_revoked = true;
                cancel(cancellation.as_ref());
                reply = Some(waiting);
            }
        }
    }
    // Nobody waits: the call counts as running until its handler is done or its actor is gone.
    tokio::select! {
        _ = result => {}
        _ = pending.incarnation.ended() => cancel(cancellation.as_ref()),
        () = revoked(&pending, cancellation.as_ref()) => {}
    }
}

fn cancel(cancellation: Option<&CancellationToken>) {
    if let Some(cancellation) = cancellation {
        cancellation.cancel();
    }
}

/// Fires `cancellation` when the token is revoked; never resolves.
async fn revoked<A: RpcEndpoint>(pending: &Pending<A>, cancellation: Option<&CancellationToken>) {
    pending.revoked().await;
    cancel(cancellation);
    std::future::pending::<()>().await;
}

/// Resolves when the caller gives up: in this process, or, as its transport says, in another.
async fn abandoned<M: Message<Result: Send> + Send + 'static>(
    reply: &Reply<M>,
    cancellation: Option<&CancellationToken>,
) {
    match cancellation {
        Some(cancellation) if reply.is_encoded() => cancellation.cancelled().await,
        _ => poll_fn(|context| reply.poll_abandoned(context)).await,
    }
}

/// Callers in this process watch their deadline themselves; for those in another one, both do.
async fn passed<M: Message<Result: Send> + Send + 'static>(
    reply: &Reply<M>,
    deadline: Option<Instant>,
) {
    match deadline {
        Some(deadline) if reply.is_encoded() => tokio::time::sleep_until(deadline).await,
        _ => pending().await,
    }
}
