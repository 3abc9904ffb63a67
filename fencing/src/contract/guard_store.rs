//! What every [`GuardStore`] must do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::token::{FencingToken, Lineage};
use uuid::Uuid;

use crate::guard::{
    Creation, EpochGuard, GuardError, GuardStore, Guarded, MAX_PRUNED, MAX_RECORD_BYTES,
    ManifestId, adopt_lineage, highest_fence, read_newest,
};

/// How often leadership goes over while both writers publish.
const LEADERSHIPS: u64 = 12;
/// What each of the writers publishes at most under one epoch.
const MANIFESTS: u64 = 40;

/// Runs them all; `open` opens the same, at first empty store again and again.
pub fn all<S: GuardStore>(open: impl Fn() -> S) {
    creates_once(&open(), &open());
    lists_what_was_created(&open(), &open());
    refuses_what_it_cannot_keep(&open());
    one_of_many_creates(&open);
    two_writers_race_and_the_history_is_one(Arc::new(open()), Arc::new(open()));
    another_lineage_is_refused_until_it_is_adopted(Arc::new(open()), Arc::new(open()));
    former_leaders_leave_no_records(Arc::new(open()), Arc::new(open()));
}

/// A second creation of a name changes nothing, by whomever.
pub fn creates_once(store: &dyn GuardStore, other: &dyn GuardStore) {
    assert_eq!(
        store.create_if_absent("once-1", b"first").unwrap(),
        Creation::Created
    );
    assert_eq!(
        other.create_if_absent("once-1", b"second").unwrap(),
        Creation::AlreadyExists
    );
    assert_eq!(other.read("once-1").unwrap().unwrap(), b"first");
    store.remove("once-1").unwrap();
    store.remove("once-1").unwrap();
    assert_eq!(other.read("once-1").unwrap(), None);
    assert_eq!(
        other.create_if_absent("once-1", b"").unwrap(),
        Creation::Created
    );
    assert_eq!(store.read("once-1").unwrap().unwrap(), b"");
}

/// A listing has every record whose creation was answered, and none that was removed.
pub fn lists_what_was_created(store: &dyn GuardStore, other: &dyn GuardStore) {
    for name in ["list-2", "list-10", "list-3", "lost-1"] {
        store.create_if_absent(name, name.as_bytes()).unwrap();
    }
    store.remove("list-3").unwrap();
    let mut names = other.list("list-").unwrap();
    names.sort();
    assert_eq!(names, ["list-10", "list-2"]);
    assert_eq!(other.list("nothing-").unwrap(), Vec::<String>::new());
}

/// Names and sizes are checked before anything is touched.
pub fn refuses_what_it_cannot_keep(store: &dyn GuardStore) {
    for name in ["", ".hidden", "../above", "a/b", "a b"] {
        let refused = store.create_if_absent(name, b"").unwrap_err();
        assert!(
            matches!(refused, GuardError::InvalidName { .. }),
            "{name}: {refused}"
        );
    }
    let refused = store
        .create_if_absent("large-1", &vec![0; MAX_RECORD_BYTES + 1])
        .unwrap_err();
    assert!(matches!(refused, GuardError::TooLarge { .. }), "{refused}");
    assert_eq!(store.read("large-1").unwrap(), None);
}

/// Of many that create one name at once, one has created it, and its bytes are there.
pub fn one_of_many_creates<S: GuardStore>(open: impl Fn() -> S) {
    let stores: Vec<Arc<S>> = (0..4).map(|_| Arc::new(open())).collect();
    for round in 0..20 {
        let name = format!("race-{round}");
        let created: Vec<u8> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0_u8..).zip(&stores).collect();
            let racers = racers.into_iter().map(|(number, store)| {
                let name = &name;
                let race = move || (number, store.create_if_absent(name, &[number]).unwrap());
                scope.spawn(race)
            });
            let racers: Vec<_> = racers.collect();
            let ended = racers.into_iter().map(|racer| racer.join().unwrap());
            ended
                .filter(|(_, made)| *made == Creation::Created)
                .map(|(number, _)| number)
                .collect()
        });
        assert_eq!(created.len(), 1, "round {round}: created by {created:?}");
        assert_eq!(stores[0].read(&name).unwrap().unwrap(), created);
    }
}

/// Two processes become leader again and again, in turns, remove what former leaders have left, and
/// publish all the time: what was answered as published is in the history, once, and nothing that came
/// after a fence is.
pub fn two_writers_race_and_the_history_is_one(one: Arc<dyn GuardStore>, two: Arc<dyn GuardStore>) {
    let first = highest_fence(one.as_ref()).unwrap() + 1;
    let epoch = AtomicU64::new(first);
    let published: Vec<ManifestId> = std::thread::scope(|scope| {
        let writers = [&one, &two]
            .map(|store| scope.spawn(|| lead_again_and_again(store, &epoch, first + LEADERSHIPS)));
        writers.map(|writer| writer.join().unwrap()).concat()
    });
    let mut sequences: Vec<u64> = published.iter().map(|found| found.sequence).collect();
    sequences.sort_unstable();
    let count = sequences.len();
    sequences.dedup();
    assert_eq!(
        sequences.len(),
        count,
        "a number was published twice: {published:?}"
    );
    assert!(
        count > 0,
        "nothing was published: the race has not taken place"
    );
    // A last leader sees the history as all later ones will.
    let last = epoch.load(Ordering::SeqCst) + 1;
    let entered = EpochGuard::enter(one, last).unwrap();
    let chain = entered.done().unwrap().chain().unwrap();
    for manifest in &published {
        assert!(
            chain.contains(*manifest),
            "{manifest} was published and is gone"
        );
    }
    let (newest, bytes) = read_newest(two.as_ref()).unwrap().unwrap();
    assert_eq!(bytes, newest.to_string().as_bytes());
}

