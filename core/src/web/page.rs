//! The page: all HTML of the console. What a source says is text and nothing else; `maud` escapes
//! it.

use maud::{DOCTYPE, Markup, html};

use self::{
    part::part,
    value::{clipped, moment},
};
use super::{board::Board, events::Happened};
use crate::status::{Level, StatusKind};

mod graph;
mod part;
mod plot;
mod value;

/// The whole page.
pub(super) fn page(title: &str, actions: bool, state: &Board) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Lockkeeper console" }
                link rel="stylesheet" href="console.css";
                link rel="icon" href="data:,";
                script src="console.js" defer {}
                noscript { meta http-equiv="refresh" content="2"; }
            }
            body {
                a.skip href="#main" { "Skip to the status" }
                header {
                    h1 { (title) }
                    div.live {
                        p #live role="status" {}
                        button.needs-script #pause type="button" aria-pressed="false" { "Pause updates" }
                    }
                    noscript { p { "Without script the page is loaded anew every two seconds." } }
                }
                main #main tabindex="-1" {
                    @if actions { (token_form()) }
                    (board(state, actions))
                }
                footer {
                    p {
                        "The same as " a href="status.json" { "JSON" }
                        ", for " a href="metrics" { "Prometheus" }
                        ", " a href="ready" { "ready" } " and " a href="health" { "health" } "."
                    }
                }
            }
        }
    }
}

/// Asks for the secret that actions need; the script keeps it in memory only.
fn token_form() -> Markup {
    html! {
        section.needs-script.token aria-labelledby="actions-title" {
            h2 #actions-title { "Actions" }
            label for="token" { "Token" }
            input #token type="password" autocomplete="off" spellcheck="false";
            p #action-result role="status" {}
        }
    }
}

/// What changes: the script fetches it again and again.
pub(super) fn board(board: &Board, actions: bool) -> Markup {
    html! {
        div #board {
            (readiness(board))
            @for kind in KINDS {
                @let mut parts = board.sources.iter()
                    .filter(|shown| shown.snapshot.kind == kind)
                    .peekable();
                @if parts.peek().is_some() {
                    @let id = format!("kind-{}", heading(kind).to_lowercase().replace(' ', "-"));
                    section #(id) aria-labelledby=(format!("{id}-title")) {
                        h2 #(format!("{id}-title")) { (heading(kind)) }
                        div.parts { @for shown in parts { (part(shown, actions)) } }
                    }
                }
            }
            @if board.sources.is_empty() {
                p.empty #empty { "Nothing is registered: nothing can be shown." }
            }
            @if board.more_sources > 0 {
                p #more { "and " (board.more_sources) " more, which are not shown" }
            }
            (events(&board.events))
        }
    }
}

const KINDS: [StatusKind; 7] = [
    StatusKind::Region,
    StatusKind::Process,
    StatusKind::Leader,
    StatusKind::Canal,
    StatusKind::Endpoint,
    StatusKind::Connections,
    StatusKind::Other,
];

fn heading(kind: StatusKind) -> &'static str {
    match kind {
        StatusKind::Region => "Regions",
        StatusKind::Process => "Processes",
        StatusKind::Leader => "Leadership",
        StatusKind::Canal => "Canal",
        StatusKind::Endpoint => "Endpoints",
        StatusKind::Connections => "Connections",
        StatusKind::Other => "Other parts",
    }
}

fn readiness(board: &Board) -> Markup {
    html! {
        div.readiness #readiness {
            p {
                @if board.ready { (badge("ready", Level::Good)) }
                @else { (badge("not ready", Level::Bad)) }
                " at " (moment(board.at_unix_ms))
            }
            @if !board.ready {
                ul {
                    @for reason in board.reasons.iter().take(20) {
                        li { (clipped(&reason.source)) ": " (clipped(&reason.reason)) }
                    }
                    @if board.reasons.len() > 20 { li { "and " (board.reasons.len() - 20) " more" } }
                }
            }
        }
    }
}

fn events(events: &[Happened]) -> Markup {
    html! {
        section #events aria-labelledby="events-title" {
            h2 #events-title { "Last events" }
            @if events.is_empty() { p #no-events { "Nothing has happened since the console was started." } }
            ol.events #event-list role="log" aria-live="polite" aria-relevant="additions" tabindex="0"
                aria-labelledby="events-title" {
                @for happened in events.iter().take(100) {
                    li #(format!("event-{}", happened.number)) data-level=(name(happened.event.level)) {
                        (moment(happened.event.at_unix_ms)) " "
                        span.from { (clipped(&happened.source)) } " "
                        (mark(happened.event.level)) (clipped(&happened.event.text))
                    }
                }
            }
        }
    }
}

/// A state: its words, and beside them a sign and a colour that say the same.
fn badge(text: &str, level: Level) -> Markup {
    html! {
        span.badge data-level=(name(level)) { (mark(level)) (clipped(text)) }
    }
}

/// The sign that stands for a colour.
fn mark(level: Level) -> Markup {
    let (sign, word) = match level {
        Level::Neutral => return html! {},
        Level::Good => ("✓", "good: "),
        Level::Busy => ("…", "under way: "),
        Level::Warning => ("!", "warning: "),
        Level::Bad => ("✗", "bad: "),
    };
    html! {
        span.mark aria-hidden="true" { (sign) }
        span.hidden { (word) }
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Neutral => "neutral",
        Level::Good => "good",
        Level::Busy => "busy",
        Level::Warning => "warning",
        Level::Bad => "bad",
    }
}
