//! A headless Chromium, driven by its DevTools protocol over two pipes: it opens no port, and ends with
//! the test.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::given;

/// The longest wait for an answer or an event; a page is given up a little sooner, as it can say what
/// it shows.
const LIMIT: Duration = Duration::from_secs(100);
const PAGE_LIMIT_MS: u64 = 90_000;

/// The browser's program: `tests/services/browser` prints it.
pub(crate) fn program() -> Option<String> {
    given("LOCKKEEPER_BROWSER")
}

/// A browser with one page.
pub(crate) struct Page {
    browser: Child,
    /// Closed, it ends the browser.
    to: Option<ChildStdin>,
    from: mpsc::Receiver<Value>,
    events: VecDeque<Value>,
    /// What the page complained about.
    errors: Vec<String>,
    session: Option<String>,
    last: u64,
    _profile: tempfile::TempDir,
}

impl Page {
    /// Opens a page of this size at `url`.
    pub(crate) fn open(program: &str, url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Command::new("bash");
        // Commands come in by 3, answers go out by 4.
        browser.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >&2", program]);
        browser
            .args(["--headless", "--remote-debugging-pipe", "--disable-gpu"])
            .args(["--no-first-run", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        if rustix::process::geteuid().is_root() {
            browser.arg("--no-sandbox");
        }
        let mut browser = browser
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, from) = mpsc::channel();
        let output = BufReader::new(browser.stdout.take().unwrap());
        std::thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut page = Self {
            to: browser.stdin.take(),
            browser,
            from,
            events: VecDeque::new(),
            errors: Vec::new(),
            session: None,
            last: 0,
            _profile: profile,
        };
        let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = page.call("Target.attachToTarget", target);
        page.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.go(url);
        page
    }

    /// Loads another address, and waits until it is there.
    pub(crate) fn go(&mut self, url: &str) {
        self.events.clear();
        let loaded = self.call("Page.navigate", json!({ "url": url }));
        assert!(loaded["errorText"].is_null(), "{url}: {loaded}");
        self.event("Page.loadEventFired");
    }

    /// Calls a method of the protocol.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut call = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        let mut call = serde_json::to_vec(&call).unwrap();
        call.push(0);
        self.to.as_mut().unwrap().write_all(&call).unwrap();
        loop {
            let mut message = self.message(method);
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.note(message);
        }
    }

    /// Waits for an event of the protocol since the last [`go`](Self::go).
    pub(crate) fn event(&mut self, method: &str) -> Value {
        loop {
            let seen = self
                .events
                .iter()
                .position(|event| event["method"] == method);
            if let Some(mut event) = seen.and_then(|place| self.events.remove(place)) {
                return event["params"].take();
            }
            let message = self.message(method);
            self.note(message);
        }
    }

    fn message(&mut self, awaited: &str) -> Value {
        let message = self.from.recv_timeout(LIMIT);
        message.unwrap_or_else(|error| panic!("the browser, asked for {awaited}: {error}"))
    }

    fn note(&mut self, event: Value) {
        let parameters = &event["params"];
        let error = match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => Some(parameters["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
                Some(parameters["args"].to_string())
            }
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                Some(parameters["entry"].to_string())
            }
            _ => None,
        };
        self.errors.extend(error);
        self.events.push_back(event);
    }

    /// What the page has complained about so far: exceptions, errors, violations of its policy.
    pub(crate) fn errors(&mut self) -> &[String] {
        // Whatever was said before this answer has been noted by then.
        self.evaluate("1");
        &self.errors
    }

    /// Forgets the complaints that say this: a test has caused them.
    pub(crate) fn forgive(&mut self, text: &str) {
        self.errors();
        self.errors.retain(|error| !error.contains(text));
    }

    /// The value of an expression, or of the promise that it is.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", parameters);
        let failed = &result["exceptionDetails"];
        assert!(failed.is_null(), "{expression}\n{failed}");
        result["result"]["value"].take()
    }

    /// Waits until an expression is true in the page, looking whenever the page changes.
    pub(crate) fn becomes(&mut self, expression: &str) -> Value {
        let wait = format!(
            "new Promise((resolve, reject) => {{
                const seen = () => {{
                    const found = {expression};
                    if (!found) return;
                    observer.disconnect();
                    clearTimeout(timer);
                    resolve(found);
                }};
                const observer = new MutationObserver(seen);
                const timer = setTimeout(() => {{
                    observer.disconnect();
                    reject(new Error('never; the page shows ' + document.body.innerText));
                }}, {PAGE_LIMIT_MS});
                observer.observe(document, {{
                    subtree: true, childList: true, characterData: true, attributes: true,
                }});
                seen();
            }})"
        );
        self.evaluate(&wait)
    }

    /// Shows the page as a screen of this width and these media features do.
    pub(crate) fn screen(&mut self, width: u32, features: &[(&str, &str)]) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 }),
        );
        let features = features.iter();
        let features: Vec<_> = features
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// Presses a key and lets it go.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", key);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.to.take();
        // Its output ends with the last of its processes: nothing writes to the profile any more.
        while self.from.recv_timeout(LIMIT).is_ok() {}
        // It may have ended already.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
