//! What is compared with what, once both sides are built.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    FLAG, additions, difference,
    report::{Progress, Report},
    side::{Named, Side, Tree},
};

const MANIFEST: &str = "manifest.json";
/// With the flag unset that is three ways to say off. deploy-builder's own tests know all of them.
const OFF: [(&str, &str); 2] = [("off-word", "off"), ("off-empty", "")];

/// Two trees, file by file.
pub fn same(report: &mut Report, of: &str, (one, other): (&Named<'_>, &Named<'_>)) {
    let names: BTreeSet<&String> = one.tree.keys().chain(other.tree.keys()).collect();
    for name in names {
        let what = format!("{of}: {name}");
        match (one.tree.get(name), other.tree.get(name)) {
            (Some(first), Some(second)) => {
                let hint = difference::between(&what, (&one.name, first), (&other.name, second));
                report.compared(what, first, hint);
            }
            (first, _) => {
                let there = if first.is_some() { &one.name } else { &other.name };
                let hint = format!("{what}: only {there} has it");
                report.holds(what, Some(hint));
            }
        }
    }
}

/// Who knows the flag's name: A's deploy-builder does (or looking for it would prove nothing), B's doesn't.
pub fn words(report: &mut Report, a: &Side, b: &Side) -> Result<()> {
    let knows = |side: &Side| -> Result<bool> { Ok(holds_flag(&fs::read(&side.builder)?)) };
    let hint = match (knows(a)?, knows(b)?) {
        (true, false) => None,
        (of_a, of_b) => Some(format!(
            "{FLAG} stands in A's deploy-builder: {of_a}, in B's: {of_b}; in A's alone it should"
        )),
    };
    report.holds(format!("A's deploy-builder holds the word {FLAG}, B's doesn't"), hint);
    Ok(())
}

/// In A's target folder, which is warm by now.
pub fn everything_else(report: &mut Report, progress: &Progress, a: &Side, off: Tree) -> Result<()> {
    progress.say(&format!("A: building with {FLAG}=1"));
    let on = a.build("on", Some("1"), progress)?;
    let manifests = (manifest(&off)?, manifest(&on)?);
    flag_on(report, (&off, &manifests.0), (&on, &manifests.1));

    progress.say("A: plain `cargo lambda build` under the same flags");
    for function in additions::functions(&manifests.1) {
        let name = additions::text(function, "name");
        let packed = a.bootstrap("on", &additions::text(function, "file"))?;
        let plain = a.plain(&name, progress)?;
        let what = format!("plain cargo lambda build: {name}, bootstrap");
        let hint = difference::between(&what, ("the zip", &packed), ("the plain build", &plain));
        report.compared(what, &packed, hint);
        let hint = holds_flag(&packed).then(|| format!("the bootstrap of {name} holds the word {FLAG}"));
        report.holds(format!("no word of {FLAG} in what is deployed: {name}"), hint);
    }

    // After a build under the flag: it leaves no trace.
    let again = Named {
        name: "A before".into(),
        tree: &off,
    };
    for (folder, spelling) in OFF {
        progress.say(&format!("A: building with {FLAG}=\"{spelling}\""));
        let tree = a.build(folder, Some(spelling), progress)?;
        let tree = Named {
            name: format!("A with {spelling:?}"),
            tree: &tree,
        };
        same(report, &format!("flag {spelling:?}"), (&again, &tree));
    }

    progress.say("A: deploy-builder build --verify");
    for (folder, flag, expected) in [
        ("off", None, true),
        ("on", Some("1"), true),
        ("off", Some("1"), false),
        ("on", None, false),
    ] {
        let (content, said) = a.verifies(folder, flag)?;
        let verb = if expected { "passes" } else { "is refused" };
        let set = flag.map_or("unset".to_owned(), |flag| format!("\"{flag}\""));
        let what = format!("--verify of `{folder}`, flag {set}, {verb}");
        let hint = (content != expected).then(|| format!("{what}: no. It says\n{said}"));
        report.holds(what, hint);
    }
    Ok(())
}

/// One file more an app; the others as they were, and the manifest with additions.
fn flag_on(report: &mut Report, (off, off_manifest): (&Tree, &Value), (on, on_manifest): (&Tree, &Value)) {
    let zips = |tree: &Tree| -> Tree {
        let zips = tree.iter().filter(|(name, _)| *name != MANIFEST);
        zips.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
    };
    let (of_off, of_on) = (zips(off), zips(on));
    for (name, bytes) in &of_off {
        let what = format!("flag on: {name}");
        let other = of_on.get(name).map(Vec::as_slice).unwrap_or_default();
        let hint = difference::between(&what, ("off", bytes), ("on", other));
        report.compared(what, bytes, hint);
    }
    let foregrounds = additions::count(off_manifest, "foreground");
    let backgrounds = additions::count(on_manifest, "background");
    let before = additions::count(off_manifest, "background");
    let more: Vec<_> = of_on.keys().filter(|name| !of_off.contains_key(*name)).collect();
    let one_each = foregrounds.keys().eq(backgrounds.keys())
        && backgrounds.values().all(|count| *count == 1)
        && before.values().all(|count| *count == 0)
        && more.len() == foregrounds.len();
    let hint = (!one_each).then(|| {
        format!(
            "flag on: new files {more:?}; background functions of each app {backgrounds:?}, with the flag off {before:?}"
        )
    });
    report.holds(
        format!("flag on: exactly one file more an app: {}", listed(&more)),
        hint,
    );
    let changes = additions::changes(off_manifest, on_manifest);
    let hint = (!changes.is_empty()).then(|| format!("flag on: {MANIFEST}\n  {}", changes.join("\n  ")));
    report.holds(format!("flag on: {MANIFEST} changes by additions only"), hint);
}

fn listed(names: &[&String]) -> String {
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    names.join(", ")
}

fn manifest(tree: &Tree) -> Result<Value> {
    let bytes = tree
        .get(MANIFEST)
        .with_context(|| format!("{MANIFEST} was not put out"))?;
    serde_json::from_slice(bytes).with_context(|| format!("{MANIFEST} can't be read"))
}

fn holds_flag(bytes: &[u8]) -> bool {
    bytes.windows(FLAG.len()).any(|window| window == FLAG.as_bytes())
}
