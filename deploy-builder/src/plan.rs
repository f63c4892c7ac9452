//! What would ship: from packages to functions. Pure.

use std::collections::BTreeMap;
use std::fmt;

use outlast_core::limits::{BACKGROUND_SOFT_CAP, FOREGROUND_SOFT_CAP};
use outlast_core::paths::{API, PROCESS_RUN, SWEEP};
use serde::{Deserialize, Serialize};

use crate::environment::{self, Setting};
use crate::metadata::Package;
use crate::problems::Problems;

/// What the zip holds, and what Lambda starts.
pub const BOOTSTRAP: &str = "bootstrap";
pub const RUNTIME: &str = "provided.al2023";

/// What Lambda takes.
const MEMORY_MB: std::ops::RangeInclusive<u64> = 128..=10_240;
const TIMEOUT_SECONDS: std::ops::RangeInclusive<u64> = 1..=900;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Answers callers; has the URL.
    Foreground,
    /// Carries runs; is only ever invoked.
    Background,
}

impl Role {
    pub fn soft_cap_ms(self) -> u64 {
        let cap = match self {
            Role::Foreground => FOREGROUND_SOFT_CAP,
            Role::Background => BACKGROUND_SOFT_CAP,
        };
        u64::try_from(cap.as_millis()).unwrap_or(u64::MAX)
    }

    /// The foreground's: its soft cap, and time to end a stream and hand off. The background's: the most that Lambda has.
    fn timeout_seconds(self) -> u64 {
        match self {
            Role::Foreground => 75,
            Role::Background => 900,
        }
    }

    /// Lambda gives a share of a processor by memory. The foreground mostly waits for the table; the background runs
    /// what the app does.
    fn memory_mb(self) -> u64 {
        match self {
            Role::Foreground => 256,
            Role::Background => 512,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Foreground => "foreground",
            Role::Background => "background",
        })
    }
}

/// The processor that functions are built for, as Lambda calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "arm64")]
    Arm64,
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::X86_64 => "x86_64",
            Arch::Arm64 => "arm64",
        })
    }
}

/// A function's own URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Url {
    pub invoke_mode: String,
}

/// A function, as it would ship; the manifest says the same of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Function {
    /// The package's.
    pub name: String,
    pub app: String,
    pub role: Role,
    pub soft_cap_ms: u64,
    pub file: String,
    pub arch: Arch,
    pub runtime: String,
    pub handler: String,
    pub timeout_seconds: u64,
    pub memory_mb: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    pub environment: Vec<Setting>,
    /// The paths that callers reach; `/*` at the end is everything below.
    pub routes: Vec<String>,
    /// The paths of invocations, which no caller of a URL can make.
    pub internal: Vec<String>,
    /// The binary of the package; only who builds must know it.
    #[serde(skip)]
    pub bin: String,
}

/// By app, the foreground first. These roles make a deployment; packages of others are left out.
pub fn plan(packages: &[Package], roles: &[Role], arch: Arch) -> Result<Vec<Function>, Problems> {
    let mut apps: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in packages.iter().filter(|package| roles.contains(&package.keys.role)) {
        apps.entry(&package.keys.app).or_default().push(package);
    }
    let mut problems = Vec::new();
    if apps.is_empty() {
        problems.push(String::from(
            "no package is a function: give one `[package.metadata.outlast]` with `app` and `role = \"foreground\"` in its \
             Cargo.toml",
        ));
    }
    let mut functions = Vec::new();
    for (app, packages) in &apps {
        match members(app, packages, roles) {
            Ok(members) => functions.extend(app_functions(app, &members, arch, &mut problems)),
            Err(wrong) => problems.extend(wrong),
        }
    }
    Problems::unless_empty("the workspace's functions don't make a deployment", problems)?;
    Ok(functions)
}

