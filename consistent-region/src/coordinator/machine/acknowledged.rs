//! What sources may have acknowledged (`acked_through`): the record has it before they do, and nobody
//! goes back behind it.

use super::Event;
use super::bench::{Bench, PERIOD, checkpoint_done, settings};
use crate::coordinator::event::{Beginning, CommandRefused};
use crate::coordinator::settings::CoordinatorSettings;
use crate::coordinator::status::RegionState;
use crate::protocol::{Order, ProgressEvent};

const RETAINED: usize = 2;

/// A region whose source acknowledges, or can always be read again.
fn processing(acknowledges: bool) -> Bench {
    let mut settings = CoordinatorSettings {
        retained: RETAINED,
        ..settings()
    };
    settings.shape.instances[0].acknowledges = acknowledges;
    let mut bench = Bench::open(settings, Beginning::default());
    bench.join_all();
    bench.all_say(&ProgressEvent::ResetDone);
    assert_eq!(bench.state(), RegionState::Processing);
    bench.orders.clear();
    bench
}

fn cut(bench: &mut Bench) -> u64 {
    bench.wait(PERIOD);
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.state(), RegionState::Processing);
    bench.machine.status().completed
}

fn acked_through(bench: &Bench) -> u64 {
    bench.log.last().unwrap().record.acked_through
}

fn restore(bench: &mut Bench, name: &str) -> Result<(), CommandRefused> {
    let (request, name) = (bench.request(), name.to_owned());
    bench.feed(Event::RestoreRequested { request, name });
    bench.answer.take().unwrap()
}

/// A cut that is kept by name.
fn savepoint(bench: &mut Bench, name: &str) -> u64 {
    let (request, name) = (bench.request(), name.to_owned());
    bench.feed(Event::SavepointRequested {
        request,
        name,
        stop: false,
    });
    bench.all_say(&checkpoint_done());
    bench.machine.status().completed
}

#[test]
fn the_entry_that_lets_sources_acknowledge_holds_how_far() {
    let mut bench = processing(true);
    for cuts in 1..=5 {
        bench.orders.clear();
        cut(&mut bench);
        let told = bench.orders.iter().find_map(|(.., order)| match order {
            Order::Checkpointed {
                oldest_retained, ..
            } => Some(*oldest_retained),
            _ => None,
        });
        let with_manifest = bench.log.iter().rfind(|entry| entry.manifest.is_some());
        let written = with_manifest.unwrap().record.acked_through;
        assert_eq!(told, Some(written), "after {cuts} cuts");
        assert_eq!(written == 0, cuts < RETAINED, "after {cuts} cuts");
    }
}

#[test]
fn a_savepoint_older_than_what_was_acknowledged_is_refused_and_nothing_is_reset() {
    let mut bench = processing(true);
    let early = savepoint(&mut bench, "early");
    cut(&mut bench);
    assert_eq!(acked_through(&bench), early);
    let acknowledged = cut(&mut bench) - 1;
    assert_eq!(acked_through(&bench), acknowledged);
    bench.orders.clear();
    let refused = CommandRefused::SourceMovedOn {
        savepoint: early,
        acknowledged,
    };
    assert_eq!(restore(&mut bench, "early"), Err(refused));
    assert_eq!(bench.state(), RegionState::Processing);
    assert!(bench.orders.is_empty(), "{:?}", bench.orders);

    // One that no acknowledgement has passed is gone back to, and that counts for good.
    let late = savepoint(&mut bench, "late");
    assert_eq!(restore(&mut bench, "late"), Ok(()));
    assert_eq!(bench.state(), RegionState::Resetting);
    assert_eq!(acked_through(&bench), late);
}

#[test]
fn sources_that_can_always_be_read_again_go_back_to_any_savepoint() {
    let mut bench = processing(false);
    savepoint(&mut bench, "early");
    for _ in 0..5 {
        cut(&mut bench);
    }
    assert_eq!(acked_through(&bench), 0);
    assert_eq!(restore(&mut bench, "early"), Ok(()));
    assert_eq!(bench.state(), RegionState::Resetting);
}

/// Nobody comes back for its rows: sources acknowledge all of it (S25).
#[test]
fn a_last_cut_counts_as_acknowledged_as_a_whole() {
    let mut bench = processing(true);
    cut(&mut bench);
    let request = bench.request();
    bench.feed(Event::StopRequested { request });
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.state(), RegionState::Ending);
    assert_eq!(acked_through(&bench), bench.machine.status().completed);
}
