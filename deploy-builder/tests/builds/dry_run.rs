//! What would ship, said without building.

use crate::fixture::{FLAG, Fixture, foreground, names, package, ran, two_apps};

fn files(stdout: &str) -> Vec<String> {
    let words = stdout.lines().filter(|line| !line.starts_with(' '));
    let mut files: Vec<_> = words
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.contains('.'))
        .map(str::to_owned)
        .collect();
    files.sort();
    files
}

#[test]
fn a_dry_run_names_what_a_build_puts_out() {
    let fixture = Fixture::new(&two_apps());
    let flags: &[Option<&str>] = if cfg!(feature = "split") {
        &[None, Some("on")]
    } else {
        &[None]
    };
    for flag in flags {
        let dry = ran(fixture.command(&["--dry-run"]).envs(flag.map(|flag| (FLAG, flag))));
        assert_eq!(dry.code, Some(0), "{}", dry.stderr);
        fixture.built(*flag);
        assert_eq!(files(&dry.stdout), names(&fixture.path("out")), "{}", dry.stdout);
    }
}

#[test]
fn it_takes_no_tools_and_writes_nothing() {
    let fixture = Fixture::new(&two_apps());
    fixture.without("cargo-lambda");
    fixture.without("zig");
    let before = fixture.beside();
    let dry = ran(&mut fixture.bare_command(&["--dry-run"]));
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    insta::assert_snapshot!(dry.stdout);
    assert!(!fixture.path("ws/target").exists());
    let after: Vec<_> = fixture.beside().into_iter().filter(|name| name != "no-home").collect();
    assert_eq!(after, before);
}

#[test]
fn two_apps_for_one_path_are_refused_before_anything_is_built() {
    let other = package("other", "app = 'other'\nrole = 'foreground'");
    let fixture = Fixture::new(&[foreground(), other]);
    for args in [&["--dry-run"][..], &["--out", "../out"]] {
        let ran = fixture.run(args);
        assert_eq!(ran.code, Some(1));
        for part in ["`foreground`", "`other`", "/api/v1/*", "base-path"] {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
    }
    assert!(fixture.calls().is_empty());
}
