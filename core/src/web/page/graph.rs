//! A graph, as an inline picture: from the left to the right as things flow.

use maud::{Markup, html};

use super::{name, value::clipped};
use crate::status::{Level, StatusGraph, StatusNode};

/// The picture's own measures.
const NODE: (usize, usize) = (150, 58);
const GAP: (usize, usize) = (56, 22);
const MARGIN: usize = 6;
/// Nodes beyond this many are not drawn.
const NODES: usize = 200;
/// Instances of a node that are drawn.
const PARTS: usize = 16;
/// The most characters of a text in a node.
const LETTERS: usize = 20;

/// The picture, with the same in words for who can't see it.
pub(super) fn graph(graph: &StatusGraph, id: &str) -> Markup {
    let nodes = &graph.nodes[..graph.nodes.len().min(NODES)];
    if nodes.is_empty() {
        return html! {};
    }
    let edges = edges(graph, nodes.len());
    let places = places(nodes.len(), &edges);
    let (columns, rows) = places
        .iter()
        .fold((0, 0), |(columns, rows), (column, row)| {
            (columns.max(column + 1), rows.max(row + 1))
        });
    let width = 2 * MARGIN + columns * (NODE.0 + GAP.0) - GAP.0;
    let height = 2 * MARGIN + rows * (NODE.1 + GAP.1) - GAP.1;
    let corner = |place: usize| {
        let (column, row) = places[place];
        (
            MARGIN + column * (NODE.0 + GAP.0),
            MARGIN + row * (NODE.1 + GAP.1),
        )
    };
    html! {
        figure.graph {
            div.scroll tabindex="0" role="region" aria-label=(format!("Picture: {}", graph.caption)) {
                svg viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="img"
                    aria-labelledby=(format!("{id}-graph")) focusable="false" {
                    title #(format!("{id}-graph")) { (words(graph, nodes)) }
                    @for (from, to, flows) in &edges {
                        path.edge data-flows=(flows) d=(curve(corner(*from), corner(*to))) {}
                    }
                    @for (place, node) in nodes.iter().enumerate() { (drawn(node, corner(place))) }
                }
            }
            figcaption { (clipped(&graph.caption)) }
            @if graph.nodes.len() > NODES { p { "and " (graph.nodes.len() - NODES) " more nodes" } }
        }
    }
}

fn drawn(node: &StatusNode, (x, y): (usize, usize)) -> Markup {
    html! {
        g.node data-level=(name(node.level)) {
            rect x=(x) y=(y) width=(NODE.0) height=(NODE.1) rx="6" {}
            text.name x=(x + 10) y=(y + 20) { (short(&node.name)) }
            text x=(x + 10) y=(y + 36) { (short(&node.text)) }
            @for (place, level) in node.parts.iter().take(PARTS).enumerate() {
                (instance(*level, x + 14 + place * 8, y + 48))
            }
        }
    }
}

/// An instance's dot. Its form says the same as its colour.
fn instance(level: Level, x: usize, y: usize) -> Markup {
    html! {
        @match level {
            Level::Good => circle.dot data-level="good" cx=(x) cy=(y) r="3" {},
            Level::Bad => path.dot data-level="bad" d=(format!("M{} {}l6 6m0 -6l-6 6", x - 3, y - 3)) {},
            other => rect.dot data-level=(name(other)) x=(x - 3) y=(y - 3) width="6" height="6" {},
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn words(graph: &StatusGraph, nodes: &[StatusNode]) -> String {
    let mut words = format!("{}.", clipped(&graph.caption));
    for node in nodes {
        words.push_str(&format!(" {}: {}.", short(&node.name), clipped(&node.text)));
    }
    words
}

/// The edges whose ends are there.
fn edges(graph: &StatusGraph, nodes: usize) -> Vec<(usize, usize, bool)> {
    let there = graph
        .edges
        .iter()
        .filter(|edge| edge.from < nodes && edge.to < nodes);
    there.map(|edge| (edge.from, edge.to, edge.flows)).collect()
}

/// Column and row of each node: a node stands right of all that flow into it. What a loop leaves
/// over stands where the loop is entered first.
fn places(nodes: usize, edges: &[(usize, usize, bool)]) -> Vec<(usize, usize)> {
    let mut columns = vec![0; nodes];
    let mut missing = vec![0_usize; nodes];
    for (_, to, _) in edges.iter().filter(|(from, to, _)| from != to) {
        missing[*to] += 1;
    }
    let mut placed = vec![false; nodes];
    for _ in 0..nodes {
        let free = |place: &usize| !placed[*place] && missing[*place] == 0;
        let next = (0..nodes).find(free);
        // Only loops are left: the node that most of its predecessors lead to already.
        let next = next.or_else(|| {
            let left = (0..nodes).filter(|place| !placed[*place]);
            left.min_by_key(|place| missing[*place])
        });
        let Some(next) = next else { break };
        placed[next] = true;
        for (from, to, _) in edges {
            if *from == next && !placed[*to] {
                columns[*to] = columns[*to].max(columns[next] + 1);
                missing[*to] = missing[*to].saturating_sub(1);
            }
        }
    }
    let mut rows = vec![0; nodes + 1];
    let place = |column: usize| {
        let row = rows[column];
        rows[column] += 1;
        (column, row)
    };
    columns.into_iter().map(place).collect()
}

/// From the right side of one node to the left side of another.
fn curve((from_x, from_y): (usize, usize), (to_x, to_y): (usize, usize)) -> String {
    let (x1, y1) = (from_x + NODE.0, from_y + NODE.1 / 2);
    let (x2, y2) = (to_x, to_y + NODE.1 / 2);
    let bend = GAP.0 / 2;
    format!(
        "M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}",
        x1 + bend,
        x2.saturating_sub(bend)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::StatusEdge;

    fn edge(from: usize, to: usize) -> (usize, usize, bool) {
        (from, to, true)
    }

    #[test]
    fn nodes_stand_right_of_what_flows_into_them() {
        let diamond = [edge(0, 1), edge(0, 2), edge(1, 3), edge(2, 3), edge(0, 3)];
        assert_eq!(places(4, &diamond), [(0, 0), (1, 0), (1, 1), (2, 0)]);
    }

    #[test]
    fn loops_are_drawn_and_end() {
        assert_eq!(places(2, &[edge(0, 1), edge(1, 0)]), [(0, 0), (1, 0)]);
        assert_eq!(places(1, &[edge(0, 0)]), [(0, 0)]);
        let ring: Vec<_> = (0..50).map(|place| edge(place, (place + 1) % 50)).collect();
        assert_eq!(places(50, &ring).len(), 50);
    }

    #[test]
    fn edges_that_lead_nowhere_are_left_out_and_texts_are_escaped() {
        let drawn = StatusGraph {
            caption: "<region>".into(),
            nodes: vec![StatusNode {
                name: "<script>".into(),
                parts: vec![Level::Good, Level::Bad, Level::Busy],
                ..StatusNode::default()
            }],
            edges: vec![StatusEdge {
                from: 0,
                to: 7,
                flows: false,
            }],
        };
        let text = graph(&drawn, "id").into_string();
        assert!(!text.contains("<script>") && text.contains("&lt;script&gt;"));
        assert!(!text.contains("class=\"edge\""));
    }
}
