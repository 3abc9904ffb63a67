//! Something that is done by the console: who may, and what.
//!
//! There is no ambient authority: no cookie, no session. A page of another site can send no
//! request that counts, as it does not know the token; that its `Origin` is refused too only says
//! so sooner.

use std::time::Duration;

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::{ConsoleError, board, console::Inner};

/// The fewest and the most characters of a token.
const TOKEN: (usize, usize) = (16, 512);
/// How long an action is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// The secret of whoever may act.
pub(super) struct ActionToken(String);

impl ActionToken {
    pub(super) fn new(token: String) -> Result<Self, ConsoleError> {
        let (least, most) = TOKEN;
        let characters = token.chars().count();
        let fits = (least..=most).contains(&characters);
        if !fits || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ConsoleError::Token {
                characters,
                least,
                most,
            });
        }
        Ok(Self(token))
    }

    /// In the same time for any token of the same length.
    fn is(&self, other: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(other).into()
    }
}

/// Why a request is not carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Refused {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }
}

/// What is to be done.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// The source's name.
    source: String,
    /// The action's name.
    action: String,
}

/// What was done.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    pub(super) source: String,
    pub(super) action: String,
    pub(super) result: String,
}

/// Whether the request comes from somebody who may act.
pub(super) fn admit(token: &ActionToken, request: &HttpRequest) -> Result<(), Refused> {
    let headers = request.headers();
    if !is_of_this_site(request) {
        let text = "the request comes from a page of another site";
        return Err(Refused::new(StatusCode::FORBIDDEN, text));
    }
    let given = headers
        .get(header::AUTHORIZATION)
        .map(|value| value.as_bytes());
    let bearer = given.and_then(|value| {
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    if !bearer.is_some_and(|given| token.is(given)) {
        let text = "send the console's token: Authorization: Bearer TOKEN";
        return Err(Refused::new(StatusCode::UNAUTHORIZED, text));
    }
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|text| text.split(';').next());
    if !essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        let text = "send application/json";
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    Ok(())
}

/// A browser says where a request comes from; programs say nothing.
fn is_of_this_site(request: &HttpRequest) -> bool {
    let headers = request.headers();
    if let Some(site) = headers.get("sec-fetch-site")
        && site != "same-origin"
        && site != "none"
    {
        return false;
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return true;
    };
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let origin = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"));
    match (origin, host) {
        (Some((_, origin)), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// Does what the body says.
pub(super) async fn carry_out(console: &Inner, body: &[u8]) -> Result<Done, Refused> {
    let Wish { source, action } = serde_json::from_slice(body).map_err(|error| {
        let text = format!("send {{\"source\": …, \"action\": …}}: {error}");
        Refused::new(StatusCode::BAD_REQUEST, text)
    })?;
    let mut sources = board::named(console.registry()).into_iter();
    let Some((_, found)) = sources.find(|(name, _)| *name == source) else {
        let text = format!("there is no {source:?} now");
        return Err(Refused::new(StatusCode::NOT_FOUND, text));
    };
    let control = found.control().filter(|control| {
        let mut actions = control.actions().into_iter();
        actions.any(|one| one.name == action)
    });
    let Some(control) = control else {
        let text = format!("{source} offers no {action:?} now");
        return Err(Refused::new(StatusCode::CONFLICT, text));
    };
    tracing::info!(source, action, "asked for by the console");
    match tokio::time::timeout(LIMIT, control.act(&action)).await {
        Ok(Ok(result)) => Ok(Done {
            source,
            action,
            result,
        }),
        Ok(Err(reason)) => Err(Refused::new(StatusCode::CONFLICT, reason)),
        Err(_) => {
            let text = format!("no answer within {LIMIT:?}: it may be done or not");
            Err(Refused::new(StatusCode::GATEWAY_TIMEOUT, text))
        }
    }
}
