//! The command line on stores of small regions, which run and end in the test.

use std::path::Path;

use clap::CommandFactory;

use super::*;

fn called(arguments: &[&str]) -> (Ending, String, String) {
    let options = Options::try_parse_from(["lockkeeper-region"].iter().chain(arguments)).unwrap();
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let ending = run(&options, &mut output, &mut errors);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ending, text(output), text(errors))
}

/// Runs `word-like` region over a file to its end; its store.
fn ended_region(folder: &Path) -> String {
    use actix::System;
    use lockkeeper_consistent_region::prelude::*;

    let file = folder.join("numbers");
    std::fs::write(&file, "1\n2\n3\n").unwrap();
    let root = folder.join("store");
    let store: Arc<dyn CheckpointStore> = Arc::new(FileStore::open(&root).unwrap());
    let mut graph = Region::builder("numbers");
    let numbers = graph.start("source", move |context| {
        FileSource::<u64>::json(context, FileSourceConfig::new([&file]))
    });
    let output = folder.join("out");
    graph.end("sink", numbers, move |context| {
        FileSink::new(
            context,
            &output,
            "cut-",
            ".txt",
            |_, numbers: Vec<u64>, to| {
                numbers
                    .iter()
                    .try_for_each(|number| writeln!(to, "{number}"))
            },
        )
    });
    let region = graph.build().unwrap();
    System::new().block_on(async move {
        let settings = CoordinatorSettings::for_region(&region);
        let hook = Hook::default();
        let coordinator =
            RegionCoordinator::start_local(settings, Arc::clone(&store), hook).unwrap();
        let (link, inbox) = coordinator.way().connect();
        let config = WorkerConfig::new("worker");
        let mut worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
        assert_eq!(worker.ended().await, WorkerEnd::RegionEnded);
        coordinator.halt().await;
    });
    root.to_str().unwrap().to_owned()
}

#[test]
fn the_command_line_is_consistent() {
    Options::command().debug_assert();
}

#[test]
fn a_region_is_inspected_as_text_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let store = ended_region(folder.path());
    let (ending, text, errors) = called(&["inspect", &store, "--objects"]);
    assert_eq!((ending, errors.as_str()), (Ending::Done, ""));
    for part in [
        "region     numbers",
        "state      ended",
        "numbers:3, ended",
        "crc32 ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let (ending, json, _) = called(&["--json", "inspect", &store]);
    assert_eq!(ending, Ending::Done);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["record"]["ended"], true);
    assert_eq!(
        json["cuts"][0]["positions"][0]["instance"]["operator"],
        "source"
    );
}

#[test]
fn verify_says_whole_or_names_what_is_damaged_by_its_exit_code_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = ended_region(folder.path());
    let (ending, text, _) = called(&["verify", &store]);
    assert_eq!(ending, Ending::Done, "{text}");
    assert!(text.contains(": whole, 1 objects"), "{text}");

    let objects = std::fs::read_dir(Path::new(&store).join("objects")).unwrap();
    let object = objects.map(|entry| entry.unwrap().path()).next().unwrap();
    std::fs::write(&object, "other").unwrap();
    let (ending, text, _) = called(&["verify", &store]);
    assert_eq!(ending.number(), 1, "{text}");
    assert!(text.contains("DAMAGED"), "{text}");
    assert!(
        text.contains(object.file_name().unwrap().to_str().unwrap()),
        "{text}"
    );
}

#[test]
fn state_is_exported_to_a_new_file_and_never_over_an_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = ended_region(folder.path());
    let file = folder.path().join("state.jsonl");
    let file = file.to_str().unwrap();
    let (ending, _, errors) = called(&["export", &store, "--to", file]);
    assert_eq!(ending, Ending::Done, "{errors}");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(r#""operator":"source""#), "{text}");
    let (ending, _, errors) = called(&["export", &store, "--to", file]);
    assert_eq!(ending, Ending::Failed);
    assert!(errors.contains("File exists"), "{errors}");
    let (ending, _, errors) = called(&["export", &store, "--seq", "77"]);
    assert_eq!(ending.number(), 3);
    assert!(errors.contains("no cut 77 is kept"), "{errors}");
}

#[test]
fn an_ended_region_is_taken_up_again_renamed_and_told_to_leave_rows_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = ended_region(folder.path());
    let (_, json, _) = called(&["--json", "inspect", &store]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let newest = json["record"]["completed"].to_string();
    let (ending, text, errors) = called(&["reset-to", &newest, &store]);
    // The end is undone by that: the process that ran it, this one, lives.
    assert_eq!(ending, Ending::Done, "{errors}");
    assert!(text.contains(&format!("stands at cut {newest}")), "{text}");
    let (ending, _, errors) = called(&["reset-to", &newest, &store]);
    assert_eq!(ending.number(), 4, "{errors}");
    assert!(
        errors.contains("the region is alive: worker worker is process"),
        "{errors}"
    );
    let (ending, _, errors) = called(&["adopt", "--region", "other", &store]);
    assert_eq!(ending.number(), 4, "{errors}");

    let (ending, text, errors) = called(&["skip", &store, "source", "numbers:2"]);
    assert_eq!(ending, Ending::Done, "{errors}");
    assert!(text.contains("leaves out the row at numbers:2"), "{text}");
    let (ending, _, errors) = called(&["skip", &store, "nobody", "numbers:2"]);
    assert_eq!(ending, Ending::Failed);
    assert!(
        errors.contains("the region has no nobody[0]; it has"),
        "{errors}"
    );
}

#[test]
fn a_place_that_is_no_store_is_named_and_not_made_into_one() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let (ending, _, errors) = called(&["inspect", nowhere.to_str().unwrap()]);
    assert_eq!(ending.number(), 2);
    assert!(errors.contains("no folder \"objects\""), "{errors}");
    assert!(!nowhere.exists());
    let (ending, _, errors) = called(&["inspect", "gopher://there"]);
    assert_eq!(ending.number(), 2);
    assert!(errors.contains("gopher"), "{errors}");

    let store = folder.path().join("store");
    lockkeeper_consistent_region::store::FileStore::open(&store).unwrap();
    std::fs::create_dir_all(store.join("log")).unwrap();
    let (ending, _, errors) = called(&["verify", store.to_str().unwrap()]);
    assert_eq!(ending.number(), 3, "{errors}");
}
