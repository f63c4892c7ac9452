//! What only one place may name. Comments may name anything.

use crate::{
    none,
    sources::{Source, sources},
};

/// These files spell the words that they look for.
const THIS_TEST: &str = "tests/tests/tidy/";

#[test]
fn time_chance_and_tasks_come_through_ports() {
    let reached = [
        "Instant::now",
        "SystemTime::now",
        "Timestamp::now",
        "Zoned::now",
        "Uuid::now_v7",
        "Uuid::new_v4",
        "rand::",
        "tokio::spawn",
        "task::spawn",
        "thread::spawn",
    ];
    let inner = ["core", "store", "engine", "agent", "http"].map(|name| format!("shared/{name}/src/"));
    let broken = inner
        .iter()
        .flat_map(|folder| sources(folder))
        .flat_map(|source| source.shipped_lines_with(&reached));
    none(
        "the inner crates reach for no clock, chance or task",
        "take it from a port; runtime has them",
        broken.collect(),
    );
}

#[test]
fn only_the_background_function_and_dev_run_in_the_background() {
    let allowed = |path: &str| {
        let is_dev = path.starts_with("cli/") && path.contains("dev");
        // Functions of other apps, which only tests deploy.
        let is_test_function = path.starts_with("tests/src/bin/function-");
        path.starts_with("functions/background/") || is_dev || is_test_function
    };
    let others = sources("").filter(|source| !allowed(&source.path) && !source.path.starts_with(THIS_TEST));
    let broken = others
        .flat_map(|source| source.lines_with(&["Host::background"]))
        .collect();
    none(
        "only functions/background, cli's dev and functions of tests name Host::background()",
        "dispatch to the background instead",
        broken,
    );
}

#[test]
fn no_test_is_left_out() {
    let hidden = tests().flat_map(|source| source.lines_with(&["todo!", "#[ignore"]));
    none("no test is left out", "finish it, or delete it", hidden.collect());
}

#[test]
fn no_test_sleeps() {
    let others = tests().filter(|source| source.path != "tests/src/wait.rs");
    let sleeps = others.flat_map(|source| source.lines_with(&["::sleep("]));
    let instead = "wait for the condition with outlast_tests::wait::wait_until";
    none("no test sleeps", instead, sleeps.collect());
}

fn tests() -> impl Iterator<Item = Source> {
    sources("tests/").filter(|source| !source.path.starts_with(THIS_TEST))
}

#[test]
fn environment_variables_are_spelled_once() {
    let home = "shared/core/src/env_vars.rs";
    let others = sources("").filter(|source| source.path != home && !source.path.starts_with(THIS_TEST));
    let spelled = others.flat_map(|source| source.lines_with(&["\"OUTLAST_"]));
    // What `cargo xtask` tells tests is no setting of the product; clap wants the name where the argument is.
    let of_tests = |line: &str| line.contains("\"OUTLAST_TEST_");
    let of_clap = |line: &str| line.starts_with("cli/") && line.contains("env = \"OUTLAST_");
    let broken = spelled.filter(|line| !of_tests(line) && !of_clap(line)).collect();
    none(
        "a variable's name is spelled only in shared/core/src/env_vars.rs",
        "use its constant",
        broken,
    );
}

#[test]
fn the_flag_is_read_in_one_module() {
    let allowed = |path: &str| {
        path.starts_with("deploy-builder/src/split")
            || path.starts_with("deploy-builder/tests/")
            // A test too, which takes minutes.
            || path.starts_with("xtask/src/identity")
            || path.starts_with("tests/")
    };
    let others = sources("").filter(|source| !allowed(&source.path));
    let broken = others
        .flat_map(|source| source.lines_with(&["DURABLE_BACKGROUND"]))
        .collect();
    none(
        "only deploy-builder's module `split` and tests spell DURABLE_BACKGROUND",
        "ask split::roles(); what is built doesn't know the flag",
        broken,
    );
}
