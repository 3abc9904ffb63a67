//! The console's routes, as a browser and as a stranger see them.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use actix_web::{
    App,
    body::{MessageBody, to_bytes},
    dev::ServiceResponse,
    http::{Method, StatusCode, header},
    test::{self, TestRequest},
};
use tokio::sync::broadcast;

use super::{Console, ConsoleBuilder, ConsoleError};
use crate::status::*;

const TOKEN: &str = "0123456789abcdef";

/// A part that can be made whatever a test needs.
struct Part {
    name: String,
    snapshot: Mutex<StatusSnapshot>,
    events: broadcast::Sender<StatusEvent>,
    done: Arc<Mutex<Vec<String>>>,
    panics: AtomicBool,
}

impl Part {
    fn new(name: &str, snapshot: StatusSnapshot) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            snapshot: Mutex::new(snapshot),
            events: broadcast::Sender::new(16),
            done: Arc::default(),
            panics: AtomicBool::new(false),
        })
    }

    fn set(&self, snapshot: StatusSnapshot) {
        *self.snapshot.lock().unwrap() = snapshot;
    }
}

impl StatusSource for Part {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn snapshot(&self) -> StatusSnapshot {
        assert!(!self.panics.load(Ordering::SeqCst), "it was to panic");
        self.snapshot.lock().unwrap().clone()
    }

    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        Some(self.events.subscribe())
    }

    fn control(&self) -> Option<Arc<dyn StatusControl>> {
        Some(Arc::new(Control(Arc::clone(&self.done))))
    }
}

struct Control(Arc<Mutex<Vec<String>>>);

impl StatusControl for Control {
    fn actions(&self) -> Vec<StatusAction> {
        ["cut", "fail"]
            .map(|name| StatusAction::new(name, "does it"))
            .into()
    }

    fn act(&self, action: &str) -> ActionFuture {
        let (done, action) = (Arc::clone(&self.0), action.to_owned());
        Box::pin(async move {
            if action == "fail" {
                return Err("it can't be done".into());
            }
            done.lock().unwrap().push(action);
            Ok("a cut is taken".into())
        })
    }
}

fn registry(parts: &[&Arc<Part>]) -> StatusRegistry {
    let registry = StatusRegistry::default();
    for part in parts {
        let part: Arc<dyn StatusSource> = Arc::clone(*part) as _;
        registry.register(&part);
    }
    registry
}

fn console(parts: &[&Arc<Part>], set: impl FnOnce(ConsoleBuilder) -> ConsoleBuilder) -> Console {
    set(Console::builder(&registry(parts))).build().unwrap()
}

/// What one request is answered with: status, headers, body.
struct Answer {
    status: StatusCode,
    headers: header::HeaderMap,
    body: String,
}

async fn ask(console: &Console, request: TestRequest) -> Answer {
    let app = test::init_service(App::new().service(console.scope("/console"))).await;
    answer(test::call_service(&app, request.to_request()).await).await
}

async fn answer<B: MessageBody>(response: ServiceResponse<B>) -> Answer {
    let response = response.into_parts().1;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = to_bytes(response.into_body()).await;
    let body = body.unwrap_or_else(|_| panic!("the body broke off"));
    Answer {
        status,
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

async fn get(console: &Console, path: &str) -> Answer {
    ask(console, TestRequest::with_uri(&format!("/console{path}"))).await
}

fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_str(&answer.body).unwrap()
}

fn action(source: &str, action: &str) -> TestRequest {
    TestRequest::with_uri("/console/actions")
        .method(Method::POST)
        .insert_header((header::HOST, "127.0.0.1:8080"))
        .insert_header((header::AUTHORIZATION, format!("Bearer {TOKEN}")))
        .set_json(serde_json::json!({ "source": source, "action": action }))
}

fn region() -> StatusSnapshot {
    StatusSnapshot::new(StatusKind::Region)
        .with_state("Processing", Level::Good)
        .with_plot("rows", 1_234_u64, Unit::None, Plot::Rate)
        .with_unit("state", 2_048_u64, Unit::Bytes)
        .with_table(
            StatusTable::new(
                "workers",
                [("worker", Unit::None), ("since", Unit::UnixMilliseconds)],
            )
            .with_row(["worker-0".into(), 1_796_047_217_123_u64.into()]),
        )
        .with_graph(StatusGraph {
            caption: "the region's graph".into(),
            nodes: vec![StatusNode::default(), StatusNode::default()],
            edges: vec![StatusEdge {
                from: 0,
                to: 1,
                flows: true,
            }],
        })
        .with_series("round times", Unit::Seconds, [0.1, 0.2])
}

#[actix::test]
async fn the_page_shows_state_facts_tables_graph_plots_and_events() {
    let part = Part::new("region orders", region());
    let console = console(&[&part], |it| it.title("the orders"));
    // Listens from the first look on.
    get(&console, "/fragment").await;
    let killed = StatusEvent::now("worker-1 was killed").with_level(Level::Bad);
    part.events.send(killed).unwrap();
    console.inner.sample();
    let page = get(&console, "/").await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        "<title>the orders",
        "region orders",
        "Processing",
        "1\u{202f}234",
        "2.0 KiB",
        "<caption>workers</caption>",
        "14:00:17",
        "the region&#39;s graph",
        "now 200 ms, from 100 ms to 200 ms",
        "worker-1 was killed",
        "<h2 id=\"kind-regions-title\">Regions</h2>",
        "http-equiv=\"refresh\"",
        "aria-live=\"polite\"",
    ] {
        let text = text.replace("&#39;", "'");
        assert!(page.body.contains(&text), "{text} is not in {}", page.body);
    }
    assert!(!page.body.contains("style="), "the policy forbids it");
    assert!(!page.body.contains("id=\"token\""), "no action is offered");
    assert!(!page.body.contains("data-action"), "no action is offered");
}

