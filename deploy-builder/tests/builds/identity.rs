//! With the flag off: the same bytes, whatever else differs.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use outlast_core::env_vars::DISPATCH_SECRET;

use crate::fixture::{Fixture, background, foreground, tree, two_apps};

#[test]
fn every_way_of_saying_off_is_one_tree() {
    let fixture = Fixture::new(&[foreground(), background()]);
    let unset = fixture.built(None);
    assert_eq!(unset.keys().collect::<Vec<_>>(), ["foreground.zip", "manifest.json"]);
    // Without the feature nobody looks at the flag.
    let spellings: &[&str] = match cfg!(feature = "split") {
        true => &["", "0", "false", "off", "no", "OFF\n"],
        false => &["0", "1", "neither"],
    };
    for spelling in spellings {
        assert_eq!(fixture.built(Some(spelling)), unset, "{spelling:?}");
    }
}

/// One snapshot for the builder with and without its feature `split`.
#[test]
fn the_manifest_is_known() {
    let fixture = Fixture::new(&[foreground(), background()]);
    fixture.built(None);
    insta::assert_snapshot!(std::fs::read_to_string(fixture.path("out/manifest.json")).unwrap());
}

#[test]
fn the_background_package_is_nothing() {
    let without = Fixture::new(&[foreground()]).built(None);
    assert_eq!(Fixture::new(&[foreground(), background()]).built(None), without);
    // Nor is what it says of itself: it is not looked at.
    let mut wrong = background();
    wrong.keys += "\nmemory-mb = 'much'\ncolour = 'red'";
    wrong.bins = vec![];
    assert_eq!(Fixture::new(&[wrong, foreground()]).built(None), without);
}

#[test]
fn the_order_of_members_and_folders_is_nothing() {
    let packages = two_apps();
    let expected = Fixture::new(&packages).built(None);
    let mut shuffled = packages.clone();
    shuffled.reverse();
    assert_eq!(Fixture::new(&shuffled).built(None), expected);
    shuffled.rotate_left(1);
    for (package, folder) in shuffled.iter_mut().zip(["z", "m/a", "a", "m/b"]) {
        package.folder = folder.to_owned();
    }
    assert_eq!(Fixture::new(&shuffled).built(None), expected);
}

#[test]
fn e11_built_twice_at_different_times_it_is_the_same() {
    let first = Fixture::new(&two_apps());
    let old = first.built_with(None, &[("STUB_DATE", "2001-02-03 04:05:06"), ("TZ", "Asia/Tokyo")]);
    let new = first.built_with(None, &[("STUB_DATE", "2026-12-01"), ("TZ", "America/Lima")]);
    assert_eq!(old, new);
    let elsewhere = Fixture::new(&two_apps());
    assert_eq!(
        elsewhere.built_with(None, &[("LANG", "de_DE.UTF-8"), ("USER", "somebody")]),
        old
    );
}

#[test]
fn a_secret_of_the_builder_s_environment_stays_there() {
    let fixture = Fixture::new(&two_apps());
    let secret = "correct-horse-battery-staple-0123456789";
    let expected = fixture.built(None);
    assert_eq!(fixture.built_with(None, &[(DISPATCH_SECRET.name, secret)]), expected);
    #[cfg(feature = "split")]
    fixture.built_with(Some("on"), &[(DISPATCH_SECRET.name, secret)]);
    for name in crate::fixture::names(&fixture.path("out")) {
        let bytes = std::fs::read(fixture.path("out").join(&name)).unwrap();
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{name}");
    }
}

#[test]
fn two_builds_at_once_take_turns() {
    let fixture = Fixture::new(&[foreground()]);
    let alone = fixture.built(None);
    let pipe = fixture.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let one = fixture
        .command(&["--out", "../one"])
        .env("STUB_WAITS", &pipe)
        .spawn()
        .unwrap();
    // It opens when the first build has half of a program where the second one's would be.
    let held = File::create(&pipe).unwrap();
    let mut other = fixture.command(&["--out", "../other"]);
    let mut other = other.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    // Kept: it says more.
    let mut stderr = BufReader::new(other.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    drop(held);
    assert!(said.contains("waiting for it"), "{said}");
    for (mut build, out) in [(one, "one"), (other, "other")] {
        assert!(build.wait().unwrap().success(), "{out}");
        assert_eq!(tree(&fixture.path(out)), alone, "{out}");
    }
}
