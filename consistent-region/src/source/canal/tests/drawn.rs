//! What a console draws of a source.

use lockkeeper_core::status::{Level, StatusSnapshot, StatusValue};

use super::*;

/// What a console draws of it.
fn drawn(played: &Played) -> StatusSnapshot {
    let sources = played.source.context.status().sources();
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0].name(), "canal source source[0]");
    sources[0].snapshot()
}

fn state(snapshot: &StatusSnapshot) -> &str {
    &snapshot.state.as_ref().unwrap().text
}

fn fact(snapshot: &StatusSnapshot, label: &str) -> f64 {
    snapshot.get(label).unwrap().as_f64().unwrap()
}

#[test]
fn a_source_of_a_paused_region_says_so_unless_there_is_something_worse_or_nothing_more() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start_with(&server, 16_384, |config| {
            config.idle_before_cut = LIMIT;
        });
        let paused = Arc::clone(&played.source.context.region().paused);
        let pause = |now| paused.store(now, Ordering::Relaxed);
        let why = "paused: the region's sources are";
        // launched into a pause
        pause(true);
        assert_eq!(state(&drawn(&played)), why);
        assert_eq!(drawn(&played).unready, None);
        pause(false);
        played
            .until(|played| played.rows.len() >= 150)
            .await
            .unwrap();
        pause(true);
        let shown = drawn(&played);
        assert_eq!(state(&shown), why);
        assert_eq!(shown.state.as_ref().unwrap().level, Level::Warning);
        assert_eq!(shown.unready, None);
        pause(false);
        assert_eq!(state(&drawn(&played)), "streaming");

        server.handle().restart(Restart::Killed);
        assert!(played.until(|_| false).await.is_err());
        pause(true);
        let shown = drawn(&played);
        assert!(state(&shown).starts_with("failed: "), "{shown:?}");
        pause(false);
        played.reset(0);
        played.end().await.unwrap();
        pause(true);
        assert_eq!(state(&drawn(&played)), "has no more");
    });
}

#[test]
fn a_console_sees_position_lag_and_what_is_not_acknowledged() {
    local(async {
        let server = server(16_384);
        // it asks for no cut by itself
        let mut played = Played::start_with(&server, 16_384, |config| {
            config.idle_before_cut = LIMIT;
        });
        assert_eq!(state(&drawn(&played)), "waits for the region");
        played
            .until(|played| played.rows.len() >= 150)
            .await
            .unwrap();
        let shown = drawn(&played);
        assert_eq!(state(&shown), "streaming");
        assert_eq!(shown.unready, None);
        assert_eq!(shown.get("destination"), Some(&"example".into()));
        let address = server.address().to_string();
        assert_eq!(shown.get("address"), Some(&address.into()));
        let Some(StatusValue::Text(position)) = shown.get("position") else {
            panic!("{shown:?}");
        };
        assert!(position.contains(':'), "{position}");
        let taken = played.rows.len() as u64;
        assert_eq!(shown.get("changes"), Some(&taken.into()));
        // its rows are of the first minutes of 1970
        assert!(fact(&shown, "lag") > 1e9);
        let outstanding = fact(&shown, "outstanding batches");
        assert!(outstanding >= 1.0);
        assert!(fact(&shown, "oldest not acknowledged") >= 0.0);

        // the second cut lets go of what the first covers
        played.cut();
        played.cut();
        let fewer = |played: &Played| fact(&drawn(played), "outstanding batches") < outstanding;
        assert!(!played.until(fewer).await.unwrap(), "before its end");

        server.handle().restart(Restart::Killed);
        let Err(error) = played.until(|_| false).await else {
            panic!("its connection was broken");
        };
        let shown = drawn(&played);
        let reason = state(&shown).strip_prefix("failed: ").unwrap();
        assert!(error.to_string().contains(reason), "{error} {reason}");
        assert_eq!(shown.unready.as_deref(), Some(state(&shown)));
        played.reset(0);
        assert_eq!(state(&drawn(&played)), "waits for the region");
        played.end().await.unwrap();
        assert_eq!(state(&drawn(&played)), "has no more");
    });
}
