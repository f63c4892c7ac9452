//! What goes wrong is said, and leaves what was there before.

use std::fs;

use crate::fixture::{Fixture, Package, foreground, package, ran, tree, two_apps};

#[test]
fn a_package_that_doesn_t_build_leaves_nothing() {
    let fixture = Fixture::new(&two_apps());
    let before = fixture.beside();
    // The second of two.
    let ran = ran(fixture.command(&["--out", "../out"]).env("STUB_FAILS", "foreground"));
    assert_eq!(ran.code, Some(1));
    for part in ["cannot find value", "`foreground` doesn't build", "exit status: 101"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert_eq!(fixture.calls().len(), 2);
    assert_eq!(fixture.beside(), before);
}

#[test]
fn a_failure_or_a_kill_leaves_the_old_output() {
    let fixture = Fixture::new(&two_apps());
    let old = fixture.built(None);
    let before = fixture.beside();
    for (how, code) in [("STUB_FAILS", Some(1)), ("STUB_KILLS", None)] {
        let ran = ran(fixture.command(&["--out", "../out"]).env(how, "foreground"));
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert_eq!(tree(&fixture.path("out")), old);
        assert_eq!(fixture.beside(), before);
    }
}

#[test]
fn an_earlier_output_is_replaced_as_a_whole() {
    let fixture = Fixture::new(&two_apps());
    let expected = fixture.built(None);
    fs::remove_file(fixture.path("out/admin.zip")).unwrap();
    fs::write(fixture.path("out/foreground.zip"), "torn").unwrap();
    let before = fixture.beside();
    assert_eq!(fixture.built(None), expected);
    assert_eq!(fixture.beside(), before, "nothing is left beside it");
}

#[test]
fn an_output_may_lie_deep_be_empty_or_behind_a_link() {
    let fixture = Fixture::new(&[foreground()]);
    fs::create_dir_all(fixture.path("empty")).unwrap();
    fs::create_dir_all(fixture.path("real")).unwrap();
    std::os::unix::fs::symlink(fixture.path("real"), fixture.path("link")).unwrap();
    for out in ["../a/b/c", "../empty", "../link", "dist/"] {
        let ran = fixture.run(&["--out", out]);
        assert_eq!(ran.code, Some(0), "{out}: {}", ran.stderr);
        assert_eq!(fixture.run(&["--verify", out]).code, Some(0), "{out}");
    }
    assert!(fixture.path("link").is_symlink());
}

#[test]
fn what_is_not_ours_is_not_replaced() {
    let fixture = Fixture::new(&[foreground()]);
    let refused = |what: &str, part: &str| {
        let ran = fixture.run(&["--out", "../out"]);
        assert_eq!(ran.code, Some(1), "{what}");
        assert!(
            ran.stderr.contains("not replaced") && ran.stderr.contains(part),
            "{what}: {}",
            ran.stderr
        );
        assert!(fixture.calls().len() <= 1, "said before anything is built");
    };
    let out = fixture.path("out");
    fs::write(&out, "a file").unwrap();
    refused("a file", "no folder");
    fs::remove_file(&out).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.txt"), "years of work").unwrap();
    refused("a folder of somebody's", "manifest.json");
    fs::write(out.join("manifest.json"), r#"{"schema": 1, "name": "something else"}"#).unwrap();
    refused("another program's manifest", "no manifest of deploy-builder");
    fs::remove_dir_all(&out).unwrap();
    fixture.built(None);
    fs::write(out.join("thesis.txt"), "years of work").unwrap();
    refused("an output with a stranger in it", "thesis.txt");
    assert_eq!(fs::read(out.join("thesis.txt")).unwrap(), b"years of work");
}

#[test]
fn a_missing_tool_is_named_with_the_command_that_installs_it() {
    let fixture = Fixture::new(&[foreground()]);
    let build = || ran(&mut fixture.bare_command(&["--out", "../out"]));
    fixture.without("zig");
    let ran = build();
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("zig is not installed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("pip install ziglang=="), "{}", ran.stderr);
    fixture.without("cargo-lambda");
    let ran = build();
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cargo-lambda is not installed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("pip install cargo-lambda=="), "{}", ran.stderr);
    assert!(!fixture.path("out").exists());
}

#[test]
fn a_build_that_leaves_no_program_is_none() {
    let fixture = Fixture::new(&[foreground()]);
    fixture.built(None);
    let ran = ran(fixture.command(&["--out", "../out"]).env("STUB_WRITES", "nothing"));
    assert_eq!(ran.code, Some(1), "not the one of the build before");
    assert!(ran.stderr.contains("left no program"), "{}", ran.stderr);
}

#[test]
fn what_a_package_says_wrongly_is_named() {
    let table = |keys: &str| vec![package("foreground", keys)];
    let bins = |bins: &[&'static str]| {
        let mut package = foreground();
        package.bins = bins.to_vec();
        vec![package]
    };
    let cases: [(Vec<Package>, &[&str]); 7] = [
        (
            table("app = 'a'\nrole = 'foreground'\nbase_path = '/x'"),
            &["unknown field `base_path`", "`base-path`"],
        ),
        (
            table("app = 'a'\nrole = 'backgruond'"),
            &["unknown variant `backgruond`", "`background`"],
        ),
        (table("role = 'foreground'"), &["missing field `app`"]),
        (table("app = 'a'"), &["missing field `role`"]),
        (
            table("app = 'a'\nrole = 'foreground'\nmemory-mb = '1 GB'"),
            &["invalid type"],
        ),
        (bins(&[]), &["no binary"]),
        (bins(&["one", "two"]), &["several binaries, one, two"]),
    ];
    for (packages, parts) in cases {
        let ran = Fixture::new(&packages).run(&["--dry-run"]);
        assert_eq!(ran.code, Some(1));
        for part in parts.iter().chain(&["foreground (functions/foreground/Cargo.toml)"]) {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_wrong_call_is_told_from_a_failure() {
    let fixture = Fixture::new(&[foreground()]);
    for args in [
        &[][..],
        &["--out", "a", "--dry-run"],
        &["--out", "a", "--arch", "riscv"],
    ] {
        assert_eq!(fixture.run(args).code, Some(2), "{args:?}");
    }
}
