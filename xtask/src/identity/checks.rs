//! What is compared with what, once both sides are built.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    FLAG, additions, difference,
    report::{Progress, Report},
    side::{Output, Side},
};

const MANIFEST: &str = "manifest.json";
/// With the flag unset that is three ways to say off. deploy-builder's own tests know all of them.
const OFF: [(&str, &str); 2] = [("off-word", "off"), ("off-empty", "")];

/// Two outputs, file by file.
pub fn same(report: &mut Report, of: &str, a: &Side, (one, other): (&Output, &Output)) -> Result<()> {
    let names: BTreeSet<&String> = one.files.keys().chain(other.files.keys()).collect();
    each(report, of, a, names, (one, other))
}

fn each<'a>(
    report: &mut Report,
    of: &str,
    a: &Side,
    names: impl IntoIterator<Item = &'a String>,
    (one, other): (&Output, &Output),
) -> Result<()> {
    for name in names {
        let what = format!("{of}: {name}");
        match (one.files.get(name), other.files.get(name)) {
            (Some(first), Some(second)) if first == second => report.compared(what, first, None),
            (Some(first), Some(_)) => {
                let hint = differ(&what, a, name, (one, other))?;
                report.compared(what, first, Some(hint));
            }
            (first, _) => {
                let there = if first.is_some() { one } else { other };
                let hint = format!("{what}: only {} has it", there.name);
                report.holds(what, Some(hint));
            }
        }
    }
    Ok(())
}

/// How a file that both have differs. In a zip nothing can be read: it is unpacked.
fn differ(what: &str, a: &Side, file: &str, (one, other): (&Output, &Output)) -> Result<String> {
    let told = |first: &[u8], second: &[u8]| difference::between(what, (&one.name, first), (&other.name, second));
    let as_they_are = told(&one.files[file], &other.files[file]).unwrap_or_default();
    if !file.ends_with(".zip") {
        return Ok(as_they_are);
    }
    let unpacked = told(&a.bootstrap(one, file)?, &a.bootstrap(other, file)?);
    Ok(match unpacked {
        Some(told) => format!("{told}\n  (in its bootstrap)"),
        None => format!("{as_they_are}\n  (packed differently: the bootstrap is the same)"),
    })
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
pub fn everything_else(report: &mut Report, progress: &Progress, a: &Side, off: &Output) -> Result<()> {
    progress.say(&format!("A: building with {FLAG}=1"));
    let on = a.build("on", Some("1"), progress)?;
    let manifest_on = manifest(&on)?;
    flag_on(report, a, (off, &manifest(off)?), (&on, &manifest_on))?;

    progress.say("A: plain `cargo lambda build` under the same flags");
    for function in additions::functions(&manifest_on) {
        let name = additions::text(function, "name");
        let packed = a.bootstrap(&on, &additions::text(function, "file"))?;
        let plain = a.plain(&name, progress)?;
        let what = format!("plain cargo lambda build: {name}, bootstrap");
        let hint = difference::between(&what, ("the zip", &packed), ("the plain build", &plain));
        report.compared(what, &packed, hint);
        let hint = holds_flag(&packed).then(|| format!("the bootstrap of {name} holds the word {FLAG}"));
        report.holds(format!("no word of {FLAG} in what is deployed: {name}"), hint);
    }

    // After a build under the flag: it leaves no trace.
    for (folder, spelling) in OFF {
        progress.say(&format!("A: building with {FLAG}=\"{spelling}\""));
        let again = a.build(folder, Some(spelling), progress)?;
        same(report, &format!("flag {spelling:?}"), a, (off, &again))?;
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
fn flag_on(
    report: &mut Report,
    a: &Side,
    (off, off_manifest): (&Output, &Value),
    (on, on_manifest): (&Output, &Value),
) -> Result<()> {
    let zips = off.files.keys().filter(|name| *name != MANIFEST);
    each(report, "flag on", a, zips, (off, on))?;
    let foregrounds = additions::count(off_manifest, "foreground");
    let backgrounds = additions::count(on_manifest, "background");
    let before = additions::count(off_manifest, "background");
    let more = on.files.keys().filter(|name| !off.files.contains_key(*name));
    let more: Vec<_> = more.map(String::as_str).collect();
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
        format!("flag on: exactly one file more an app: {}", more.join(", ")),
        hint,
    );
    let changes = additions::changes(off_manifest, on_manifest);
    let hint = (!changes.is_empty()).then(|| format!("flag on: {MANIFEST}\n  {}", changes.join("\n  ")));
    report.holds(format!("flag on: {MANIFEST} changes by additions only"), hint);
    Ok(())
}

fn manifest(output: &Output) -> Result<Value> {
    let bytes = output
        .files
        .get(MANIFEST)
        .with_context(|| format!("{MANIFEST} was not put out"))?;
    serde_json::from_slice(bytes).with_context(|| format!("{MANIFEST} can't be read"))
}

fn holds_flag(bytes: &[u8]) -> bool {
    bytes.windows(FLAG.len()).any(|window| window == FLAG.as_bytes())
}
