//! The output folder: written beside its place, then put there in one step. A failure leaves what was there before.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::manifest::{self, Manifest};

#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error(
        "{path} exists and is no output of deploy-builder ({why}): it is not replaced. Name another folder, or remove it"
    )]
    NotOurs { path: String, why: String },
    #[error("{what} ({path})")]
    Io {
        what: &'static str,
        path: String,
        source: io::Error,
    },
}

/// Whether this folder may become the output: it is not there, is empty, or is an earlier output.
pub fn check(folder: &Path) -> Result<(), OutputError> {
    let not_ours = |why: String| OutputError::NotOurs {
        path: folder.display().to_string(),
        why,
    };
    match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("the output can't be looked at", folder)(error)),
        Ok(there) if !there.is_dir() => return Err(not_ours(String::from("it is no folder"))),
        Ok(_) => {}
    }
    let there = files(folder).map_err(failed("the output can't be read", folder))?;
    if there.is_empty() {
        return Ok(());
    }
    let text = fs::read_to_string(folder.join(manifest::FILE))
        .map_err(|error| not_ours(format!("{}: {error}", manifest::FILE)))?;
    let manifest = Manifest::parse(&text).map_err(|wrong| not_ours(wrong.to_string()))?;
    let listed = listed(&manifest);
    let unlisted: Vec<_> = there.into_iter().filter(|name| !listed.contains(name)).collect();
    if unlisted.is_empty() {
        return Ok(());
    }
    Err(not_ours(format!("its manifest doesn't list {}", unlisted.join(", "))))
}

/// The names in a folder, sorted.
pub fn files(folder: &Path) -> io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder)?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// What an output with this manifest holds.
pub fn listed(manifest: &Manifest) -> BTreeSet<String> {
    let zips = manifest.functions.iter().map(|packed| packed.function.file.clone());
    zips.chain([manifest::FILE.to_owned()]).collect()
}

/// Puts these files there, in place of what `check` allows.
pub fn write(folder: &Path, contents: &[(String, Vec<u8>)]) -> Result<(), OutputError> {
    check(folder)?;
    // Where a link leads to is replaced, not the link.
    let place = fs::canonicalize(folder).or_else(|_| std::path::absolute(folder));
    let place = place.map_err(failed("the output has no place", folder))?;
    let beside = place.parent().unwrap_or(&place).to_owned();
    fs::create_dir_all(&beside).map_err(failed("the folder of the output can't be made", &beside))?;
    let aside = tempfile::Builder::new()
        .prefix(&format!(
            ".{}.",
            place.file_name().unwrap_or_default().to_string_lossy()
        ))
        .tempdir_in(&beside)
        .map_err(failed("nothing can be written beside the output", &beside))?;
    let new = aside.path().join("new");
    make(&new, contents).map_err(failed("the output can't be written", &new))?;
    put(&new, &place, &aside.path().join("old")).map_err(failed("the output can't be put in its place", &place))
    // What was replaced is removed with the folder beside.
}

fn make(folder: &Path, contents: &[(String, Vec<u8>)]) -> io::Result<()> {
    fs::create_dir(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for (name, bytes) in contents {
        let file = folder.join(name);
        fs::write(&file, bytes)?;
        fs::set_permissions(&file, Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// In one step if the file system can, also where there is something already; else in two, with the old one kept until
/// the new one is there.
fn put(new: &Path, place: &Path, old: &Path) -> io::Result<()> {
    if !place.exists() {
        return fs::rename(new, place);
    }
    match renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE) {
        Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {
            fs::rename(place, old)?;
            fs::rename(new, place).inspect_err(|_| {
                let _ = fs::rename(old, place);
            })
        }
        exchanged => Ok(exchanged?),
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path: PathBuf = path.to_owned();
    move |source| OutputError::Io {
        what,
        path: path.display().to_string(),
        source,
    }
}
