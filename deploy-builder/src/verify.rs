//! An output, judged without building: is it what its manifest says, and does that hold together?

use std::fs;
use std::path::Path;

use outlast_core::digest::sha256_hex;

use crate::manifest::{self, Manifest, Packed};
use crate::plan::{Function, Role};
use crate::problems::Problems;
use crate::{elf, output, pack, routing};

/// With these roles and no others. The error lists everything that is wrong.
pub fn verify(folder: &Path, roles: &[Role]) -> Result<Manifest, Problems> {
    let mut wrong = Vec::new();
    let manifest = manifest(folder).inspect_err(|problem| wrong.push(problem.clone())).ok();
    if let Some(manifest) = &manifest {
        names(folder, manifest, &mut wrong);
        for packed in &manifest.functions {
            wrong.extend(
                zip(folder, packed)
                    .err()
                    .map(|problem| format!("{} {problem}", packed.function.file)),
            );
        }
        let functions: Vec<&Function> = manifest.functions.iter().map(|packed| &packed.function).collect();
        wrong.extend(
            routing::prove(&functions)
                .err()
                .map(|problems| problems.lines)
                .unwrap_or_default(),
        );
        wrong.extend(other_roles(&functions, roles));
    }
    Problems::unless_empty(format!("{} is not as it was built", folder.display()), wrong)?;
    // Without a manifest there was a problem.
    Ok(manifest.unwrap_or(Manifest::new(Vec::new())))
}

fn manifest(folder: &Path) -> Result<Manifest, String> {
    let text = fs::read_to_string(folder.join(manifest::FILE));
    let text = text.map_err(|error| format!("{} can't be read: {error}", manifest::FILE))?;
    Manifest::parse(&text).map_err(|wrong| wrong.to_string())
}

/// Nothing may lie in the folder that isn't listed: a deployment by folder would take it along.
fn names(folder: &Path, manifest: &Manifest, wrong: &mut Vec<String>) {
    if manifest.functions.is_empty() {
        wrong.push(format!("{} lists no function", manifest::FILE));
    }
    let listed = output::listed(manifest);
    match output::files(folder) {
        Ok(there) => {
            let unlisted = there.iter().filter(|name| !listed.contains(*name));
            wrong.extend(unlisted.map(|name| format!("{name} is not listed in {}", manifest::FILE)));
        }
        Err(error) => wrong.push(format!("the folder can't be read: {error}")),
    }
    for function in manifest.functions.iter().map(|packed| &packed.function) {
        let expected = format!("{}.zip", function.name);
        if function.file != expected {
            wrong.push(format!(
                "the file of `{}` is {}, not {expected}",
                function.name, function.file
            ));
        }
    }
}

fn zip(folder: &Path, packed: &Packed) -> Result<(), String> {
    let file = &packed.function.file;
    if Path::new(file).file_name() != Some(file.as_ref()) {
        return Err(String::from("is no name of a file in this folder"));
    }
    let zip = fs::read(folder.join(file)).map_err(|error| format!("can't be read: {error}"))?;
    if zip.len() as u64 != packed.size {
        return Err(format!("has {} bytes, not {}", zip.len(), packed.size));
    }
    let sha256 = sha256_hex(&zip);
    if sha256 != packed.sha256 {
        return Err(format!("has the SHA-256 {sha256}, not {}", packed.sha256));
    }
    let program = pack::unpack(&zip)?;
    elf::check(&program, packed.function.arch).map_err(|problem| format!("holds a bootstrap that {problem}"))
}

/// The environment of whoever verifies asks for these roles, like that of whoever builds: a complete background function
/// in an output that should have none would pass every other check.
fn other_roles(functions: &[&Function], roles: &[Role]) -> Vec<String> {
    let of = |app: &str, role: Role| {
        functions
            .iter()
            .any(|function| function.app == app && function.role == role)
    };
    let unasked = functions.iter().filter(|function| !roles.contains(&function.role)).map(|function| {
        format!(
            "`{}` is a {} function, and here none is asked for: verify under the flag that the output was built with",
            function.name, function.role
        )
    });
    let mut apps: Vec<&str> = functions.iter().map(|function| function.app.as_str()).collect();
    apps.sort_unstable();
    apps.dedup();
    let lacking = apps.into_iter().flat_map(|app| {
        let missing = roles.iter().filter(move |role| !of(app, **role));
        missing.map(move |role| format!("app `{app}` has no {role} function, and here one is asked for"))
    });
    unasked.chain(lacking).collect()
}
