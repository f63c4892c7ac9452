//! How `cargo lambda build` is called.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::fixture::{Fixture, foreground, package, ran, two_apps};

fn environment(fixture: &Fixture, package: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(fixture.record().join(format!("{package}.env"))).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_package_at_a_time_and_locked() {
    let fixture = Fixture::new(&two_apps());
    fixture.built(None);
    assert_eq!(
        fixture.calls(),
        [
            "lambda build --release --locked --x86-64 --package admin --bin admin",
            "lambda build --release --locked --x86-64 --package foreground --bin foreground",
        ]
    );
}

#[test]
fn no_path_of_this_machine_gets_in() {
    let fixture = Fixture::new(&[foreground()]);
    let home = fixture.path("a home");
    let own = [
        ("RUSTFLAGS", "-C target-cpu=native"),
        ("CARGO_ENCODED_RUSTFLAGS", "-Copt-level=0"),
        ("CFLAGS", "-g"),
        ("CFLAGS_x86_64_unknown_linux_gnu", "-g"),
        ("CXXFLAGS_x86_64-unknown-linux-gnu", "-g"),
        ("TARGET_CFLAGS", "-g"),
        ("CARGO_INCREMENTAL", "1"),
        ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
        ("CARGO_LAMBDA_COMPILER", "cross"),
        ("CARGO_HOME", home.to_str().unwrap()),
    ];
    fixture.built_with(None, &own);
    let environment = environment(&fixture, "foreground");
    let cleared = own.iter().map(|(name, _)| *name);
    for cleared in cleared.filter(|name| !["CARGO_ENCODED_RUSTFLAGS", "CARGO_HOME"].contains(name)) {
        assert_eq!(environment.get(cleared), None, "{cleared}");
    }
    let flags: Vec<_> = environment["CARGO_ENCODED_RUSTFLAGS"].split('\x1f').collect();
    assert_eq!(flags[..2], ["-C", "target-cpu=haswell"]);
    let root = fs::canonicalize(fixture.path("ws")).unwrap();
    let root = root.display();
    for (from, to) in [
        (format!("{root}"), "/workspace"),
        (format!("{root}/target"), "/target"),
        (home.display().to_string(), "/cargo"),
    ] {
        let flag = format!("--remap-path-prefix={from}={to}");
        assert!(flags.contains(&flag.as_str()), "{flag}: {flags:#?}");
    }
    assert_eq!(environment["CARGO_TARGET_DIR"], format!("{root}/target"));
}

#[test]
fn flags_that_are_not_heeded_are_named() {
    let fixture = Fixture::new(&[foreground()]);
    let ran = ran(fixture.command(&["--out", "../out"]).env("RUSTFLAGS", "-g"));
    assert!(ran.stderr.contains("RUSTFLAGS is set and not heeded"), "{}", ran.stderr);
}

#[test]
fn for_arm64() {
    let fixture = Fixture::new(&[foreground()]);
    // Whether or not this machine has the target: what is asked of rustc is where its libraries are.
    let path = std::env::var_os("PATH").unwrap();
    let mut folders = std::env::split_paths(&path).map(|folder| folder.join("rustc"));
    let rustc = folders.find(|file| file.is_file()).unwrap();
    fixture.stub("rustc");
    let build = |libraries: &Path| {
        let mut command = fixture.command(&["--out", "../out", "--arch", "arm64"]);
        ran(command.env("STUB_LIBRARIES", libraries).env("STUB_RUSTC", &rustc))
    };
    let missing = build(&fixture.path("not there"));
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("rustup target add aarch64-unknown-linux-gnu"),
        "{}",
        missing.stderr
    );
    assert!(fixture.calls().is_empty());

    let there = build(&fixture.path("ws"));
    assert_eq!(there.code, Some(0), "{}", there.stderr);
    assert_eq!(
        fixture.calls(),
        ["lambda build --release --locked --arm64 --package foreground --bin foreground"]
    );
    assert!(environment(&fixture, "foreground")["CARGO_ENCODED_RUSTFLAGS"].contains("neoverse-n1"));
    assert_eq!(fixture.manifest()["functions"][0]["arch"], "arm64");
    assert_eq!(fixture.run(&["--verify", "../out"]).code, Some(0));
}

#[test]
fn the_binary_may_be_called_otherwise_than_its_package() {
    let mut function = package("my-function", "app = 'assistant'\nrole = 'foreground'");
    function.bins = vec!["main"];
    let fixture = Fixture::new(&[function]);
    let tree = fixture.built(None);
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["manifest.json", "my-function.zip"]);
    assert!(fixture.calls()[0].ends_with("--package my-function --bin main"));
}

#[test]
fn a_workspace_elsewhere_or_behind_a_link_is_named_by_its_manifest() {
    let fixture = Fixture::new(&[foreground()]);
    std::os::unix::fs::symlink(fixture.path("ws"), fixture.path("link")).unwrap();
    let manifest = fixture.path("link/Cargo.toml");
    let out = fixture.path("out");
    let args = [
        "--out",
        out.to_str().unwrap(),
        "--manifest-path",
        manifest.to_str().unwrap(),
    ];
    let ran = ran(fixture.command(&args).current_dir("/"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(out.join("foreground.zip").exists());
    let root = fs::canonicalize(fixture.path("ws")).unwrap();
    let flag = format!("--remap-path-prefix={}=/workspace", root.display());
    let environment = environment(&fixture, "foreground");
    assert!(environment["CARGO_ENCODED_RUSTFLAGS"].contains(&flag), "{flag}");
}
