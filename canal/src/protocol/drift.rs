//! The committed code under `generated/` is what the schemas give.

use std::path::{Path, PathBuf};

use prost_build::Module;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/protocol")
}

/// The Rust text of every schema, with its file's name.
fn generate() -> Vec<(String, String)> {
    let set = protox::compile(["packet.proto", "entry.proto"], [folder()]).unwrap();
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    let requests = set
        .file
        .into_iter()
        .map(|file| (Module::from_protobuf_package_name(file.package()), file))
        .collect();
    let mut texts: Vec<(String, String)> = config
        .generate(requests)
        .unwrap()
        .into_iter()
        .map(|(module, text)| (module.to_file_name_or("canal"), text))
        .collect();
    texts.sort();
    texts
}

#[test]
fn generated_code_is_what_the_schemas_give() {
    let texts = generate();
    assert_eq!(texts.len(), 2);
    for (name, text) in texts {
        let path = folder().join("generated").join(&name);
        if std::env::var_os("LOCKKEEPER_REGENERATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap();
        assert!(
            committed == text,
            "{name} is not what its schema gives: run this test with LOCKKEEPER_REGENERATE=1"
        );
    }
}
