//! What the flag adds, and that it only adds.

use serde_json::{Value, json};

use crate::fixture::{FLAG, Fixture, background, foreground, ran, two_apps};

#[test]
fn on_there_is_one_more_file_an_app() {
    let fixture = Fixture::new(&two_apps());
    let off = fixture.built(None);
    let off_manifest = fixture.manifest();
    let on = fixture.built(Some("1"));
    let on_manifest = fixture.manifest();

    let added: Vec<_> = on.keys().filter(|name| !off.contains_key(*name)).collect();
    assert_eq!(added, ["admin-jobs.zip", "background.zip"]);
    for (name, hash) in off.iter().filter(|(name, _)| *name != "manifest.json") {
        assert_eq!(on.get(name), Some(hash), "{name}");
    }
    only_additions(&off_manifest, &on_manifest).unwrap();
    assert!(only_additions(&on_manifest, &off_manifest).is_err());
    assert_eq!(fixture.built(None), off, "and off again");
}

#[test]
fn every_way_of_saying_on_is_one_tree() {
    let fixture = Fixture::new(&[foreground(), background()]);
    let on = fixture.built(Some("1"));
    for spelling in ["true", "on", "yes", "True", " on\n"] {
        assert_eq!(fixture.built(Some(spelling)), on, "{spelling:?}");
    }
}

#[test]
fn the_manifest_with_a_background_function_is_known() {
    let fixture = Fixture::new(&[foreground(), background()]);
    fixture.built(Some("1"));
    insta::assert_snapshot!(std::fs::read_to_string(fixture.path("out/manifest.json")).unwrap());
}

#[test]
fn an_app_without_a_background_package_is_named() {
    let fixture = Fixture::new(&[foreground()]);
    let ran = ran(fixture.command(&["--out", "../out"]).env(FLAG, "on"));
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("app `assistant` has no background function"),
        "{}",
        ran.stderr
    );
    assert!(fixture.calls().is_empty());
}

#[test]
fn neither_on_nor_off_is_a_wrong_call() {
    let fixture = Fixture::new(&[foreground()]);
    for args in [&["--out", "../out"][..], &["--dry-run"], &["--verify", "../out"]] {
        let ran = ran(fixture.command(args).env(FLAG, "maybe"));
        assert_eq!(ran.code, Some(2));
        for part in ["\"maybe\"", FLAG, "`yes`", "`off`"] {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
    }
    assert!(!fixture.path("out").exists());
}

/// Everything of the old is in the new: keys with their values, elements in their order. The error says where not.
fn only_additions(old: &Value, new: &Value) -> Result<(), String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old.iter().try_for_each(|(key, old)| {
            let new = new.get(key).ok_or_else(|| format!("/{key} vanished"))?;
            only_additions(old, new).map_err(|problem| format!("/{key}{problem}"))
        }),
        (Value::Array(old), Value::Array(new)) => {
            // The earliest that fits leaves most for those that follow.
            let mut left = new.iter();
            for (at, old) in old.iter().enumerate() {
                if !left.any(|new| only_additions(old, new).is_ok()) {
                    return Err(format!("/{at} vanished or changed"));
                }
            }
            Ok(())
        }
        _ if old == new => Ok(()),
        _ => Err(format!(" was {old} and is {new}")),
    }
}

#[test]
fn additions_are_told_from_changes() {
    let old = json!({"a": 1, "list": [{"x": 1}, {"y": [1, 2]}]});
    for new in [
        json!({"a": 1, "list": [{"x": 1}, {"y": [1, 2]}]}),
        json!({"a": 1, "b": null, "list": [{"x": 1, "z": 0}, {"y": [1, 2]}]}),
        json!({"a": 1, "list": [{"new": 0}, {"x": 1}, 7, {"y": [0, 1, 1, 2, 3]}, 8]}),
    ] {
        assert_eq!(only_additions(&old, &new), Ok(()), "{new}");
    }
    for new in [
        json!({"a": 2, "list": [{"x": 1}, {"y": [1, 2]}]}),
        json!({"list": [{"x": 1}, {"y": [1, 2]}]}),
        json!({"a": 1, "list": [{"y": [1, 2]}, {"x": 1}]}),
        json!({"a": 1, "list": [{"x": 1}, {"y": [2, 1]}]}),
        json!({"a": 1, "list": [{"x": 1}]}),
        json!({"a": "1", "list": [{"x": 1}, {"y": [1, 2]}]}),
        json!([]),
    ] {
        assert!(only_additions(&old, &new).is_err(), "{new}");
    }
}