#[actix::test]
async fn what_a_source_says_is_never_markup() {
    let hostile = "<img src=x onerror=alert(1)>\"'&</script>";
    let snapshot = StatusSnapshot::default()
        .with_state(hostile, Level::Bad)
        .with_unready(Some(hostile.into()))
        .with_plot(hostile, 1_u64, Unit::None, Plot::Value)
        .with(hostile, hostile)
        .with_table(StatusTable::new(hostile, [(hostile, Unit::None)]).with_row([hostile.into()]))
        .with_graph(StatusGraph {
            caption: hostile.into(),
            nodes: vec![StatusNode {
                name: hostile.into(),
                text: hostile.into(),
                ..StatusNode::default()
            }],
            edges: Vec::new(),
        })
        .with_series(hostile, Unit::None, [1.0]);
    let part = Part::new(hostile, snapshot);
    let console = console(&[&part], |it| it.title(hostile).actions(TOKEN));
    get(&console, "/fragment").await;
    part.events.send(StatusEvent::now(hostile)).unwrap();
    for path in ["/", "/fragment"] {
        let body = get(&console, path).await.body;
        assert!(!body.contains("<img"), "{body}");
        assert!(!body.contains("</script>\""), "{body}");
        // In an attribute a quote would end it.
        assert!(!body.contains("alert(1)>\""), "{body}");
    }
    assert_eq!(
        json(&get(&console, "/status.json").await)["sources"][0]["name"],
        hostile
    );
}

#[actix::test]
async fn the_same_as_json() {
    let part = Part::new("region orders", region());
    let console = console(&[&part], |it| it);
    console.inner.sample();
    let status = json(&get(&console, "/status.json").await);
    let source = &status["sources"][0];
    assert_eq!(source["name"], "region orders");
    assert_eq!(source["kind"], "region");
    assert_eq!(source["state"]["text"], "Processing");
    assert_eq!(source["facts"][0]["value"], 1_234);
    assert_eq!(source["facts"][1]["unit"], "bytes");
    assert_eq!(source["tables"][0]["rows"][0][0], "worker-0");
    assert_eq!(source["graph"]["edges"][0]["flows"], true);
    assert_eq!(source["series"][0]["points"][1], 0.2);
    assert_eq!(source["plots"][0]["unit"], "per_second");
    assert_eq!(status["ready"], true);
    assert!(source["actions"].is_null(), "no action is offered");
    assert!(status["at_unix_ms"].as_u64().unwrap() > 1_600_000_000_000);
}

#[actix::test]
async fn ready_says_why_not_until_every_part_is() {
    let waiting = StatusSnapshot::default().with_unready(Some("it connects".into()));
    let (one, other) = (
        Part::new("one", waiting),
        Part::new("other", StatusSnapshot::default()),
    );
    let both = console(&[&one, &other], |it| it);
    let refused = get(&both, "/ready").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let reason = serde_json::json!([{ "source": "one", "reason": "it connects" }]);
    assert_eq!(json(&refused)["reasons"], reason);
    assert_eq!(get(&both, "/health").await.status, StatusCode::OK);
    assert!(get(&both, "/").await.body.contains("it connects"));
    one.set(StatusSnapshot::default());
    // Another console: it has not looked yet.
    let both = console(&[&one, &other], |it| it);
    let ready = get(&both, "/ready").await;
    assert_eq!(ready.status, StatusCode::OK);
    assert_eq!(json(&ready)["ready"], true);
}

