//! The proof of routing: each public path has one function, and each dispatch a target that exists. Over the plan before
//! anything is built, and over the manifest of an output.

use std::collections::BTreeMap;

use outlast_core::env_vars::{BACKGROUND_FUNCTION, DISPATCH, DISPATCH_SECRET, EVENTS_TABLE, RUNS_TABLE, Variable};

use crate::environment::Setting;
use crate::plan::{Function, Role};
use crate::problems::Problems;

/// The error lists everything that contradicts it.
pub fn prove(functions: &[&Function]) -> Result<(), Problems> {
    let mut wrong = Vec::new();
    one_answer_a_path(functions, &mut wrong);
    for function in functions {
        match function.role {
            Role::Foreground => foreground(function, functions, &mut wrong),
            Role::Background => background(function, functions, &mut wrong),
        }
        every_function(function, &mut wrong);
    }
    Problems::unless_empty("the routing is wrong", wrong)
}

fn one_answer_a_path(functions: &[&Function], wrong: &mut Vec<String>) {
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    for function in functions {
        *names.entry(&function.name).or_default() += 1;
    }
    let repeated = names.iter().filter(|(_, count)| **count > 1);
    wrong.extend(repeated.map(|(name, count)| format!("{count} functions are called `{name}`")));

    for (i, one) in functions.iter().enumerate() {
        for other in &functions[i + 1..] {
            if (&one.app, one.role) == (&other.app, other.role) {
                wrong.push(format!(
                    "app `{}` has two {} functions, `{}` and `{}`",
                    one.app, one.role, one.name, other.name
                ));
            }
            for (route, same) in pairs(&one.routes, &other.routes).filter(|(a, b)| overlap(a, b)) {
                wrong.push(format!(
                    "`{}` answers {route} and `{}` answers {same}: a path has one function. Give one of their apps \
                     another base-path",
                    one.name, other.name
                ));
            }
        }
        for other in functions {
            for (internal, route) in pairs(&one.internal, &other.routes).filter(|(a, b)| overlap(a, b)) {
                wrong.push(format!(
                    "{internal} of `{}` is internal, and `{}` answers {route} to everyone",
                    one.name, other.name
                ));
            }
        }
    }
}

fn pairs<'a>(some: &'a [String], others: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
    some.iter()
        .flat_map(|one| others.iter().map(move |other| (one.as_str(), other.as_str())))
}

/// Whether some path belongs to both. A pattern is a path, or ends in `/*`: everything below.
fn overlap(one: &str, other: &str) -> bool {
    let below = |pattern: &str, path: &str| {
        let prefix = pattern.strip_suffix('*');
        prefix.is_some_and(|prefix| path.strip_suffix('*').unwrap_or(path).starts_with(prefix))
    };
    one == other || below(one, other) || below(other, one)
}

fn foreground(function: &Function, functions: &[&Function], wrong: &mut Vec<String>) {
    let name = &function.name;
    let cap = Role::Foreground.soft_cap_ms();
    if function.soft_cap_ms > cap {
        wrong.push(format!(
            "the soft cap of `{name}` is {} ms: a foreground's is {cap} ms at most",
            function.soft_cap_ms
        ));
    }
    if function.url.as_ref().map(|url| url.invoke_mode.as_str()) != Some("RESPONSE_STREAM") {
        wrong.push(format!("`{name}` is a foreground function and has no URL that streams"));
    }
    if function.routes.is_empty() {
        wrong.push(format!("`{name}` is a foreground function and answers no path"));
    }
    let Some(target) = setting(function, &BACKGROUND_FUNCTION) else {
        return;
    };
    let variable = BACKGROUND_FUNCTION.name;
    let found = functions
        .iter()
        .find(|other| Some(&other.name) == target.function.as_ref());
    match (target.function.as_deref(), found) {
        (None, _) => wrong.push(format!("{variable} of `{name}` names no function of this output")),
        (Some(target), None) => wrong.push(format!(
            "`{name}` dispatches to `{target}` ({variable}), which is not in this output"
        )),
        (Some(target), Some(found)) if found.role != Role::Background => wrong.push(format!(
            "`{name}` dispatches to `{target}` ({variable}), which is a {} function",
            found.role
        )),
        (Some(target), Some(found)) if found.app != function.app => wrong.push(format!(
            "`{name}` of app `{}` dispatches to `{target}` ({variable}) of app `{}`",
            function.app, found.app
        )),
        (Some(_), Some(_)) => {}
    }
    needs(function, &DISPATCH_SECRET, wrong);
}

fn background(function: &Function, functions: &[&Function], wrong: &mut Vec<String>) {
    let name = &function.name;
    let cap = Role::Background.soft_cap_ms();
    if function.soft_cap_ms > cap {
        wrong.push(format!(
            "the soft cap of `{name}` is {} ms: a background's is {cap} ms at most",
            function.soft_cap_ms
        ));
    }
    if function.url.is_some() {
        wrong.push(format!("`{name}` is a background function and has a URL"));
    }
    if !function.routes.is_empty() {
        wrong.push(format!(
            "`{name}` is a background function and answers {} to everyone",
            function.routes.join(", ")
        ));
    }
    let dispatches = |other: &&&Function| {
        let target = setting(other, &BACKGROUND_FUNCTION).and_then(|setting| setting.function.as_ref());
        other.role == Role::Foreground && other.app == function.app && target == Some(name)
    };
    if !functions.iter().any(|other| dispatches(&other)) {
        wrong.push(format!(
            "nothing dispatches to the background function `{name}`: no foreground function of app `{}` names it in {}",
            function.app, BACKGROUND_FUNCTION.name
        ));
    }
    // It hands on to itself, and doesn't start where nothing is dispatched.
    if !setting(function, &DISPATCH).is_some_and(|setting| setting.required && setting.value.is_some()) {
        wrong.push(format!(
            "the environment of `{name}` lacks {} with a value",
            DISPATCH.name
        ));
    }
    needs(function, &DISPATCH_SECRET, wrong);
}

fn every_function(function: &Function, wrong: &mut Vec<String>) {
    for table in [RUNS_TABLE, EVENTS_TABLE] {
        if setting(function, &table).is_none() {
            wrong.push(format!("the environment of `{}` lacks {}", function.name, table.name));
        }
    }
    let told = |setting: &&Setting| setting.secret && (setting.value.is_some() || setting.default.is_some());
    for setting in function.environment.iter().filter(told) {
        wrong.push(format!(
            "{} of `{}` is a secret and has a value",
            setting.name, function.name
        ));
    }
}

fn setting<'a>(function: &'a Function, variable: &Variable) -> Option<&'a Setting> {
    function
        .environment
        .iter()
        .find(|setting| setting.name == variable.name)
}

fn needs(function: &Function, secret: &Variable, wrong: &mut Vec<String>) {
    if !setting(function, secret).is_some_and(|setting| setting.required && setting.secret) {
        wrong.push(format!(
            "the environment of `{}` lacks {} as a required secret",
            function.name, secret.name
        ));
    }
}

#[cfg(test)]
mod tests;
