//! The packages that say that they are functions: `[package.metadata.outlast]` in their Cargo.toml.

use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package as CargoPackage};
use serde::Deserialize;
use serde_json::Value;

use crate::plan::Role;
use crate::problems::Problems;

/// The table's name below `[package.metadata]`.
const TABLE: &str = "outlast";

/// A workspace, as far as a deployment goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    pub root: PathBuf,
    pub target: PathBuf,
    /// By name.
    pub packages: Vec<Package>,
}

/// A package that is a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// Its one binary.
    pub bin: String,
    pub keys: Keys,
}

/// What it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Keys {
    /// The app that it belongs to: one foreground, and one background function where they are built.
    pub app: String,
    pub role: Role,
    /// What the app's paths begin with; said by its foreground function.
    pub base_path: Option<String>,
    pub memory_mb: Option<u64>,
    pub timeout_seconds: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("the workspace can't be read")]
    Cargo(#[from] cargo_metadata::Error),
    #[error(transparent)]
    Keys(#[from] Problems),
}

/// Without a path, the workspace of the current folder. Of roles other than these nothing is read but the role.
pub fn read(manifest: Option<&Path>, roles: &[Role]) -> Result<Workspace, MetadataError> {
    let mut ask = MetadataCommand::new();
    ask.no_deps();
    if let Some(manifest) = manifest {
        ask.manifest_path(manifest);
    }
    let mut workspace = workspace(&ask.exec()?, roles)?;
    // Behind a link: what is built there sees where the link leads.
    if let Ok(root) = std::fs::canonicalize(&workspace.root) {
        workspace.root = root;
    }
    Ok(workspace)
}

fn workspace(metadata: &Metadata, roles: &[Role]) -> Result<Workspace, Problems> {
    let (mut packages, mut problems) = (Vec::new(), Vec::new());
    for package in &metadata.packages {
        match function(package, roles) {
            Ok(Some(function)) => packages.push(function),
            Ok(None) => {}
            Err(problem) => problems.push(format!("{} ({}): {problem}", package.name, relative(package, metadata))),
        }
    }
    problems.sort();
    Problems::unless_empty(format!("wrong [package.metadata.{TABLE}]"), problems)?;
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Workspace {
        root: metadata.workspace_root.clone().into(),
        target: metadata.target_directory.clone().into(),
        packages,
    })
}

fn relative<'a>(package: &'a CargoPackage, metadata: &Metadata) -> &'a str {
    let path = package.manifest_path.strip_prefix(&metadata.workspace_root);
    path.unwrap_or(&package.manifest_path).as_str()
}

/// `None` if the package is no function, or none of these roles.
fn function(package: &CargoPackage, roles: &[Role]) -> Result<Option<Package>, String> {
    let Some(table) = package.metadata.get(TABLE) else {
        return Ok(None);
    };
    let role = table.get("role").cloned().unwrap_or(Value::Null);
    if Role::deserialize(role).is_ok_and(|role| !roles.contains(&role)) {
        return Ok(None);
    }
    let keys = Keys::deserialize(table).map_err(|error| error.to_string())?;
    let bins: Vec<_> = package.targets.iter().filter(|target| target.is_bin()).collect();
    let [bin] = bins.as_slice() else {
        let names: Vec<_> = bins.iter().map(|bin| bin.name.as_str()).collect();
        return Err(match names.len() {
            0 => String::from("it has no binary: a function is a package with one, such as src/main.rs"),
            _ => format!(
                "it has several binaries, {}: make each function a package of its own",
                names.join(", ")
            ),
        });
    };
    Ok(Some(Package {
        name: package.name.to_string(),
        bin: bin.name.clone(),
        keys,
    }))
}
