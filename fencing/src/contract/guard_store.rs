//! What every [`GuardStore`] must do.

use std::sync::Arc;

use crate::guard::{Creation, GuardError, GuardStore, MAX_RECORD_BYTES};

/// Runs them all; `open` opens the same, at first empty store again and again.
pub fn all<S: GuardStore>(open: impl Fn() -> S) {
    creates_once(&open(), &open());
    lists_what_was_created(&open(), &open());
    refuses_what_it_cannot_keep(&open());
    one_of_many_creates(&open);
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
