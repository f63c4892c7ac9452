//! An output that is not as it was built.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::{Fixture, background, foreground, two_apps};

struct Built(Fixture);

impl Built {
    fn new() -> Self {
        let fixture = Fixture::new(&two_apps());
        fixture.built(None);
        Built(fixture)
    }

    fn out(&self, name: &str) -> std::path::PathBuf {
        self.0.path("out").join(name)
    }

    fn change_manifest(&self, change: impl FnOnce(&mut Value)) {
        let mut manifest = self.0.manifest();
        change(&mut manifest);
        fs::write(self.out("manifest.json"), manifest.to_string()).unwrap();
    }

    #[track_caller]
    fn caught(&self, parts: &[&str]) {
        let ran = self.0.run(&["--verify", "../out"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stdout);
        for part in parts {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
    }
}

#[test]
fn what_was_built_is_as_it_was_built() {
    let built = Built::new();
    let ran = built.0.run(&["--verify", "../out"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "../out is as it was built: 2 functions\n")
    );
}

#[test]
fn a_planted_background_zip_is_caught() {
    let built = Built::new();
    fs::copy(built.out("foreground.zip"), built.out("background.zip")).unwrap();
    built.caught(&["background.zip is not listed in manifest.json"]);
}

#[test]
fn a_planted_background_zip_is_caught_with_an_entry_too() {
    let built = Built::new();
    fs::copy(built.out("foreground.zip"), built.out("background.zip")).unwrap();
    built.change_manifest(|manifest| {
        let functions = manifest["functions"].as_array_mut().unwrap();
        let mut planted = functions.iter().find(|f| f["name"] == "foreground").unwrap().clone();
        for (key, value) in [
            ("name", json!("background")),
            ("file", json!("background.zip")),
            ("role", json!("background")),
            ("routes", json!([])),
        ] {
            planted[key] = value;
        }
        planted.as_object_mut().unwrap().remove("url");
        functions.push(planted);
    });
    built.caught(&[
        "nothing dispatches to the background function `background`",
        "the environment of `background` lacks",
        "`background` is a background function, and here none is asked for",
    ]);
}

/// Everything in order, but nobody asked for it.
#[cfg(feature = "split")]
#[test]
fn a_whole_output_of_the_other_kind_is_caught() {
    use crate::fixture::{FLAG, ran};

    let fixture = Fixture::new(&[foreground(), background()]);
    let verify = |flag: Option<&str>| {
        let mut command = fixture.command(&["--verify", "../out"]);
        ran(command.envs(flag.map(|flag| (FLAG, flag))))
    };
    fixture.built(Some("on"));
    assert_eq!(verify(Some("on")).code, Some(0));
    let off = verify(None);
    assert_eq!(off.code, Some(1));
    assert!(off.stderr.contains("here none is asked for"), "{}", off.stderr);
    fixture.built(None);
    let on = verify(Some("on"));
    assert_eq!(on.code, Some(1));
    assert!(
        on.stderr.contains("app `assistant` has no background function"),
        "{}",
        on.stderr
    );
}

#[test]
fn a_torn_file_is_caught() {
    let built = Built::new();
    let mut zip = fs::read(built.out("admin.zip")).unwrap();
    zip[40] ^= 1;
    fs::write(built.out("admin.zip"), &zip).unwrap();
    fs::write(built.out("foreground.zip"), "short").unwrap();
    // Both, not the first only.
    built.caught(&["admin.zip has the SHA-256", "foreground.zip has 5 bytes"]);
    fs::remove_file(built.out("foreground.zip")).unwrap();
    built.caught(&["foreground.zip can't be read"]);
}

#[test]
fn a_zip_that_is_none_of_ours_is_caught() {
    let built = Built::new();
    let zip = b"not a zip";
    fs::write(built.out("foreground.zip"), zip).unwrap();
    built.change_manifest(|manifest| {
        let function = manifest["functions"].as_array_mut().unwrap().iter_mut();
        let function = function.into_iter().find(|f| f["name"] == "foreground").unwrap();
        function["size"] = json!(zip.len());
        function["sha256"] = json!(outlast_core::digest::sha256_hex(zip));
    });
    built.caught(&["foreground.zip is no zip"]);
}

#[test]
fn a_program_for_another_processor_is_caught() {
    let built = Built::new();
    built.change_manifest(|manifest| manifest["functions"][0]["arch"] = json!("arm64"));
    built.caught(&["admin.zip holds a bootstrap that is a program for x86_64, not for arm64"]);
}

#[test]
fn a_manifest_that_contradicts_itself_is_caught() {
    let built = Built::new();
    built.change_manifest(|manifest| {
        manifest["functions"][0]["softCapMs"] = json!(41_000);
        manifest["functions"][0]["routes"] = json!(["/api/v1/*"]);
        manifest["functions"][1]["file"] = json!("../out/foreground.zip");
    });
    built.caught(&[
        "40000 ms at most",
        "`admin` answers /api/v1/*",
        "is no name of a file in this folder",
        "foreground.zip is not listed",
    ]);
}

#[test]
fn a_manifest_that_is_not_known_is_caught() {
    let built = Built::new();
    built.change_manifest(|manifest| manifest["schema"] = json!(2));
    built.caught(&["manifest.json has schema 2: this deploy-builder knows 1"]);
    fs::write(built.out("manifest.json"), "{").unwrap();
    built.caught(&["no manifest of deploy-builder"]);
    fs::remove_file(built.out("manifest.json")).unwrap();
    built.caught(&["manifest.json can't be read"]);
    let nowhere = built.0.run(&["--verify", "../nowhere"]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.stderr.contains("../nowhere"), "{}", nowhere.stderr);
}

#[test]
fn an_empty_manifest_is_no_output() {
    let built = Built(Fixture::new(&[foreground(), background()]));
    fs::create_dir(built.0.path("out")).unwrap();
    fs::write(built.out("manifest.json"), r#"{"schema": 1, "functions": []}"#).unwrap();
    built.caught(&["lists no function"]);
}
