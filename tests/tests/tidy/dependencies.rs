//! Which package may depend on which. Only normal dependencies count: what a package's tests use never ships.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{CargoOpt, Dependency, DependencyKind, Metadata, MetadataCommand, Package, PackageId};

use crate::{FUNCTIONS, none, root};

/// From the inside out. Each package may depend on those before it.
const ORDER: [&str; 11] = [
    "outlast-core",
    "outlast-store",
    "outlast-engine",
    "outlast-agent",
    "outlast-http",
    "outlast-runtime",
    "assistant",
    "foreground",
    "background",
    "outlast-cli",
    "deploy-builder",
];
/// Programs for developers, on which nothing depends, and which may depend on everything.
const DEVELOPERS: [&str; 4] = ["outlast-tests", "outlast-log-model", "outlast-benches", "xtask"];
const EMBEDDED_SERVER: &str = "dynoxide-rs";

#[test]
fn dependencies_point_inwards() {
    let rank = |name: &str| ORDER.iter().position(|package| *package == name);
    let mut broken = Vec::new();
    for package in workspace().workspace_packages() {
        let name = package.name.as_str();
        if DEVELOPERS.contains(&name) {
            continue;
        }
        let Some(own) = rank(name) else {
            broken.push(format!(
                "{name}: not placed; give it its place in ORDER of tests/tests/tidy/dependencies.rs"
            ));
            continue;
        };
        for dependency in normal_dependencies(package).filter(|dependency| dependency.path.is_some()) {
            if rank(&dependency.name).is_none_or(|its| its >= own) {
                broken.push(format!("{}: depends on {}", package.manifest_path, dependency.name));
            }
        }
    }
    none(
        "a package depends only on those before it in ORDER",
        "move the code inwards, or pass it in by a trait",
        broken,
    );
}

#[test]
fn only_store_and_runtime_name_aws() {
    let named = packages_that_name(
        |dependency| dependency.starts_with("aws-"),
        &["outlast-store", "outlast-runtime"],
    );
    none(
        "only store and runtime name an aws-* crate",
        "use the ports of outlast-store, or a host of outlast-runtime",
        named,
    );
}

#[test]
fn only_the_command_line_names_the_embedded_server() {
    let named = packages_that_name(|dependency| dependency == EMBEDDED_SERVER, &["outlast-cli"]);
    none(
        "only cli, tests and benches name the embedded server",
        "talk to it through the AWS SDK",
        named,
    );
}

#[test]
fn no_function_links_the_embedded_server() {
    let broken = FUNCTIONS
        .iter()
        .filter_map(|function| linked(function, |name| name == EMBEDDED_SERVER))
        .collect();
    none(
        "no function links the embedded server",
        "cut the chain of dependencies shown",
        broken,
    );
}

#[test]
fn the_core_is_pure() {
    let impure = [
        "tokio", "futures", "async-", "aws-", "hyper", "reqwest", "axum", "lambda_",
    ];
    let broken = linked("outlast-core", |name| {
        impure.iter().any(|start| name.starts_with(start))
    });
    none(
        "core knows no async and no AWS",
        "do it in the engine, which acts on what core decides",
        broken.into_iter().collect(),
    );
}

/// The workspace and what it resolves to on the platform that functions run on.
fn workspace() -> Metadata {
    let options = ["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"].map(String::from);
    let mut ask = MetadataCommand::new();
    ask.manifest_path(root().join("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .other_options(options);
    ask.exec().expect("cargo metadata answers")
}

fn normal_dependencies(package: &Package) -> impl Iterator<Item = &Dependency> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
}

fn packages_that_name(what: impl Fn(&str) -> bool, allowed: &[&str]) -> Vec<String> {
    let mut broken = Vec::new();
    for package in workspace().workspace_packages() {
        if !allowed.contains(&package.name.as_str()) && !DEVELOPERS.contains(&package.name.as_str()) {
            let named = normal_dependencies(package).filter(|dependency| what(&dependency.name));
            broken.extend(named.map(|dependency| format!("{}: names {}", package.manifest_path, dependency.name)));
        }
    }
    broken
}

/// Walks from a package to all that is linked with it, and gives the chain to the first that `what` picks.
fn linked(from: &str, what: impl Fn(&str) -> bool) -> Option<String> {
    let metadata = workspace();
    let graph = metadata.resolve.as_ref().expect("dependencies are resolved");
    let nodes: BTreeMap<&PackageId, _> = graph.nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata
        .workspace_packages()
        .into_iter()
        .find(|package| package.name == from);
    let start = start.unwrap_or_else(|| panic!("{from} is no package of the workspace: correct tests/tests/tidy"));

    let mut seen = BTreeSet::from([&start.id]);
    let mut open = vec![(&start.id, start.name.to_string())];
    while let Some((id, chain)) = open.pop() {
        if id != &start.id && what(&metadata[id].name) {
            return Some(chain);
        }
        for dependency in &nodes[id].deps {
            let normal = dependency
                .dep_kinds
                .iter()
                .any(|kind| kind.kind == DependencyKind::Normal);
            if normal && seen.insert(&dependency.pkg) {
                open.push((&dependency.pkg, format!("{chain} → {}", metadata[&dependency.pkg].name)));
            }
        }
    }
    None
}
