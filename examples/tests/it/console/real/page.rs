//! The page itself: no errors, every width, light and dark, by keyboard, to a screen reader, without
//! script, and what is done by it.

use std::sync::{Arc, Mutex};

use actix_web::{App, HttpServer};
use lockkeeper_core::status::{
    ActionFuture, Level, Plot, StatusAction, StatusControl, StatusEdge, StatusEvent, StatusGraph,
    StatusKind, StatusNode, StatusRegistry, StatusSnapshot, StatusSource, StatusTable, Unit,
};
use lockkeeper_core::web::Console;
use serde_json::json;
use tokio::sync::broadcast;

use crate::browser::{self, Page};

const TOKEN: &str = "a-token-that-only-this-test-knows";

/// A part with one of everything, and names that are wider than a phone.
struct Part {
    events: broadcast::Sender<StatusEvent>,
    done: Arc<Mutex<Vec<String>>>,
}

impl StatusSource for Part {
    fn name(&self) -> String {
        "region orders".to_owned()
    }

    fn snapshot(&self) -> StatusSnapshot {
        let columns = [
            ("worker", Unit::None),
            ("address", Unit::None),
            ("bytes", Unit::Bytes),
        ];
        let long =
            "lockkeeper://a-host-with-a-long-name.internal:12345/region-worker.orders.worker-0";
        let node = |name: &str, level| StatusNode {
            name: name.to_owned(),
            text: "draining: 1 of 3".to_owned(),
            level,
            parts: vec![Level::Good, Level::Busy, Level::Bad],
        };
        let edge = |from, to, flows| StatusEdge { from, to, flows };
        StatusSnapshot::new(StatusKind::Region)
            .with_state("Draining", Level::Busy)
            .with_unready(Some("x".repeat(300)))
            .with_plot("rows", 1_234_567_u64, Unit::None, Plot::Rate)
            .with("address", long)
            .with_table(StatusTable::new("workers", columns).with_row([
                "worker-0".into(),
                long.into(),
                123_456_u64.into(),
            ]))
            .with_graph(StatusGraph {
                caption: "round 8: 1 of 3 workers drained".to_owned(),
                nodes: vec![
                    node("source", Level::Good),
                    node("totals", Level::Busy),
                    node("output", Level::Bad),
                    node("letters", Level::Warning),
                ],
                edges: vec![edge(0, 1, true), edge(1, 2, false), edge(1, 3, true)],
            })
            .with_series("time of a round", Unit::Seconds, [0.1, 0.3, 0.2])
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
        vec![StatusAction::new("cut", "Takes a cut now.")]
    }

    fn act(&self, action: &str) -> ActionFuture {
        self.0.lock().unwrap().push(action.to_owned());
        Box::pin(async { Ok("a cut is taken".to_owned()) })
    }
}

/// A console with that part.
struct Served {
    url: String,
    part: Arc<Part>,
}

/// Runs a test with a page in a console, unless there is no browser.
fn with_page(test: impl FnOnce(&mut Page, &Served) + Send + 'static) {
    let Some(program) = browser::program() else {
        return;
    };
    let part = Arc::new(Part {
        events: broadcast::Sender::new(16),
        done: Arc::default(),
    });
    let registry = StatusRegistry::default();
    let source: Arc<dyn StatusSource> = Arc::clone(&part) as _;
    registry.register(&source);
    let console = Console::builder(&registry).actions(TOKEN).build().unwrap();
    let system = actix::System::new();
    system.block_on(async move {
        let server = HttpServer::new(move || App::new().service(console.scope("/console")))
            .workers(1)
            .disable_signals()
            .bind(("127.0.0.1", 0))
            .unwrap();
        let url = format!("http://{}/console", server.addrs()[0]);
        let server = server.run();
        let handle = server.handle();
        actix_rt::spawn(server);
        let served = Served { url, part };
        let tested = tokio::task::spawn_blocking(move || {
            let mut page = Page::open(&program, &served.url);
            page.becomes("document.getElementById('live').textContent === 'live'");
            test(&mut page, &served);
            assert_eq!(page.errors(), [""; 0]);
        });
        let tested = tested.await;
        handle.stop(false).await;
        if let Err(failed) = tested {
            std::panic::resume_unwind(failed.into_panic());
        }
    });
}

/// What can be operated or scrolled, as far as it is shown.
const INTERACTIVE: &str =
    "[...document.querySelectorAll('a[href], button, input, [tabindex=\"0\"]')]
    .filter((one) => one.checkVisibility())";

