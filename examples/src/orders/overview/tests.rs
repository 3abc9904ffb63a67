//! What the parent makes of what its processes tell.

use lockkeeper_core::status::{Level, StatusAction, StatusEvent, StatusSnapshot};

use super::*;

fn find(overview: &Overview, name: &str) -> Option<Arc<dyn StatusSource>> {
    let sources = overview.registry().sources();
    sources.into_iter().find(|source| source.name() == name)
}

fn state(overview: &Overview, name: &str) -> String {
    let snapshot = find(overview, name).unwrap().snapshot();
    snapshot.state.unwrap().text
}

fn region(actions: &[&str]) -> Report {
    let actions = actions
        .iter()
        .map(|name| StatusAction::new(*name, "does it"));
    Report::Status {
        sources: vec![Told {
            name: "region orders".to_owned(),
            snapshot: StatusSnapshot::default().with_state("Processing", Level::Good),
            actions: actions.collect(),
        }],
    }
}

#[test]
fn a_killed_process_is_shown_down_and_what_it_told_is_gone() {
    use std::os::unix::process::ExitStatusExt;

    let (overview, _wishes) = Overview::new();
    overview.started("worker-0", Some(7));
    assert_eq!(state(&overview, "worker-0"), "starting");
    assert!(overview.take("worker-0", &region(&[])));
    assert_eq!(state(&overview, "worker-0"), "running");
    assert_eq!(state(&overview, "worker-0 · region orders"), "Processing");
    let mut events = find(&overview, "worker-0").unwrap().events().unwrap();
    overview.ended("worker-0", Some(ExitStatus::from_raw(9)));
    assert_eq!(state(&overview, "worker-0"), "down");
    assert!(find(&overview, "worker-0 · region orders").is_none());
    assert_eq!(
        events.try_recv().unwrap().text,
        "process 7 was killed by signal 9"
    );
    overview.started("worker-0", Some(8));
    assert_eq!(events.try_recv().unwrap().text, "started again, process 8");
}

#[test]
fn events_are_passed_on_and_parts_that_are_not_told_any_more_are_gone() {
    let (overview, _wishes) = Overview::new();
    overview.started("worker-0", None);
    overview.take("worker-0", &region(&[]));
    let name = "worker-0 · region orders";
    let mut events = find(&overview, name).unwrap().events().unwrap();
    let event = StatusEvent::now("cut 3 is complete");
    let happened = Report::Happened {
        source: "region orders".to_owned(),
        event: event.clone(),
    };
    overview.take("worker-0", &happened);
    assert_eq!(events.try_recv().unwrap(), event);
    let nothing = Report::Status {
        sources: Vec::new(),
    };
    overview.take("worker-0", &nothing);
    assert!(find(&overview, name).is_none());
    let cut = Report::Cut {
        at: 1,
        seq: 1,
        term: 1,
    };
    assert!(!overview.take("worker-0", &cut));
}

#[tokio::test]
async fn an_action_reaches_its_process_and_the_answer_whoever_asked() {
    let (overview, mut wishes) = Overview::new();
    overview.started("coordinator-0", None);
    overview.take("coordinator-0", &region(&["cut"]));
    let source = find(&overview, "coordinator-0 · region orders").unwrap();
    let control = source.control().unwrap();
    let answer = control.act("cut");
    let wish = wishes.recv().await.unwrap();
    assert_eq!(wish.process, "coordinator-0");
    assert_eq!(
        (wish.act.source.as_str(), wish.act.action.as_str()),
        ("region orders", "cut")
    );
    let acted = Report::Acted {
        number: wish.act.number,
        result: Ok("a cut is taken".to_owned()),
    };
    overview.take("coordinator-0", &acted);
    assert_eq!(answer.await, Ok("a cut is taken".to_owned()));
    let refused = control.act("cut");
    overview.refuse(&wishes.recv().await.unwrap());
    assert_eq!(refused.await, Err("coordinator-0 does not run".to_owned()));
    drop(wishes);
    let nobody = control.act("cut").await.unwrap_err();
    assert_eq!(nobody, "coordinator-0 ended before it answered");
}
