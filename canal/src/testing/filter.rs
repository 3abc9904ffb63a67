//! The filter of an instance: which tables' changes the server lets through.

use regex::{Regex, RegexBuilder};

/// Canal's table filter: regular expressions over `schema.table`, separated by commas.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    text: String,
    rule: Rule,
}

#[derive(Debug, Default)]
enum Rule {
    #[default]
    Everything,
    AnyOf(Vec<Regex>),
    /// A part is no regular expression: the real server's parser dies and is started again until a
    /// better filter comes.
    Broken,
}

impl Filter {
    /// Like servers up to 1.1.8: cut at every comma, blanks kept, each part anchored, case ignored.
    pub(crate) fn new(text: &str) -> Self {
        let parts: Result<Vec<Regex>, _> = text
            .split(',')
            .filter(|part| !part.is_empty())
            .map(|part| {
                RegexBuilder::new(&format!("^(?:{part})$"))
                    .case_insensitive(true)
                    .build()
            })
            .collect();
        let rule = match parts {
            Ok(parts) if parts.is_empty() => Rule::Everything,
            Ok(parts) => Rule::AnyOf(parts),
            Err(_) => Rule::Broken,
        };
        Self {
            text: text.to_owned(),
            rule,
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.rule, Rule::Broken)
    }

    pub(crate) fn passes(&self, schema: &str, table: &str) -> bool {
        match &self.rule {
            Rule::Everything => true,
            Rule::AnyOf(parts) => {
                let name = format!("{schema}.{table}");
                parts.iter().any(|part| part.is_match(&name))
            }
            Rule::Broken => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_as_the_real_server_matches() {
        for (filter, table, passes) in [
            ("", "t1", true),
            (r".*\..*", "t1", true),
            (r"fa\..*", "t1", true),
            (r"fb\..*", "t1", false),
            (r"fb\.x,FA\.T1", "t1", true),
            (r"fb\.x, fa\.t1", "t1", false),
            (r"fa\.t1,", "t1", true),
            ("t1", "t1", false),
            (r"fa\.t", "t1", false),
            (r"fa\.t{1,2}1", "tt1", false),
        ] {
            assert_eq!(Filter::new(filter).passes("fa", table), passes, "{filter}");
        }
        assert!(Filter::new("(((").is_broken());
    }
}