#[test]
fn a_phone_needs_no_sideways_scrolling_and_light_and_dark_can_be_read() {
    with_page(|page, _| {
        let mut papers = Vec::new();
        for scheme in ["light", "dark"] {
            for width in [320, 375, 1_280] {
                page.screen(width, &[("prefers-color-scheme", scheme)]);
                let wide = page.evaluate("document.documentElement.scrollWidth");
                assert!(
                    wide.as_u64().unwrap() <= u64::from(width),
                    "{wide} on {width} pixels"
                );
            }
            papers.push(page.evaluate("getComputedStyle(document.body).backgroundColor"));
            // Every text against the paper it stands on, as the guidelines compute it.
            let faint = page.evaluate(
                "(() => {
                    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
                    const light = (rgb) => {
                        const [r, g, b] = rgb.map((part) => {
                            const share = part / 255;
                            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
                        });
                        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                    };
                    const paper = (one) => {
                        for (; one; one = one.parentElement) {
                            const [r, g, b, alpha] = parse(getComputedStyle(one).backgroundColor);
                            if (alpha !== 0) return [r, g, b];
                        }
                        return [255, 255, 255];
                    };
                    const texts = [...document.querySelectorAll('body *')].filter((one) =>
                        !one.closest('svg') && one.checkVisibility()
                        && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
                    return texts.map((one) => {
                        const ink = light(parse(getComputedStyle(one).color).slice(0, 3));
                        const behind = light(paper(one));
                        const contrast = (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
                        return [contrast, one.outerHTML.slice(0, 200)];
                    }).filter(([contrast]) => contrast < 4.5);
                })()",
            );
            assert_eq!(faint, json!([]), "{scheme}");
        }
        assert_ne!(papers[0], papers[1]);
    });
}

#[test]
fn everything_is_reached_by_tab_and_focus_is_seen_and_outlives_updates() {
    with_page(|page, _| {
        page.screen(375, &[]);
        let all = page
            .evaluate(&format!("{INTERACTIVE}.length"))
            .as_u64()
            .unwrap();
        assert!(all > 8, "{all}");
        page.evaluate("window.reached = new Set(); window.unseen = []; 1");
        for _ in 0..=all {
            page.press("Tab", 9);
            page.evaluate(
                "(() => {
                    const one = document.activeElement;
                    window.reached.add(one);
                    const outline = getComputedStyle(one);
                    if (one !== document.body && outline.outlineStyle === 'none')
                        window.unseen.push(one.outerHTML.slice(0, 200));
                })()",
            );
        }
        let missed = format!(
            "{INTERACTIVE}.filter((one) => !window.reached.has(one)).map((one) => one.outerHTML.slice(0, 200))"
        );
        assert_eq!(page.evaluate(&missed), json!([]));
        assert_eq!(page.evaluate("window.unseen"), json!([]));
        page.evaluate("document.querySelector('.scroll').focus(); 1");
        let shown = page.evaluate("document.querySelector('#readiness time').dateTime");
        page.becomes(&format!(
            "document.querySelector('#readiness time').dateTime !== {shown}"
        ));
        let still = page.evaluate("document.activeElement === document.querySelector('.scroll')");
        assert_eq!(still, json!(true));
    });
}

