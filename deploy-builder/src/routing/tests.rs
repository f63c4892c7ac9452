//! Every wrong combination, planted into a plan that holds.

use super::*;
use crate::plan::{Arch, Url, plan, tests::package};

/// Two apps, each with both functions.
fn functions() -> Vec<Function> {
    let mut packages = vec![
        package("foreground", "assistant", Role::Foreground),
        package("background", "assistant", Role::Background),
        package("admin", "admin", Role::Foreground),
        package("admin-background", "admin", Role::Background),
    ];
    packages[2].keys.base_path = Some("/admin".into());
    plan(&packages, &[Role::Foreground, Role::Background], Arch::X86_64).unwrap()
}

fn lines(functions: &[Function]) -> Vec<String> {
    let proof = prove(&functions.iter().collect::<Vec<_>>());
    proof.err().map(|problems| problems.lines).unwrap_or_default()
}

/// What is wrong after a change of the function of this name.
fn wrong(name: &str, change: impl FnOnce(&mut Function)) -> Vec<String> {
    let mut functions = functions();
    change(functions.iter_mut().find(|function| function.name == name).unwrap());
    lines(&functions)
}

fn set<'a>(function: &'a mut Function, variable: &Variable) -> &'a mut Setting {
    let of = |setting: &&mut Setting| setting.name == variable.name;
    function.environment.iter_mut().find(of).unwrap()
}

fn unset(function: &mut Function, variable: &Variable) {
    function.environment.retain(|setting| setting.name != variable.name);
}

#[track_caller]
fn exactly(lines: &[String], expected: &[&[&str]]) {
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, parts) in lines.iter().zip(expected) {
        for part in *parts {
            assert!(line.contains(part), "`{part}` in {line}");
        }
    }
}

#[test]
fn a_plan_holds() {
    assert_eq!(lines(&functions()), [""; 0]);
    assert_eq!(
        lines(&functions()[2..3]).len(),
        1,
        "a foreground without the function it names"
    );
}

#[test]
fn two_functions_for_one_path() {
    for (route, clash) in [
        ("/api/v1/*", true),
        ("/api/v1/runs", true),
        ("/api/*", true),
        ("/*", true),
        ("/api/v10/*", false),
        ("/API/v1/*", false),
        ("/admin/api/v2/*", false),
    ] {
        let lines = wrong("admin", |function| function.routes = vec![route.to_owned()]);
        let found = lines
            .iter()
            .any(|line| line.contains("`admin` answers") && line.contains("`foreground` answers"));
        assert_eq!(found, clash, "{route}: {lines:#?}");
    }
}

#[test]
fn a_base_path_inside_another_app_s_routes() {
    let mut packages = vec![package("a", "a", Role::Foreground), package("b", "b", Role::Foreground)];
    packages[1].keys.base_path = Some("/api/v1/b".into());
    let functions = plan(&packages, &[Role::Foreground], Arch::X86_64).unwrap();
    let lines = lines(&functions);
    assert!(
        lines[0].contains("/api/v1/*") && lines[0].contains("/api/v1/b/api/v1/*"),
        "{lines:#?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("/api/v1/b/_sweep of `b` is internal")),
        "{lines:#?}"
    );
}

#[test]
fn a_background_function_that_callers_reach() {
    let url = Url {
        invoke_mode: String::from("BUFFERED"),
    };
    exactly(
        &wrong("background", |function| function.url = Some(url)),
        &[&["`background`", "has a URL"]],
    );
    let routes = vec![String::from("/elsewhere")];
    exactly(
        &wrong("background", |function| function.routes = routes),
        &[&["`background`", "answers /elsewhere to everyone"]],
    );
}

#[test]
fn a_dispatch_without_its_target() {
    let target = |name: Option<&'static str>| {
        wrong("foreground", move |function| {
            set(function, &BACKGROUND_FUNCTION).function = name.map(str::to_owned);
        })
    };
    let idle: &[&str] = &["nothing dispatches to the background function `background`"];
    exactly(&target(None), &[&["`foreground` names no function"], idle]);
    exactly(
        &target(Some("gone")),
        &[&["dispatches to `gone`", "not in this output"], idle],
    );
    exactly(
        &target(Some("admin")),
        &[&["dispatches to `admin`", "a foreground function"], idle],
    );
    exactly(
        &target(Some("admin-background")),
        &[&["of app `assistant`", "of app `admin`"], idle],
    );
    exactly(
        &wrong("foreground", |function| unset(function, &BACKGROUND_FUNCTION)),
        &[idle],
    );
}

#[test]
fn a_planted_background_function() {
    let mut off = plan(
        &[package("foreground", "assistant", Role::Foreground)],
        &[Role::Foreground],
        Arch::X86_64,
    )
    .unwrap();
    off.extend(functions().into_iter().find(|function| function.name == "background"));
    exactly(&lines(&off), &[&["nothing dispatches to", "`background`"]]);
}

#[test]
fn an_environment_that_lacks_something() {
    for (name, variable) in [
        ("background", &DISPATCH_SECRET),
        // Without it a background function doesn't start.
        ("background", &DISPATCH),
        ("foreground", &DISPATCH_SECRET),
        ("background", &RUNS_TABLE),
        ("background", &EVENTS_TABLE),
        ("foreground", &RUNS_TABLE),
    ] {
        let lines = wrong(name, |function| unset(function, variable));
        exactly(&lines, &[&[name, "lacks", variable.name]]);
    }
    exactly(
        &wrong("background", |function| {
            set(function, &DISPATCH_SECRET).required = false
        }),
        &[&["`background` lacks"]],
    );
}

#[test]
fn a_secret_that_is_told() {
    let told = wrong("background", |function| {
        set(function, &DISPATCH_SECRET).value = Some(String::from("hush"));
    });
    exactly(&told, &[&["is a secret and has a value"]]);
    assert!(!told[0].contains("hush"));
}

#[test]
fn a_soft_cap_above_its_ceiling() {
    exactly(
        &wrong("foreground", |function| function.soft_cap_ms = 40_001),
        &[&["40001 ms", "40000 ms at most"]],
    );
    exactly(
        &wrong("background", |function| function.soft_cap_ms = 780_001),
        &[&["780000 ms at most"]],
    );
    assert_eq!(wrong("foreground", |function| function.soft_cap_ms = 30_000), [""; 0]);
}

#[test]
fn a_foreground_function_that_nobody_reaches() {
    exactly(
        &wrong("foreground", |function| function.url = None),
        &[&["has no URL that streams"]],
    );
    exactly(
        &wrong("foreground", |function| function.routes.clear()),
        &[&["answers no path"]],
    );
}

#[test]
fn two_of_one_kind() {
    let mut functions = functions();
    functions.push(functions[3].clone());
    let lines = lines(&functions);
    assert!(
        lines.contains(&String::from("2 functions are called `background`")),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("two background functions")),
        "{lines:#?}"
    );
}
