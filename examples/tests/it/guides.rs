//! The guides' commands: bash runs each `sh` block as it stands, in a folder that looks like the repository with
//! everything built, and what it prints is what the `text` block behind it shows.
//!
//! Such a text is a sample: where it has a number, any other will do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::markdown::{Block, blocks, check};
use crate::support::{Program, output};

/// Blocks that are not run here, by page and beginning, and where the same is run.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    (
        "README.md",
        "cargo run --release -p lockkeeper-examples --bin orders",
        "tests/orders/embedded",
    ),
    ("README.md", "tests/run", "it runs this"),
    (
        "docs/canal.md",
        "CANAL_PASSWORD=… cargo run -p lockkeeper-examples --bin canal-tail",
        "real, on the servers of the tests",
    ),
    (
        "docs/canal.md",
        "CANAL_PASSWORD=… cargo run -p lockkeeper-examples --bin canal-to-kafka",
        "crate::to_kafka::real",
    ),
    (
        "docs/orders.md",
        "cargo run --release -p lockkeeper-examples --bin orders",
        "tests/orders/embedded",
    ),
    (
        "docs/rpc-flow.md",
        "LOCKKEEPER_FLOW_SECONDS=60",
        "a measurement, by hand",
    ),
    (
        "docs/start/second-process.md",
        "cargo run -p lockkeeper-examples --bin counter",
        "the_guide_to_a_second_process, at a port that is free",
    ),
    (
        "docs/tasks/console.md",
        "cargo run --release -p lockkeeper-examples --bin orders -- --console",
        "crate::console",
    ),
    ("docs/tasks/console.md", "curl -X POST", "crate::console"),
    (
        "docs/tasks/settings.md",
        "LOCKKEEPER__REGION__PERIOD=2s",
        "crate::settings",
    ),
    ("docs/tasks/systemd.md", "systemctl", "needs systemd"),
];

/// The pages that `real` is about.
const ON_SERVERS: &[&str] = &["docs/orders.md", "docs/canal.md"];

fn needs_servers(block: &Block) -> bool {
    ["tests/services/up DIR", "LOCKKEEPER_CANAL", "mariadb"]
        .iter()
        .any(|what| block.text.contains(what))
}

fn is_run_here(page: &str, block: &Block) -> bool {
    !ELSEWHERE
        .iter()
        .any(|(of, begin, _)| *of == page && block.text.starts_with(begin))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The `sh` blocks of a page, each with the `text` that stands behind it.
fn commands(page: &str) -> Vec<(Block, Option<String>)> {
    let mut blocks = blocks(&fs::read_to_string(root().join(page)).unwrap())
        .into_iter()
        .peekable();
    let mut commands = Vec::new();
    while let Some(block) = blocks.next() {
        if block.kind == "sh" {
            let expected = blocks.next_if(|next| next.kind == "text");
            commands.push((block, expected.map(|block| block.text)));
        }
    }
    commands
}

/// `cargo` of the guides: everything is built, and a command that cargo would refuse is refused.
const CARGO: &str = r#"#!/usr/bin/env bash
refuse() { echo "the guides' cargo knows no: cargo $command" >&2; exit 2; }
command=$* name=
case $command in
  "build -p lockkeeper-examples --bins" | "build --release -p lockkeeper-examples --bins") exit ;;
  "run "*) shift ;;
  *) refuse ;;
esac
while (($# > 0)); do
  case $1 in
    --release) shift ;;
    -p) [ "$2" = lockkeeper-examples ] || refuse; shift 2 ;;
    --bin) name=$2; shift 2 ;;
    --) shift; break ;;
    *) refuse ;;
  esac
done
[ -n "$name" ] || refuse
exec "target/debug/$name" "$@"
"#;

/// A folder that looks like the repository's root.
fn repository() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(root()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "target" {
            let path = entry.path().canonicalize().unwrap();
            symlink(path, folder.path().join(entry.file_name())).unwrap();
        }
    }
    let built = Path::new(env!("CARGO_BIN_EXE_orders")).parent().unwrap();
    fs::create_dir(folder.path().join("target")).unwrap();
    for profile in ["debug", "release"] {
        symlink(built, folder.path().join("target").join(profile)).unwrap();
    }
    let cargo = folder.path().join("guide-bin/cargo");
    fs::create_dir(cargo.parent().unwrap()).unwrap();
    fs::write(&cargo, CARGO).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("guide-tmp")).unwrap();
    folder
}

/// Any number in place of one that stands beside something else, and any of the states that a working region is in.
fn sample(expected: &str) -> String {
    let line = |line: &str| {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        if line.chars().all(is_number) {
            return line.to_owned();
        }
        let (mut sample, mut rest) = (String::new(), line);
        while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
            sample.push_str(&rest[..begin]);
            sample.push('…');
            rest = rest[begin..].trim_start_matches(is_number);
        }
        sample.push_str(rest);
        // what stands in columns is filled up with spaces
        while sample.contains("…  ") {
            sample = sample.replace("…  ", "… ");
        }
        sample.replace("Processing", "…")
    };
    expected.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Takes a script as its last argument and runs it in that folder.
fn bash(repository: &TempDir, mut bash: Command) -> Command {
    let path = std::env::var("PATH").unwrap();
    let folder = repository.path();
    bash.args(["-euo", "pipefail", "-c"])
        .current_dir(folder)
        .env("TMPDIR", folder.join("guide-tmp"))
        .env("PATH", format!("{}/guide-bin:{path}", folder.display()));
    bash
}

fn run(repository: &TempDir, script: &str, expected: Option<&str>) {
    // what it started is killed with it when it hangs
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=10", "100", "bash"]);
    let output = output(bash(repository, limited).arg(format!("{script}\nwait")));
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}\n{errors}");
    if let Some(expected) = expected {
        check(&sample(expected), &said);
    }
}

