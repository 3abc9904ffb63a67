//! The routes of the console.

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder, Scope,
    http::{StatusCode, header},
    web::{self, Bytes, Data, PayloadConfig},
};
use serde::Serialize;

use super::{
    Console,
    action::{self, Refused},
    board::Reason,
    page,
};

/// Nothing but our own script and style, from here: what a source says can do no harm even if it
/// were not escaped.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The most bytes of an action's body.
const BODY: usize = 4 * 1024;

const SCRIPT: &str = include_str!("assets/console.js");
const STYLE: &str = include_str!("assets/console.css");

/// The routes below `path`.
pub(super) fn scope(path: &str, console: Console) -> Scope {
    let read = |resource: &str, handler: fn(&Console) -> HttpResponse| {
        let handle = move |console: Data<Console>| std::future::ready(handler(&console));
        web::resource(resource.to_owned())
            .route(web::get().to(handle))
            .route(web::head().to(handle))
    };
    web::scope(path)
        .app_data(Data::new(console))
        .app_data(PayloadConfig::new(BODY))
        .route("", web::get().to(to_the_slash))
        .service(read("/", whole_page))
        .service(read("/fragment", fragment))
        .service(read("/console.js", |_| {
            asset("text/javascript; charset=utf-8", SCRIPT)
        }))
        .service(read("/console.css", |_| {
            asset("text/css; charset=utf-8", STYLE)
        }))
        .service(read("/status.json", status))
        .service(read("/metrics", metrics))
        .service(read("/health", |_| health()))
        .service(read("/ready", ready))
        .service(web::resource("/actions").to(act))
}

/// Every answer begins so.
fn answer(status: StatusCode) -> HttpResponseBuilder {
    let mut answer = HttpResponse::build(status);
    answer
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"));
    answer
}

fn html(markup: maud::Markup) -> HttpResponse {
    answer(StatusCode::OK)
        .content_type("text/html; charset=utf-8")
        .body(markup.into_string())
}

fn asset(content_type: &'static str, text: &'static str) -> HttpResponse {
    answer(StatusCode::OK).content_type(content_type).body(text)
}

fn json(status: StatusCode, value: &impl Serialize) -> HttpResponse {
    answer(status).json(value)
}

#[derive(Serialize)]
struct Problem<'a> {
    error: &'a str,
}

fn problem(status: StatusCode, error: &str) -> HttpResponse {
    json(status, &Problem { error })
}

/// The page's links are relative to the folder that it is in. So is this answer's: a proxy may have
/// put another path before ours.
async fn to_the_slash(request: HttpRequest) -> HttpResponse {
    let path = request.path();
    let last = path.rsplit('/').next().unwrap_or_default();
    answer(StatusCode::TEMPORARY_REDIRECT)
        .insert_header((header::LOCATION, format!("{last}/")))
        .finish()
}

fn whole_page(console: &Console) -> HttpResponse {
    let inner = &console.inner;
    html(page::page(
        &inner.title,
        inner.token.is_some(),
        &inner.board(),
    ))
}

fn fragment(console: &Console) -> HttpResponse {
    let inner = &console.inner;
    html(page::board(&inner.board(), inner.token.is_some()))
}

fn status(console: &Console) -> HttpResponse {
    json(StatusCode::OK, &*console.inner.board())
}

fn metrics(console: &Console) -> HttpResponse {
    match &console.inner.metrics {
        Some(metrics) => answer(StatusCode::OK)
            .content_type("text/plain; version=0.0.4; charset=utf-8")
            .body(metrics()),
        None => problem(
            StatusCode::NOT_FOUND,
            "the program gave the console no recorder of metrics",
        ),
    }
}

#[derive(Serialize)]
struct Health {
    alive: bool,
}

fn health() -> HttpResponse {
    json(StatusCode::OK, &Health { alive: true })
}

#[derive(Serialize)]
struct Readiness<'a> {
    ready: bool,
    reasons: &'a [Reason],
}

fn ready(console: &Console) -> HttpResponse {
    let board = console.inner.board();
    let status = if board.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let (ready, reasons) = (board.ready, board.reasons.as_slice());
    json(status, &Readiness { ready, reasons })
}

async fn act(request: HttpRequest, console: Data<Console>, body: Bytes) -> HttpResponse {
    let inner = &console.inner;
    let Some(token) = &inner.token else {
        return problem(StatusCode::NOT_FOUND, "this console offers no actions");
    };
    if request.method() != actix_web::http::Method::POST {
        return answer(StatusCode::METHOD_NOT_ALLOWED)
            .insert_header((header::ALLOW, "POST"))
            .json(Problem {
                error: "an action is a POST",
            });
    }
    let done = match action::admit(token, &request) {
        Ok(()) => action::carry_out(inner, &body).await,
        Err(refused) => Err(refused),
    };
    match done {
        Ok(done) => json(StatusCode::OK, &done),
        Err(Refused { status, text }) => {
            let mut response = problem(status, &text);
            if status == StatusCode::UNAUTHORIZED {
                let scheme = header::HeaderValue::from_static("Bearer");
                response
                    .headers_mut()
                    .insert(header::WWW_AUTHENTICATE, scheme);
            }
            response
        }
    }
}
