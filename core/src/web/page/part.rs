//! One source on the page.

use maud::{Markup, html};

use super::{
    badge,
    graph::graph,
    plot::plot,
    value::{clipped, value},
};
use crate::{
    status::{StatusTable, StatusValue, Unit},
    web::board::Shown,
};

/// Rows of a table, beyond which only their number is told.
const ROWS: usize = 200;

/// A source: state, reason, picture, facts, tables, plots, actions.
pub(super) fn part(shown: &Shown, actions: bool) -> Markup {
    let snapshot = &shown.snapshot;
    let id = id_of(&shown.name);
    html! {
        article.part #(id) aria-labelledby=(format!("{id}-title")) data-source=(shown.name) {
            h3 #(format!("{id}-title")) { (clipped(&shown.name)) }
            @if let Some(state) = &snapshot.state { p.state { (badge(&state.text, state.level)) } }
            @if let Some(reason) = &snapshot.unready { p.unready { "Not ready: " (clipped(reason)) } }
            @if let Some(drawn) = &snapshot.graph { (graph(drawn, &id)) }
            @if !snapshot.facts.is_empty() {
                dl {
                    @for fact in &snapshot.facts {
                        div { dt { (clipped(&fact.label)) } dd { (value(&fact.value, fact.unit)) } }
                    }
                }
            }
            @for one in &snapshot.tables { (table(one)) }
            @for one in shown.plots.iter().chain(&snapshot.series) { (plot(one)) }
            @if actions && !shown.actions.is_empty() {
                div.actions.needs-script role="group" aria-label=(format!("Actions on {}", shown.name)) {
                    @for action in &shown.actions {
                        button type="button" data-source=(shown.name) data-action=(action.name)
                            data-effect=(action.effect) title=(action.effect) { (clipped(&action.name)) }
                    }
                }
            }
        }
    }
}

/// Scrolls by itself where it is wider than the page, also by keyboard.
fn table(table: &StatusTable) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.caption) {
            table {
                caption { (clipped(&table.caption)) }
                thead {
                    tr { @for (label, _) in &table.columns { th scope="col" { (clipped(label)) } } }
                }
                tbody {
                    @for row in table.rows.iter().take(ROWS) {
                        tr {
                            @for (place, (cell, (_, unit))) in row.iter().zip(&table.columns).enumerate() {
                                @if place == 0 { th scope="row" { (value(cell, *unit)) } }
                                @else if is_number(cell, *unit) { td.number { (value(cell, *unit)) } }
                                @else { td { (value(cell, *unit)) } }
                            }
                        }
                    }
                    @if table.rows.is_empty() {
                        tr { td colspan=(table.columns.len()) { "none" } }
                    }
                }
            }
            @if table.rows.len() > ROWS { p { "and " (table.rows.len() - ROWS) " more" } }
        }
    }
}

fn is_number(cell: &StatusValue, unit: Unit) -> bool {
    unit != Unit::UnixMilliseconds && matches!(cell, StatusValue::Count(_) | StatusValue::Number(_))
}

/// A name of the same letters, or what stands for them: the same for the same source, so that the
/// script knows it again.
fn id_of(name: &str) -> String {
    let mut id = String::from("part-");
    for character in name.chars().take(200) {
        if character.is_ascii_alphanumeric() {
            id.push(character);
        } else {
            id.push_str(&format!("-{:x}", u32::from(character)));
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_as_names_do() {
        assert_eq!(id_of("endpoint a"), "part-endpoint-20a");
        assert_ne!(id_of("a b"), id_of("a-b"));
        assert!(!id_of("\"><script>").contains(['"', '<', '>']));
    }
}