/// One package for each role, in their order.
fn members<'a>(app: &str, packages: &[&'a Package], roles: &[Role]) -> Result<Vec<&'a Package>, Vec<String>> {
    let (mut members, mut problems) = (Vec::new(), Vec::new());
    for role in roles {
        let mut of_role: Vec<_> = packages.iter().filter(|package| package.keys.role == *role).collect();
        of_role.sort_by(|a, b| a.name.cmp(&b.name));
        match of_role.as_slice() {
            [one] => members.push(**one),
            [] => problems.push(format!(
                "app `{app}` has no {role} function, only {}: add a package with `app = \"{app}\"` and `role = \"{role}\"`{}",
                names(packages),
                if *role == Role::Background { ", or build without background functions" } else { "" }
            )),
            several => problems.push(format!(
                "app `{app}` has several {role} functions, {}: keep one, or give the others an `app` of their own",
                names(&several.iter().copied().copied().collect::<Vec<_>>())
            )),
        }
    }
    if problems.is_empty() {
        Ok(members)
    } else {
        Err(problems)
    }
}

fn names(packages: &[&Package]) -> String {
    let names: Vec<_> = packages.iter().map(|package| format!("`{}`", package.name)).collect();
    names.join(", ")
}

fn app_functions(app: &str, members: &[&Package], arch: Arch, problems: &mut Vec<String>) -> Vec<Function> {
    let of_role = |role| members.iter().find(|package| package.keys.role == role);
    let base = of_role(Role::Foreground).and_then(|package| package.keys.base_path.as_deref());
    let base = base.unwrap_or_default();
    let background = of_role(Role::Background).map(|package| package.name.as_str());
    for package in members {
        problems.extend(wrong_keys(package, base));
    }
    let functions = members.iter().map(|package| {
        let role = package.keys.role;
        let public = role == Role::Foreground;
        Function {
            name: package.name.clone(),
            app: app.to_owned(),
            role,
            soft_cap_ms: role.soft_cap_ms(),
            file: format!("{}.zip", package.name),
            arch,
            runtime: RUNTIME.to_owned(),
            handler: BOOTSTRAP.to_owned(),
            timeout_seconds: package.keys.timeout_seconds.unwrap_or(role.timeout_seconds()),
            memory_mb: package.keys.memory_mb.unwrap_or(role.memory_mb()),
            url: public.then(|| Url {
                invoke_mode: String::from("RESPONSE_STREAM"),
            }),
            environment: environment::of(role, base, background),
            routes: if public {
                vec![format!("{base}{API}/*")]
            } else {
                Vec::new()
            },
            internal: [PROCESS_RUN, SWEEP].map(|path| format!("{base}{path}")).to_vec(),
            bin: package.bin.clone(),
        }
    });
    functions.collect()
}

fn wrong_keys(package: &Package, base: &str) -> Vec<String> {
    let (keys, name) = (&package.keys, &package.name);
    let mut problems = Vec::new();
    if keys.app.is_empty() || !keys.app.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        problems.push(format!(
            "`{name}`: app is `{}`: letters, digits, `-` and `_` make a name",
            keys.app
        ));
    }
    if let Some(memory) = keys.memory_mb.filter(|memory| !MEMORY_MB.contains(memory)) {
        let (least, most) = MEMORY_MB.into_inner();
        problems.push(format!(
            "`{name}`: memory-mb is {memory}: Lambda takes {least} to {most} MB"
        ));
    }
    if let Some(timeout) = keys
        .timeout_seconds
        .filter(|timeout| !TIMEOUT_SECONDS.contains(timeout))
    {
        let (least, most) = TIMEOUT_SECONDS.into_inner();
        problems.push(format!(
            "`{name}`: timeout-seconds is {timeout}: Lambda takes {least} to {most} s"
        ));
    }
    let own = keys.base_path.as_deref();
    if own.is_some_and(|own| own != base) {
        problems.push(format!(
            "`{name}`: base-path is `{}`, but that of its app is `{base}`: say it at the foreground function only",
            own.unwrap_or_default()
        ));
    } else if own.is_some_and(|own| !is_base_path(own)) {
        problems.push(format!(
            "`{name}`: base-path is `{base}`: write it like `/agents`, from a slash on, with none at its end; letters, \
             digits and `-_.~` between them"
        ));
    }
    problems
}

/// What the functions take for one.
fn is_base_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    let segment = |part: &str| !part.is_empty() && part != "." && part != ".." && part.chars().all(plain);
    match path.strip_prefix('/') {
        Some(rest) => rest.split('/').all(segment),
        None => path.is_empty(),
    }
}

#[cfg(test)]
pub mod tests;