#[test]
fn a_screen_reader_hears_landmarks_names_and_each_event_once() {
    with_page(|page, served| {
        let tree = page.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap();
        let role = |node: &serde_json::Value| {
            node["role"]["value"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let name = |node: &serde_json::Value| {
            node["name"]["value"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        for wanted in [
            "main",
            "banner",
            "contentinfo",
            "heading",
            "table",
            "caption",
            "log",
        ] {
            let wanted_role = |node: &&serde_json::Value| role(node).eq_ignore_ascii_case(wanted);
            assert!(nodes.iter().any(|node| wanted_role(&node)), "no {wanted}");
        }
        let nameless: Vec<_> = nodes
            .iter()
            .filter(|node| {
                let role = role(node);
                let needs = [
                    "button", "link", "textbox", "region", "log", "article", "image", "img",
                ];
                needs.contains(&role.as_str()) && node["ignored"] != json!(true)
            })
            .filter(|node| name(node).is_empty())
            .collect();
        assert!(nameless.is_empty(), "{nameless:?}");
        let picture = nodes
            .iter()
            .find(|node| name(node).starts_with("round 8: 1 of 3"));
        assert!(name(picture.unwrap()).contains("totals: draining: 1 of 3"));

        // What is added to the list is all that changes in it.
        page.evaluate(
            "window.changed = []; new MutationObserver((changes) => {
                for (const change of changes) {
                    for (const node of change.addedNodes) window.changed.push('+' + node.textContent);
                    for (const node of change.removedNodes) window.changed.push('-' + node.textContent);
                }
            }).observe(document.getElementById('event-list'), { childList: true }); 1",
        );
        for number in 1..=3 {
            let event = StatusEvent::now(format!("event {number}")).with_level(Level::Warning);
            served.part.events.send(event).unwrap();
            page.becomes(&format!(
                "/event {number}$/.test(document.querySelector('#event-list li')?.innerText)"
            ));
        }
        let changed = page.evaluate("window.changed");
        let changed = changed.as_array().unwrap();
        assert_eq!(changed.len(), 3, "{changed:?}");
        let added = |one: &serde_json::Value| one.as_str().unwrap().starts_with('+');
        assert!(changed.iter().all(added), "{changed:?}");
    });
}

#[test]
fn who_wants_no_motion_gets_none() {
    with_page(|page, _| {
        let animation =
            "getComputedStyle(document.querySelector('.edge[data-flows=true]')).animationName";
        for (preference, shown) in [("no-preference", "flow"), ("reduce", "none")] {
            page.screen(1_280, &[("prefers-reduced-motion", preference)]);
            assert_eq!(page.evaluate(animation), json!(shown));
        }
    });
}

#[test]
fn without_script_the_page_loads_itself_anew_and_offers_nothing_that_needs_one() {
    with_page(|page, served| {
        page.call(
            "Emulation.setScriptExecutionDisabled",
            json!({ "value": true }),
        );
        page.go(&served.url);
        // It was not asked to this time.
        page.event("Page.loadEventFired");
        let text = page.evaluate("document.body.innerText");
        let text = text.as_str().unwrap();
        assert!(
            text.contains("Without script the page is loaded anew"),
            "{text}"
        );
        assert!(
            text.contains("region orders") && text.contains("1\u{202f}234\u{202f}567"),
            "{text}"
        );
        let buttons = "[...document.querySelectorAll('button, input')].filter((one) => one.checkVisibility()).length";
        assert_eq!(page.evaluate(buttons), json!(0));
    });
}

#[test]
fn updates_can_be_paused_and_a_server_that_is_gone_is_told() {
    with_page(|page, _| {
        page.evaluate("document.getElementById('pause').click(); 1");
        let paused = "document.getElementById('live').textContent === 'paused'
            && document.getElementById('pause').getAttribute('aria-pressed') === 'true'";
        page.becomes(paused);
        let shown = "document.querySelector('#readiness time').dateTime";
        let before = page.evaluate(shown);
        page.evaluate("document.getElementById('pause').click(); 1");
        page.becomes(&format!("{shown} !== {before}"));
        page.call("Network.enable", json!({}));
        let nothing = json!({ "offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        page.call("Network.emulateNetworkConditions", nothing);
        page.becomes("/no answer/.test(document.getElementById('live').textContent)");
        let again = json!({ "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        page.call("Network.emulateNetworkConditions", again);
        page.becomes("document.getElementById('live').textContent === 'live'");
        page.forgive("ERR_INTERNET_DISCONNECTED");
    });
}

#[test]
fn an_action_needs_the_token_and_a_yes_and_says_what_came_of_it() {
    with_page(|page, served| {
        let result = "document.getElementById('action-result').textContent";
        let click = "setTimeout(() => document.querySelector('[data-action=cut]').click(), 0); 1";
        page.evaluate(click);
        page.becomes(&format!("{result} === 'Give the token first.'"));
        for (token, answer, said) in [
            ("another-token", true, "send the console's token"),
            (TOKEN, false, ""),
            (TOKEN, true, "a cut is taken"),
        ] {
            page.evaluate(&format!(
                "document.getElementById('token').value = '{token}'; {result}; 1"
            ));
            page.evaluate(click);
            let asked = page.event("Page.javascriptDialogOpening");
            let question = asked["message"].as_str().unwrap();
            assert!(question.contains("region orders") && question.contains("Takes a cut now."));
            page.call("Page.handleJavaScriptDialog", json!({ "accept": answer }));
            page.becomes(&format!("{result}.includes(\"{said}\")"));
        }
        assert_eq!(*served.part.done.lock().unwrap(), ["cut"]);
        let stored = page.evaluate("document.cookie + Object.keys(localStorage).length + Object.keys(sessionStorage).length");
        assert_eq!(stored, json!("00"));
        // The refusal is told by the browser too.
        page.forgive("401");
    });
}