#[actix::test]
async fn a_part_that_panics_is_shown_as_that_and_takes_no_other_with_it() {
    let (bad, good) = (Part::new("bad", region()), Part::new("good", region()));
    bad.panics.store(true, Ordering::SeqCst);
    let console = console(&[&bad, &good], |it| it);
    let status = json(&get(&console, "/status.json").await);
    let names: Vec<_> = status["sources"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(
        status["reasons"][0]["reason"],
        "it panicked when it was asked"
    );
    assert!(get(&console, "/").await.body.contains("no answer"));
}

#[actix::test]
async fn parts_of_one_name_are_told_apart() {
    let (one, other) = (Part::new("canal", region()), Part::new("canal", region()));
    let console = console(&[&one, &other], |it| it);
    let status = json(&get(&console, "/status.json").await);
    assert_eq!(status["sources"][0]["name"], "canal");
    assert_eq!(status["sources"][1]["name"], "canal (2)");
}

#[actix::test]
async fn every_answer_forbids_caching_framing_and_foreign_script() {
    let part = Part::new("region orders", region());
    let console = console(&[&part], |it| it.actions(TOKEN));
    for path in [
        "",
        "/",
        "/fragment",
        "/console.js",
        "/console.css",
        "/status.json",
        "/metrics",
        "/health",
        "/ready",
        "/actions",
    ] {
        let headers = get(&console, path).await.headers;
        let policy = headers.get(header::CONTENT_SECURITY_POLICY).unwrap();
        let policy = policy.to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe"));
        assert_eq!(
            headers.get(header::CACHE_CONTROL).unwrap(),
            "no-store",
            "{path}"
        );
        assert_eq!(
            headers.get(header::X_CONTENT_TYPE_OPTIONS).unwrap(),
            "nosniff"
        );
        assert!(headers.get(header::SET_COOKIE).is_none());
    }
}

#[actix::test]
async fn the_page_is_found_without_the_slash_and_the_assets_beside_it() {
    let console = console(&[], |it| it);
    let found = get(&console, "").await;
    assert_eq!(found.status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(found.headers.get(header::LOCATION).unwrap(), "console/");
    for (path, content_type) in [
        ("/console.js", "text/javascript; charset=utf-8"),
        ("/console.css", "text/css; charset=utf-8"),
    ] {
        let asset = get(&console, path).await;
        assert_eq!(asset.status, StatusCode::OK);
        assert_eq!(
            asset.headers.get(header::CONTENT_TYPE).unwrap(),
            content_type
        );
        assert!(!asset.body.is_empty());
    }
    let head = TestRequest::with_uri("/console/health").method(Method::HEAD);
    assert_eq!(ask(&console, head).await.status, StatusCode::OK);
    assert!(
        get(&console, "/")
            .await
            .body
            .contains("Nothing is registered")
    );
}

#[actix::test]
async fn metrics_are_those_of_the_recorder_that_was_given() {
    assert_eq!(
        get(&console(&[], |it| it), "/metrics").await.status,
        StatusCode::NOT_FOUND
    );
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let console = console(&[], |it| it.metrics(move || handle.render()));
    metrics::with_local_recorder(&recorder, || metrics::counter!("rows_total").increment(3));
    let answer = get(&console, "/metrics").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains("rows_total 3"), "{}", answer.body);
    let content_type = answer.headers.get(header::CONTENT_TYPE).unwrap();
    assert!(
        content_type
            .to_str()
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
}

#[actix::test]
async fn without_a_token_there_are_no_actions() {
    let part = Part::new("region orders", region());
    let console = console(&[&part], |it| it);
    let answer = ask(&console, action("region orders", "cut")).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(part.done.lock().unwrap().is_empty());
}

#[actix::test]
async fn who_has_the_token_can_act_and_is_told_what_came_of_it() {
    let part = Part::new("region orders", region());
    let console = console(&[&part], |it| it.actions(TOKEN));
    assert!(
        get(&console, "/")
            .await
            .body
            .contains("data-action=\"cut\"")
    );
    let done = ask(&console, action("region orders", "cut")).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.body);
    assert_eq!(json(&done)["result"], "a cut is taken");
    assert_eq!(*part.done.lock().unwrap(), ["cut"]);
    for (source, name, status, text) in [
        (
            "region orders",
            "fail",
            StatusCode::CONFLICT,
            "it can't be done",
        ),
        (
            "region orders",
            "melt",
            StatusCode::CONFLICT,
            "offers no \"melt\"",
        ),
        (
            "region other",
            "cut",
            StatusCode::NOT_FOUND,
            "there is no \"region other\"",
        ),
    ] {
        let answer = ask(&console, action(source, name)).await;
        assert_eq!(answer.status, status);
        let error = json(&answer)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(text), "{error}");
    }
    assert_eq!(part.done.lock().unwrap().len(), 1);
}

