//! Whether two coordinators led at once: from what each said while it led. Pure.
//!
//! A coordinator reads the clock, and after that finds that it leads under its term: so it led at
//! that reading, because its grant was before and the look after it. Readings of all processes are of
//! one clock. Between the first and the last reading of a term nobody else may have led.

use std::collections::BTreeMap;

/// Who said it: a process, not a role.
pub(crate) type Life = String;

/// When a term was led.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tenure {
    life: Life,
    first_ns: u64,
    last_ns: u64,
}

/// All tenures of a run.
#[derive(Debug, Default)]
pub(crate) struct Tenures {
    terms: BTreeMap<u64, Tenure>,
    findings: Vec<String>,
}

impl Tenures {
    /// That process led under that term at that moment.
    pub(crate) fn saw(&mut self, life: &str, term: u64, at_ns: u64) {
        let tenure = self.terms.entry(term).or_insert_with(|| Tenure {
            life: life.to_owned(),
            first_ns: at_ns,
            last_ns: at_ns,
        });
        if tenure.life != life {
            let finding = format!("term {term} was led by {} and by {life}", tenure.life);
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        tenure.first_ns = tenure.first_ns.min(at_ns);
        tenure.last_ns = tenure.last_ns.max(at_ns);
    }

    /// How many terms were led.
    pub(crate) fn count(&self) -> u64 {
        self.terms.len() as u64
    }

    /// What is wrong.
    pub(crate) fn findings(&self) -> Vec<String> {
        let mut findings = self.findings.clone();
        let mut before: Option<(u64, &Tenure)> = None;
        for (&term, tenure) in &self.terms {
            if let Some((other, led)) = before
                && led.last_ns >= tenure.first_ns
            {
                findings.push(format!(
                    "two leaders at once: {} led in term {other} until {} ns, {} in term {term} from {} ns",
                    led.life, led.last_ns, tenure.life, tenure.first_ns
                ));
            }
            // a tenure may be overlapped by later ones than the next
            if before.is_none_or(|(_, led)| led.last_ns < tenure.last_ns) {
                before = Some((term, tenure));
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &[(&str, u64, u64)]) -> Vec<String> {
        let mut tenures = Tenures::default();
        for (life, term, at) in said {
            tenures.saw(life, *term, *at);
        }
        tenures.findings()
    }

    #[test]
    fn one_after_another_is_right_in_whatever_order_it_is_heard() {
        let said = [
            ("b", 2, 30),
            ("a", 1, 20),
            ("a", 1, 10),
            ("b", 2, 40),
            ("a", 5, 50),
        ];
        assert_eq!(of(&said), Vec::<String>::new());
    }

    #[test]
    fn a_leader_that_still_leads_when_the_next_does_is_found() {
        let found = of(&[("a", 1, 10), ("b", 2, 30), ("a", 1, 31), ("b", 2, 40)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("two leaders at once"), "{found:?}");
    }

    #[test]
    fn a_leader_that_outlives_the_next_two_is_found_twice() {
        let found = of(&[
            ("a", 1, 10),
            ("a", 1, 90),
            ("b", 2, 30),
            ("b", 2, 40),
            ("c", 3, 50),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_higher_term_that_was_led_earlier_is_found() {
        assert_eq!(of(&[("a", 2, 10), ("b", 1, 20)]).len(), 1);
    }

    #[test]
    fn a_term_that_two_processes_led_is_found_once() {
        let found = of(&[("a", 1, 10), ("b", 1, 20), ("b", 1, 30)]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
