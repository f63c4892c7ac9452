//! Copies of a checkout. What is built in them stays good from run to run: only what changed is written, because cargo
//! goes by a file's time.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::said;

/// The one folder of a copy that isn't from the checkout.
const TARGET: &str = "target";

/// What git has, and the new files that it would take.
pub fn files(checkout: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(checkout);
    let listed = said(&mut git)?;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    // One that was deleted and not yet committed as such is still listed.
    Ok(names
        .map(|name| PathBuf::from(OsStr::from_bytes(name)))
        .filter(|name| checkout.join(name).is_file())
        .collect())
}

/// Makes `to` hold these files of `from` and no others.
pub fn sync<'a>(from: &Path, to: &Path, files: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    fs::create_dir_all(to)?;
    let files: BTreeSet<&PathBuf> = files.into_iter().collect();
    for file in below(to, Path::new(""))? {
        if !files.contains(&file) {
            fs::remove_file(to.join(&file))?;
        }
    }
    for file in files {
        update(&from.join(file), &to.join(file)).with_context(|| format!("could not copy {}", file.display()))?;
    }
    Ok(())
}

/// Copies a file unless its copy has the same bytes.
pub fn update(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from)?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(to, bytes)?)
}

/// Every file below a folder's folder, but for the target folder's, by its path from the folder.
pub fn below(folder: &Path, inner: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.join(inner))? {
        let entry = entry?;
        let path = inner.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true if path == Path::new(TARGET) => {}
            true => files.extend(below(folder, &path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

pub fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("could not remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    #[test]
    fn only_what_changed_is_written_and_what_vanished_goes() {
        let folder = env::temp_dir().join(format!("outlast-identity-{}", process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let files = ["a", "b/c", "b/d"].map(PathBuf::from);
        for file in &files {
            write(from.join(file), "first");
        }
        sync(&from, &to, &files).unwrap();
        write(to.join("target/built"), "kept");
        let written = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = written("a");
        write(from.join("b/c"), "second");
        sync(&from, &to, &files[..2]).unwrap();
        let there: BTreeSet<_> = below(&to, Path::new("")).unwrap().into_iter().collect();
        let target_is_kept = to.join("target/built").is_file();
        let after = written("a");
        let text = fs::read_to_string(to.join("b/c")).unwrap();
        remove_folder(&folder).unwrap();
        assert_eq!(there, files[..2].iter().cloned().collect());
        assert!(target_is_kept);
        assert_eq!(before, after);
        assert_eq!(text, "second");
    }
}