fn lead_again_and_again(
    store: &Arc<dyn GuardStore>,
    epoch: &AtomicU64,
    end: u64,
) -> Vec<ManifestId> {
    let mut published = Vec::new();
    loop {
        let own = epoch.fetch_add(1, Ordering::SeqCst);
        if own >= end {
            return published;
        }
        let Guarded::Done(mut guard) = EpochGuard::enter(store.clone(), own).unwrap() else {
            continue;
        };
        if !guard.prune().unwrap().is_done() {
            continue;
        }
        for _ in 0..MANIFESTS {
            let sequence = guard.newest().map_or(0, |newest| newest.sequence) + 1;
            let manifest = ManifestId {
                sequence,
                epoch: own,
            };
            match guard
                .publish(sequence, manifest.to_string().as_bytes())
                .unwrap()
            {
                Guarded::Done(manifest) => published.push(manifest),
                Guarded::SteppedDown { highest } => {
                    assert!(highest > own);
                    break;
                }
            }
        }
    }
}

/// However many leaders there were: the fence and the base of the last one stay, and the history does.
/// A former leader is refused by what has stayed.
pub fn former_leaders_leave_no_records(one: Arc<dyn GuardStore>, two: Arc<dyn GuardStore>) {
    let begin = highest_fence(one.as_ref()).unwrap() + 1;
    let enter = |store: &Arc<dyn GuardStore>, epoch| {
        let entered = EpochGuard::enter(store.clone(), epoch).unwrap();
        entered.done().unwrap()
    };
    let mut old = enter(&one, begin);
    let mut next = old.newest().map_or(0, |newest| newest.sequence) + 1;
    let Guarded::Done(first) = old.publish(next, b"first").unwrap() else {
        panic!("there is no other leader")
    };
    let leaders = u64::try_from(MAX_PRUNED / 2).unwrap();
    for epoch in begin + 1..=begin + leaders {
        next += 1;
        let mut guard = enter(&one, epoch);
        assert!(guard.publish(next, b"next").unwrap().is_done());
    }
    let last = begin + leaders + 1;
    let mut new = enter(&two, last);
    // More than may be removed at once.
    assert_eq!(new.prune().unwrap(), Guarded::Done(MAX_PRUNED));
    while new.prune().unwrap().done().unwrap() > 0 {}
    assert_eq!(one.list("fence-").unwrap(), [format!("fence-{last}")]);
    assert_eq!(one.list("base-").unwrap(), [format!("base-{last}")]);

    let late = old.publish(next + 1, b"late").unwrap();
    assert!(matches!(late, Guarded::SteppedDown { highest } if highest > begin));
    assert_eq!(highest_fence(one.as_ref()).unwrap(), last);
    assert_eq!(read_newest(one.as_ref()).unwrap().unwrap().0.sequence, next);
    let latest = enter(&one, last + 1);
    assert_eq!(latest.newest().map(|newest| newest.sequence), Some(next));
    let chain = latest.chain().unwrap();
    assert!(chain.contains(first), "{first} was published and is gone");
    assert!(chain.left_over().any(|left| left.epoch == begin));
}

/// Epochs of another coordination store do not lead until somebody says that they do; then its
/// leaders continue the history, and those of the former one are refused.
pub fn another_lineage_is_refused_until_it_is_adopted(
    store: Arc<dyn GuardStore>,
    other: Arc<dyn GuardStore>,
) {
    let (former, adopted) = (Lineage::from(1_u64), Lineage::from(2_u64));
    let token = |lineage, epoch| FencingToken::new(lineage, epoch, Uuid::new_v4());
    let begin = highest_fence(store.as_ref()).unwrap() + 1;
    let entered = EpochGuard::enter_with(store.clone(), &token(former, begin)).unwrap();
    let mut old = entered.done().unwrap();
    let sequence = old.newest().map_or(0, |newest| newest.sequence) + 1;
    assert!(old.publish(sequence, b"former").unwrap().is_done());
    // Lower or higher, epochs of another lineage mean nothing here.
    let refused =
        |store: &Arc<dyn GuardStore>, token| match EpochGuard::enter_with(store.clone(), &token) {
            Err(GuardError::LineageChanged { expected, found }) => (expected, found),
            other => panic!("another lineage was not refused: {other:?}"),
        };
    for epoch in [1, begin + 1] {
        assert_eq!(refused(&other, token(adopted, epoch)), (former, adopted));
    }
    assert!(old.publish(sequence + 1, b"former").unwrap().is_done());
    // Whoever does it, and however often.
    for store in [&store, &other] {
        let above = adopt_lineage(store.as_ref(), former, adopted).unwrap();
        assert_eq!(above, begin);
    }
    let entered = EpochGuard::enter_with(other.clone(), &token(adopted, 1)).unwrap();
    let mut new = entered.done().unwrap();
    assert_eq!(
        new.newest().map(|newest| newest.sequence),
        Some(sequence + 1)
    );
    assert!(!old.publish(sequence + 2, b"former").unwrap().is_done());
    assert!(new.publish(sequence + 2, b"adopted").unwrap().is_done());
    assert_eq!(read_newest(store.as_ref()).unwrap().unwrap().1, b"adopted");
    assert_eq!(refused(&store, token(former, begin + 9)), (adopted, former));
}
