//! From packages to functions.

use outlast_core::env_vars::{BACKGROUND_FUNCTION, BASE_PATH, DISPATCH, DISPATCH_SECRET};

use super::*;
use crate::metadata::Keys;

const OFF: &[Role] = &[Role::Foreground];
const ON: &[Role] = &[Role::Foreground, Role::Background];

pub fn package(name: &str, app: &str, role: Role) -> Package {
    Package {
        name: name.to_owned(),
        bin: name.to_owned(),
        keys: Keys {
            app: app.to_owned(),
            role,
            base_path: None,
            memory_mb: None,
            timeout_seconds: None,
        },
    }
}

fn pair() -> Vec<Package> {
    vec![
        package("foreground", "assistant", Role::Foreground),
        package("background", "assistant", Role::Background),
    ]
}

fn with(mut package: Package, change: impl FnOnce(&mut Keys)) -> Package {
    change(&mut package.keys);
    package
}

fn refused(packages: &[Package]) -> String {
    plan(packages, ON, Arch::X86_64).unwrap_err().to_string()
}

fn setting<'a>(function: &'a Function, name: &str) -> Option<&'a Setting> {
    function.environment.iter().find(|setting| setting.name == name)
}

#[test]
fn off_an_app_is_its_foreground() {
    let functions = plan(&pair(), OFF, Arch::Arm64).unwrap();
    let [foreground] = functions.as_slice() else {
        panic!("{functions:?}")
    };
    assert_eq!(
        (
            foreground.file.as_str(),
            foreground.soft_cap_ms,
            foreground.timeout_seconds,
            foreground.memory_mb
        ),
        ("foreground.zip", 40_000, 75, 256)
    );
    assert_eq!(foreground.routes, ["/api/v1/*"]);
    assert_eq!(foreground.internal, ["/_process-run", "/_sweep"]);
    assert!(setting(foreground, BACKGROUND_FUNCTION.name).is_none());
    assert!(setting(foreground, DISPATCH_SECRET.name).is_none());
    assert_eq!(
        functions,
        plan(&pair()[..1], OFF, Arch::Arm64).unwrap(),
        "with or without the package"
    );
}

#[test]
fn on_there_is_a_background_too() {
    let functions = plan(&pair(), ON, Arch::X86_64).unwrap();
    let [foreground, background] = functions.as_slice() else {
        panic!("{functions:?}")
    };
    assert_eq!(
        (
            background.soft_cap_ms,
            background.timeout_seconds,
            background.memory_mb,
            &background.url
        ),
        (780_000, 900, 512, &None)
    );
    assert!(background.routes.is_empty());
    let target = setting(foreground, BACKGROUND_FUNCTION.name).unwrap();
    assert_eq!(
        (target.function.as_deref(), target.required),
        (Some("background"), true)
    );
    assert_eq!(
        setting(background, DISPATCH.name).unwrap().value.as_deref(),
        Some("lambda")
    );
    for function in [foreground, background] {
        let secret = setting(function, DISPATCH_SECRET.name).unwrap();
        assert!(secret.required && secret.secret);
    }
}

#[test]
fn the_order_of_packages_is_nothing() {
    let mut packages = pair();
    packages.push(with(package("admin", "admin", Role::Foreground), |keys| {
        keys.base_path = Some("/admin".into());
    }));
    packages.push(package("admin-background", "admin", Role::Background));
    let expected = plan(&packages, ON, Arch::X86_64).unwrap();
    let names: Vec<_> = expected.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["admin", "admin-background", "foreground", "background"]);
    for _ in 0..packages.len() {
        packages.rotate_left(1);
        assert_eq!(plan(&packages, ON, Arch::X86_64).unwrap(), expected);
    }
    packages.reverse();
    assert_eq!(plan(&packages, ON, Arch::X86_64).unwrap(), expected);
}

#[test]
fn a_base_path_is_the_app_s() {
    let mut packages = pair();
    packages[0].keys.base_path = Some("/agents".into());
    let functions = plan(&packages, ON, Arch::X86_64).unwrap();
    assert_eq!(functions[0].routes, ["/agents/api/v1/*"]);
    for function in &functions {
        assert_eq!(function.internal, ["/agents/_process-run", "/agents/_sweep"]);
        assert_eq!(
            setting(function, BASE_PATH.name).unwrap().value.as_deref(),
            Some("/agents")
        );
    }
    packages[1].keys.base_path = Some("/others".into());
    assert!(refused(&packages).contains("`/others`"));
}

#[test]
fn what_a_package_says_of_itself_counts() {
    let small = with(pair().remove(0), |keys| {
        keys.memory_mb = Some(128);
        keys.timeout_seconds = Some(50);
    });
    let function = plan(&[small], OFF, Arch::X86_64).unwrap().remove(0);
    assert_eq!((function.memory_mb, function.timeout_seconds), (128, 50));
}

#[test]
fn what_makes_no_deployment_is_named() {
    let foreground = || pair().remove(0);
    let background = || pair().remove(1);
    let cases: [(Vec<Package>, &[&str]); 9] = [
        (vec![], &["no package is a function", "Cargo.toml"]),
        (
            vec![foreground()],
            &["no background function", "`foreground`", "without background functions"],
        ),
        (vec![background()], &["no foreground function", "`background`"]),
        (
            vec![foreground(), package("b", "assistant", Role::Foreground), background()],
            &["several foreground functions, `b`, `foreground`"],
        ),
        (
            vec![foreground(), background(), package("c", "assistant", Role::Background)],
            &["several background functions, `background`, `c`"],
        ),
        (
            vec![
                with(foreground(), |keys| keys.base_path = Some("agents/".into())),
                background(),
            ],
            &["`agents/`", "`foreground`", "/agents"],
        ),
        (
            vec![with(foreground(), |keys| keys.memory_mb = Some(64)), background()],
            &["memory-mb is 64", "128"],
        ),
        (
            vec![
                foreground(),
                with(background(), |keys| keys.timeout_seconds = Some(901)),
            ],
            &["`background`", "timeout-seconds is 901", "900 s"],
        ),
        (
            vec![
                package("f", "my app", Role::Foreground),
                package("b", "my app", Role::Background),
            ],
            &["`my app`"],
        ),
    ];
    for (packages, expected) in cases {
        let text = refused(&packages);
        for part in expected {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let text = refused(&[
        package("a", "one", Role::Foreground),
        package("b", "two", Role::Background),
    ]);
    assert!(
        text.contains("app `one` has no background") && text.contains("app `two` has no foreground"),
        "{text}"
    );
}

#[test]
fn base_paths() {
    for path in ["", "/a", "/a/b-c", "/a_1/~x/.well"] {
        assert!(is_base_path(path), "{path}");
    }
    for path in [
        "/", "a", "/a/", "//a", "/a//b", "/a b", "/ä", "/a/..", "/./a", "/a%20", "/a*",
    ] {
        assert!(!is_base_path(path), "{path}");
    }
}