#[actix::test]
async fn a_request_that_a_foreign_page_could_send_is_refused() {
    let part = Part::new("region orders", region());
    let console = console(&[&part], |it| it.actions(TOKEN));
    let cut = || action("region orders", "cut");
    let form = "application/x-www-form-urlencoded";
    let without_token = || {
        TestRequest::with_uri("/console/actions")
            .method(Method::POST)
            .set_json(serde_json::json!({ "source": "region orders", "action": "cut" }))
    };
    let replaced = |name, value: &str| cut().insert_header((name, value));
    for (request, status) in [
        (without_token(), StatusCode::UNAUTHORIZED),
        (
            replaced(header::AUTHORIZATION, "Bearer 0123456789abcdeX"),
            StatusCode::UNAUTHORIZED,
        ),
        (
            replaced(header::AUTHORIZATION, "Bearer 0123456789abcde"),
            StatusCode::UNAUTHORIZED,
        ),
        (
            replaced(header::AUTHORIZATION, "Bearer "),
            StatusCode::UNAUTHORIZED,
        ),
        (
            replaced(header::AUTHORIZATION, TOKEN),
            StatusCode::UNAUTHORIZED,
        ),
        (
            without_token().insert_header((header::COOKIE, format!("token={TOKEN}"))),
            StatusCode::UNAUTHORIZED,
        ),
        (
            replaced(header::CONTENT_TYPE, form),
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (
            replaced(header::CONTENT_TYPE, "text/plain"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (
            replaced(header::ORIGIN, "https://evil.example"),
            StatusCode::FORBIDDEN,
        ),
        (
            replaced(header::ORIGIN, "http://127.0.0.1:8081"),
            StatusCode::FORBIDDEN,
        ),
        (replaced(header::ORIGIN, "null"), StatusCode::FORBIDDEN),
        (
            cut().insert_header(("sec-fetch-site", "cross-site")),
            StatusCode::FORBIDDEN,
        ),
        (
            cut().insert_header(("sec-fetch-site", "same-site")),
            StatusCode::FORBIDDEN,
        ),
        (cut().method(Method::GET), StatusCode::METHOD_NOT_ALLOWED),
        (cut().method(Method::PUT), StatusCode::METHOD_NOT_ALLOWED),
        (cut().set_payload("{"), StatusCode::BAD_REQUEST),
        (
            cut().set_payload(r#"{"source":"region orders","action":"cut","x":1}"#),
            StatusCode::BAD_REQUEST,
        ),
        (
            cut().set_payload(vec![b' '; 5_000]),
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
    ] {
        let answer = ask(&console, request).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        let asks = answer.headers.contains_key(header::WWW_AUTHENTICATE);
        assert_eq!(asks, status == StatusCode::UNAUTHORIZED);
    }
    assert!(part.done.lock().unwrap().is_empty());
    let ours = replaced(header::ORIGIN, "http://127.0.0.1:8080")
        .insert_header(("sec-fetch-site", "same-origin"));
    assert_eq!(ask(&console, ours).await.status, StatusCode::OK);
}

#[actix::test]
async fn a_title_that_is_too_long_and_a_token_that_can_be_guessed_are_refused() {
    let build = |set: fn(ConsoleBuilder) -> ConsoleBuilder| {
        set(Console::builder(&StatusRegistry::default())).build()
    };
    let title = build(|it| it.title("t".repeat(101)));
    assert!(matches!(title, Err(ConsoleError::Title { bytes: 101, .. })));
    for token in [
        build(|it| it.actions("short")),
        build(|it| it.actions("with a blank in it")),
    ] {
        assert!(matches!(token, Err(ConsoleError::Token { .. })));
    }
    let error = build(|it| it.actions("short")).unwrap_err().to_string();
    assert!(
        error.contains("16 to 512") && !error.contains("short"),
        "{error}"
    );
}

#[actix::test]
async fn the_thread_ends_with_the_last_console() {
    let console = console(&[], |it| it);
    let inner = Arc::downgrade(&console.inner);
    let clone = console.clone();
    drop(console);
    assert!(inner.upgrade().is_some());
    drop(clone);
    // The thread may be at work on it for a moment.
    tokio::time::timeout(std::time::Duration::from_secs(60), async {
        while inner.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}
