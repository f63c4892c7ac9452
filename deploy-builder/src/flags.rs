//! What makes a binary the same wherever it is built: the compiler's flags, with the paths of this machine remapped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

use crate::metadata::Workspace;
use crate::plan::Arch;
use crate::tools::{Rust, triple};

/// The variable that holds flags with white space in them: paths have it. cargo-lambda leaves it alone, and cargo reads
/// nothing else where it is set.
pub const VARIABLE: &str = "CARGO_ENCODED_RUSTFLAGS";
const SEPARATOR: &str = "\x1f";

/// The flags for this workspace on this machine.
pub fn flags(workspace: &Workspace, rust: &Rust, arch: Arch) -> Result<Vec<String>, cargo_metadata::Error> {
    let sources = package_sources(&workspace.root, arch)?;
    Ok(listed(arch, &remaps(workspace, cargo_home(), sources, rust)))
}

/// As the variable holds them.
pub fn encoded(flags: &[String]) -> String {
    flags.join(SEPARATOR)
}

/// Where cargo keeps what it downloads.
pub fn cargo_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    set.map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

/// The folders that hold the packages of registries. Below CARGO_HOME their names come from the registry's address, and
/// differ where a mirror stands in for it.
fn package_sources(root: &Path, arch: Arch) -> Result<BTreeSet<PathBuf>, cargo_metadata::Error> {
    let mut ask = MetadataCommand::new();
    ask.manifest_path(root.join("Cargo.toml"));
    ask.other_options(["--locked", "--filter-platform", triple(arch)].map(String::from));
    let packages = ask.exec()?.packages;
    let of_registries = packages.iter().filter(|package| {
        let source = package.source.as_ref().map(|source| source.repr.as_str());
        source.is_some_and(|source| source.starts_with("registry+") || source.starts_with("sparse+"))
    });
    let folders = of_registries.filter_map(|package| package.manifest_path.parent()?.parent());
    Ok(folders.map(|folder| folder.as_std_path().to_owned()).collect())
}

/// From a path of this machine to one that is the same on all of them. Where two match, rustc takes the last: the longer
/// one.
fn remaps(
    workspace: &Workspace,
    cargo_home: Option<PathBuf>,
    sources: BTreeSet<PathBuf>,
    rust: &Rust,
) -> Vec<(PathBuf, String)> {
    let mut remaps = vec![
        (workspace.root.clone(), String::from("/workspace")),
        (workspace.target.clone(), String::from("/target")),
        // Where Rust's own sources are installed, rustc says their place instead of this.
        (
            rust.sysroot.join("lib/rustlib/src/rust"),
            format!("/rustc/{}", rust.commit),
        ),
    ];
    remaps.extend(cargo_home.map(|home| (home, String::from("/cargo"))));
    remaps.extend(
        sources
            .into_iter()
            .map(|folder| (folder, String::from("/cargo/registry/src"))),
    );
    remaps.sort_by_key(|(from, _)| (from.as_os_str().len(), from.clone()));
    remaps
}

fn listed(arch: Arch, remaps: &[(PathBuf, String)]) -> Vec<String> {
    // What cargo-lambda would say if no flags were set.
    let cpu = match arch {
        Arch::X86_64 => "haswell",
        Arch::Arm64 => "neoverse-n1",
    };
    let mut flags = vec![String::from("-C"), format!("target-cpu={cpu}")];
    flags.extend(
        remaps
            .iter()
            .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())),
    );
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(root: &str, target: &str, home: &str) -> Vec<String> {
        let workspace = Workspace {
            root: root.into(),
            target: target.into(),
            packages: Vec::new(),
        };
        let rust = Rust {
            sysroot: "/rust".into(),
            commit: String::from("abc"),
        };
        let sources = BTreeSet::from([Path::new(home).join("registry/src/mirror-123")]);
        listed(Arch::X86_64, &remaps(&workspace, Some(home.into()), sources, &rust))
    }

    #[test]
    fn the_longer_of_two_paths_comes_later() {
        assert_eq!(
            of("/my work/o", "/my work/o/target", "/h"),
            [
                "-C",
                "target-cpu=haswell",
                "--remap-path-prefix=/h=/cargo",
                "--remap-path-prefix=/my work/o=/workspace",
                "--remap-path-prefix=/my work/o/target=/target",
                "--remap-path-prefix=/h/registry/src/mirror-123=/cargo/registry/src",
                "--remap-path-prefix=/rust/lib/rustlib/src/rust=/rustc/abc",
            ]
        );
    }
}
