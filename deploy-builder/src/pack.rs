//! The zip of a function: exactly `bootstrap`, with nothing of the place and time where it was made.

use std::io::{Cursor, Read as _, Write as _};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipArchive, ZipWriter};

use crate::plan::BOOTSTRAP;

/// Lambda must be able to start it.
const MODE: u32 = 0o755;
/// A regular file, in a mode as Unix writes it.
const REGULAR: u32 = 0o100_000;
/// The earliest that a zip can say: 1980-01-01 00:00.
const DATE: DateTime = DateTime::DEFAULT;
/// The default of deflate: a better one takes several times as long for a few per cent.
const LEVEL: i64 = 6;

/// The same bytes for the same program.
pub fn pack(program: &[u8]) -> Result<Vec<u8>, ZipError> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .last_modified_time(DATE)
        .unix_permissions(MODE)
        .system(System::Unix);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file(BOOTSTRAP, options)?;
    zip.write_all(program)?;
    Ok(zip.finish()?.into_inner())
}

/// The program, if the zip is one of ours; the error says what it is instead.
pub fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let broken = |error: &dyn std::fmt::Display| format!("is no zip that can be read: {error}");
    let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(&error))?;
    let names: Result<Vec<_>, _> = zip
        .file_names()
        .map(|name| name.map(|name| name.into_owned()))
        .collect();
    let names = names.map_err(|error| broken(&error))?;
    if names != [BOOTSTRAP] {
        return Err(format!("holds {}, and not exactly `{BOOTSTRAP}`", names.join(", ")));
    }
    let (before, directory) = (zip.offset(), zip.central_directory_start());
    let mut entry = zip.by_index(0).map_err(|error| broken(&error))?;
    match entry.unix_mode() {
        Some(mode) if mode == REGULAR | MODE => {}
        Some(mode) => return Err(format!("{BOOTSTRAP} has mode {mode:o}, not {:o}", REGULAR | MODE)),
        None => return Err(format!("{BOOTSTRAP} has no mode")),
    }
    if entry.last_modified() != Some(DATE) {
        return Err(format!("{BOOTSTRAP} is not of the fixed date {DATE}"));
    }
    let ends = entry.data_start().map(|start| start + entry.compressed_size());
    let mut program = Vec::new();
    entry.read_to_end(&mut program).map_err(|error| broken(&error))?;
    if before != 0 || ends != Some(directory) || entries(bytes) != Some(1) {
        return Err(format!("holds more than `{BOOTSTRAP}`"));
    }
    Ok(program)
}

/// As many as the zip's last record says: one name listed twice is one for the reader, and Lambda may see the other.
fn entries(zip: &[u8]) -> Option<u16> {
    let record = zip.last_chunk::<22>()?;
    let count = record.starts_with(b"PK\x05\x06").then(|| [record[10], record[11]]);
    count.map(u16::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let program: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let zip = pack(&program).unwrap();
        assert!(zip.len() < program.len() / 2);
        assert_eq!(zip, pack(&program).unwrap());
        assert_eq!(unpack(&zip).unwrap(), program);
    }

    /// Another version of a library could change what the same program is packed to. That is no mistake, but whoever
    /// deploys sees new hashes: say it in the changelog.
    #[test]
    fn the_bytes_of_a_zip_are_known() {
        let zip = pack(b"a program, a program").unwrap();
        assert_eq!(
            outlast_core::digest::sha256_hex(&zip),
            "b391fdf0d06d13518212eed939bf7a4e8257ca94fb4842b415f33f2f07086f8e"
        );
    }

    #[test]
    fn other_zips_are_told_from_ours() {
        let made = |names: &[&str], options: SimpleFileOptions| {
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            for name in names {
                zip.start_file(*name, options).unwrap();
                zip.write_all(b"x").unwrap();
            }
            unpack(&zip.finish().unwrap().into_inner()).unwrap_err()
        };
        let ours = SimpleFileOptions::default()
            .last_modified_time(DATE)
            .unix_permissions(MODE);
        let later = DateTime::from_date_and_time(2026, 1, 1, 0, 0, 0).unwrap();
        assert!(made(&[BOOTSTRAP, "more"], ours).contains("more"));
        assert!(made(&["Bootstrap"], ours).contains("Bootstrap"));
        assert!(made(&[], ours).contains("not exactly"));
        assert!(made(&[BOOTSTRAP], ours.unix_permissions(0o644)).contains("100644"));
        assert!(made(&[BOOTSTRAP], ours.last_modified_time(later)).contains("date"));
        assert!(unpack(b"PK").unwrap_err().contains("no zip"));
        let ours = pack(b"a program").unwrap();
        assert!(unpack(&[b"#!/bin/sh\n".as_slice(), &ours].concat()).is_err());
        assert!(unpack(&[ours.as_slice(), b"more"].concat()).is_err());
        let twice = [&ours[..ours.len() - 22], &ours[..]].concat();
        assert!(unpack(&twice).is_err());
    }
}