/// Runs what a page shows and needs no server.
fn follow(page: &str) {
    let repository = repository();
    let here = commands(page);
    let mut here = here
        .iter()
        .filter(|(block, _)| is_run_here(page, block) && !needs_servers(block))
        .peekable();
    assert!(here.peek().is_some(), "{page} shows no command");
    for (block, expected) in here {
        run(&repository, &block.text, expected.as_deref());
    }
}

macro_rules! guides {
    ($($name:ident = $page:literal;)*) => {
        const FOLLOWED: &[&str] = &[$($page),*];
        $(#[test] fn $name() { follow($page); })*
    };
}

guides! {
    the_guide_to_canal = "docs/canal.md";
    the_guide_to_leaders = "docs/leader.md";
    the_guide_to_the_command_line = "docs/lockkeeper.md";
    the_guide_to_orders = "docs/orders.md";
    the_guide_from_the_java_client = "docs/start/java-canal.md";
    the_guide_for_operators = "docs/start/operator.md";
    the_guide_to_regions = "docs/start/region.md";
    the_guide_to_fail_over = "docs/tasks/fail-over.md";
}

#[test]
fn the_guide_to_a_second_process() {
    let commands = commands("docs/start/second-process.md");
    let [(serve, _), (adds, Some(expected))] = commands.as_slice() else {
        panic!("it shows who serves, and who adds");
    };
    let program = |line: &str, at: [&str; 2]| {
        let words = line.strip_prefix("cargo run -p lockkeeper-examples --bin counter -- ");
        let mut command = Command::new(env!("CARGO_BIN_EXE_counter"));
        command.args(words.unwrap().split(' ')).args(at);
        command
    };
    let (serving, address) = Program::start(&mut program(&serve.text, ["--listen", "127.0.0.1:0"]));
    let said = adds.text.lines().map(|line| {
        let output = output(&mut program(line, ["--at", &address]));
        String::from_utf8(output.stdout).unwrap()
    });
    check(expected, &said.collect::<String>());
    serving.terminate();
}

/// With fewer rows than there: `tests/orders/embedded` is about the million.
#[test]
fn the_end_that_the_readme_shows() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = blocks(&readme);
    let shown = blocks.iter().find(|block| block.kind == "text").unwrap();
    let (job, _) = &commands("README.md")[0];
    let expected = format!("ready\n…\n{}", shown.text);
    run(
        &repository(),
        &format!("{} -- --rows 20000", job.text),
        Some(&expected),
    );
}

/// Every page with a command: of the guides, and the README.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

#[test]
fn no_command_of_a_guide_is_forgotten() {
    for page in pages() {
        for (block, _) in commands(&page) {
            let followed = if needs_servers(&block) {
                ON_SERVERS
            } else {
                FOLLOWED
            };
            assert!(
                followed.contains(&page.as_str()) || !is_run_here(&page, &block),
                "{page} is not followed here: {}",
                block.text
            );
        }
    }
    for (page, begin, elsewhere) in ELSEWHERE {
        let commands = commands(page);
        let has = commands
            .iter()
            .any(|(block, _)| block.text.starts_with(begin));
        assert!(has, "{page} has no {begin}… any more, for {elsewhere}");
    }
}

#[test]
fn a_number_of_a_sample_is_any_number() {
    assert_eq!(
        sample("cut 3\n5\n1019 rows in 6.5 s (157 a second)\nlog.7:44   id=1\nends."),
        "cut …\n5\n… rows in … s (… a second)\nlog.…:… id=…\nends."
    );
}

#[test]
fn a_command_that_cargo_would_refuse_is_refused() {
    let repository = repository();
    let refused = std::panic::catch_unwind(|| {
        run(&repository, "cargo run -p lockkeeper-examples --bins", None);
    });
    assert!(refused.is_err());
}

mod real {
    use rustix::process::Signal;

    use super::*;
    use crate::support::{LIMIT, Telling, given};

    /// The blocks of a page that need the servers, with the folder of the tests' own.
    fn on_servers(page: &str, services: &str) -> Vec<(String, Option<String>)> {
        let here = commands(page).into_iter();
        here.filter(|(block, _)| needs_servers(block))
            .map(|(block, expected)| (block.text.replace("DIR", services), expected))
            .collect()
    }

    /// One after the other: the two share the destination.
    #[test]
    fn the_guides_on_the_servers_of_the_tests() {
        let Some(services) = given("LOCKKEEPER_SERVICES") else {
            return;
        };
        let [orders, canal] = ON_SERVERS else {
            panic!("follow the others as well: {ON_SERVERS:?}");
        };
        let orders = on_servers(orders, &services);
        let [(job, end)] = orders.as_slice() else {
            panic!("one block: {orders:?}");
        };
        run(&repository(), job, end.as_deref());
        follow_a_table(&on_servers(canal, &services));
    }

    fn follow_a_table(blocks: &[(String, Option<String>)]) {
        let [(servers, None), (follows, None), (writes, Some(changes))] = blocks else {
            panic!("servers, who follows, who writes and what it leads to: {blocks:?}");
        };
        let repository = repository();
        let mut follow = bash(&repository, Command::new("bash"));
        follow.arg(format!("{servers}\nexec {follows} 2>&1"));
        let mut following = Telling::start(&mut follow);
        following.line("canal-tail: following example");
        run(&repository, writes, None);
        for change in changes.lines() {
            let insert = "INSERT   shop.visits ";
            let line = format!("{insert}{}", following.line(insert));
            check(&sample(change), &line);
        }
        following.signal(Signal::TERM);
        assert!(following.ended(LIMIT).is_some_and(|ended| ended.success()));
    }
}
