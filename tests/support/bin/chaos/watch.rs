//! What the processes of the job report, put together.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_examples::orders::cluster::NodeName;
use lockkeeper_examples::orders::report::Report;

use super::schedule::Kind;
use super::tenure::Tenures;

/// A fault that is over and after which no cut was complete yet.
#[derive(Debug)]
struct Open {
    kind: Kind,
    over_ms: u64,
}

/// Everything heard so far. Times are milliseconds since the machine's start.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) tenures: Tenures,
    /// Cuts that a leader told to be complete.
    pub(crate) cuts: BTreeSet<u64>,
    pub(crate) resets: u64,
    pub(crate) subscribed: bool,
    pub(crate) completed: bool,
    pub(crate) failed: Option<String>,
    /// Who led last, under which term.
    leader: Option<(u64, NodeName)>,
    active: BTreeSet<u64>,
    open: Vec<Open>,
    survived: BTreeMap<Kind, u64>,
    recovery_ms: BTreeMap<Kind, u64>,
}

impl Watch {
    /// Takes what a life of a node told.
    pub(crate) fn take(&mut self, node: &NodeName, life: u32, report: &Report) {
        match report {
            Report::Subscribed => self.subscribed = true,
            Report::Rows { at, .. } => {
                self.active.insert(*at);
            }
            Report::Leads { at_ns, term } => {
                self.tenures.saw(&format!("{node}#{life}"), *term, *at_ns);
                if self.leader.as_ref().is_none_or(|(newest, _)| newest < term) {
                    self.leader = Some((*term, node.clone()));
                }
            }
            Report::Cut { at, seq, .. } => {
                self.cuts.insert(*seq);
                self.recovered(*at);
            }
            Report::Reset { .. } => self.resets += 1,
            Report::Completed => {
                self.completed = true;
                self.recovered(u64::MAX);
            }
            Report::Failed { reason } => self.failed = Some(reason.clone()),
            Report::Leader { .. }
            | Report::FirstRows { .. }
            | Report::SourceEmits { .. }
            | Report::Status { .. }
            | Report::Happened { .. }
            | Report::Admin { .. }
            | Report::StopAsked
            | Report::Acted { .. }
            | Report::Kill { .. }
            | Report::Stop { .. } => {}
        }
    }

    /// A fault is over: the next cut shows that it was survived.
    pub(crate) fn over(&mut self, kind: Kind, over_ms: u64) {
        self.open.push(Open { kind, over_ms });
    }

    fn recovered(&mut self, at: u64) {
        for open in self.open.extract_if(.., |open| open.over_ms < at) {
            *self.survived.entry(open.kind).or_default() += 1;
            if at < u64::MAX {
                let longest = self.recovery_ms.entry(open.kind).or_default();
                *longest = (*longest).max(at - open.over_ms);
            }
        }
    }

    /// Who led last.
    pub(crate) fn leader(&self) -> Option<&NodeName> {
        self.leader.as_ref().map(|(_, node)| node)
    }

    /// How often each kind was survived.
    pub(crate) fn survived(&self) -> &BTreeMap<Kind, u64> {
        &self.survived
    }

    /// The longest time from the end of a fault of each kind to the next cut.
    pub(crate) fn recovery_ms(&self) -> &BTreeMap<Kind, u64> {
        &self.recovery_ms
    }

    /// The longest time between two row changes processed anywhere.
    pub(crate) fn longest_pause_ms(&self) -> u64 {
        let later = self.active.iter().skip(1);
        let pauses = self.active.iter().zip(later).map(|(one, next)| next - one);
        pauses.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_examples::orders::cluster::Role;

    use super::*;

    fn watch(reports: &[(u16, Report)]) -> Watch {
        let mut watch = Watch::default();
        for (number, report) in reports {
            watch.take(&node(*number), 1, report);
        }
        watch
    }

    fn node(number: u16) -> NodeName {
        NodeName {
            role: Role::Coordinator,
            number,
        }
    }

    fn cut(at: u64, seq: u64) -> Report {
        Report::Cut { at, seq, term: 1 }
    }

    #[test]
    fn the_longest_pause_is_over_all_processes() {
        let rows = |at| Report::Rows { at, changes: 1 };
        let heard = watch(&[(0, rows(10)), (0, rows(90)), (1, rows(50)), (1, rows(55))]);
        assert_eq!(heard.longest_pause_ms(), 40);
    }

    #[test]
    fn a_fault_is_survived_by_a_cut_after_its_end() {
        let mut heard = Watch::default();
        heard.over(Kind::KillWorker, 100);
        heard.take(&node(0), 1, &cut(100, 1));
        assert_eq!(heard.survived().get(&Kind::KillWorker), None);
        heard.take(&node(0), 1, &cut(130, 2));
        assert_eq!(heard.survived()[&Kind::KillWorker], 1);
        assert_eq!(heard.recovery_ms()[&Kind::KillWorker], 30);
    }

    #[test]
    fn the_newest_term_names_the_leader_whoever_is_heard_last() {
        let leads = |term, at_ns| Report::Leads { at_ns, term };
        let heard = watch(&[(0, leads(1, 10)), (1, leads(2, 20)), (0, leads(1, 11))]);
        assert_eq!(heard.leader(), Some(&node(1)));
    }
}
