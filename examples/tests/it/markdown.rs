//! Pages of Markdown: their blocks, and whether what was printed is what one of them shows.

/// A fenced block: what stands behind its fence, and its text.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// The blocks of a page that say what they are, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block {
                kind: kind.to_owned(),
                text: text.join("\n"),
            });
        }
    }
    blocks
}

/// Fails unless the text is as expected, where `…` stands for any text, and on a line of its own for any lines.
pub(crate) fn check(expected: &str, text: &str) {
    let (expected, lines): (Vec<_>, Vec<_>) = (expected.lines().collect(), text.lines().collect());
    assert!(
        fits(&expected, &lines),
        "expected:\n{}\nprinted:\n{text}",
        expected.join("\n")
    );
}

fn line_fits(expected: &str, line: &str) -> bool {
    let Some((before, after)) = expected.split_once('…') else {
        return expected == line;
    };
    let Some(rest) = line.strip_prefix(before) else {
        return false;
    };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| line_fits(after, &rest[at..]))
}

fn fits(expected: &[&str], lines: &[&str]) -> bool {
    match (expected, lines) {
        ([], []) => true,
        (["…", rest @ ..], _) => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        ([line, rest @ ..], [first, others @ ..]) => line_fits(line, first) && fits(rest, others),
        _ => false,
    }
}

#[test]
fn an_output_that_differs_is_seen() {
    assert!(fits(&["a …", "…", "z"], &["a 1", "b", "c", "z"]));
    assert!(fits(&["…", "z"], &["z"]));
    assert!(!fits(&["a …", "…", "z"], &["a 1", "b"]));
    assert!(!fits(&["a"], &["a", "b"]));
    assert!(!line_fits(
        "lost 0, …: every",
        "lost 1, duplicated 0: every"
    ));
    assert!(line_fits("in … files …", "in 3 files killed"));
}
