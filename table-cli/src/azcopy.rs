//! The table exports of AzCopy 7: a manifest and data files in one directory.
//!
//! The names and the content are described at <https://learn.microsoft.com/previous-versions/azure/storage/storage-use-azcopy>, and a
//! manifest is printed at <https://github.com/Azure/azure-storage-net-data-movement/issues/129>. The algorithm of the checksums in the
//! manifest and in the names is not described, so they are not compared. The file `.schema.csv` of each data file of CSV is not
//! described either: types are inferred.

use std::path::Path;

use serde_json::Value;

use crate::failure::{Failure, Result};

/// The format of the data files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Json,
    Csv,
}

/// Returns the paths of the data files of a manifest. Refuses an export that is not complete.
pub(crate) fn data_files(manifest: &Path) -> Result<(Payload, Vec<std::path::PathBuf>)> {
    let shown = manifest.display();
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::misuse(format!("{shown} cannot be read: {error}"));
    let text = std::fs::read_to_string(manifest).map_err(|error| unreadable(&error))?;
    // AzCopy 7 is a program of .NET, and these may begin a file with a byte order mark, which JSON does not
    // have.
    let read: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| unreadable(&error))?;
    let payload = match read["PayloadFormat"].as_str() {
        Some(name) if name.eq_ignore_ascii_case("json") => Payload::Json,
        Some(name) if name.eq_ignore_ascii_case("csv") => Payload::Csv,
        _ => {
            return Err(Failure::misuse(format!(
                "{shown} is no manifest of AzCopy 7: its PayloadFormat is neither Json nor Csv"
            )));
        }
    };
    let Some(count) = read["TotalDataFiles"].as_u64() else {
        return Err(Failure::misuse(format!(
            "{shown} is no manifest of AzCopy 7: it has no TotalDataFiles"
        )));
    };
    let stem = manifest
        .file_stem()
        .map(std::ffi::OsStr::to_string_lossy)
        .unwrap_or_default();
    let directory = match manifest.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| unreadable(&error))? {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        let name = path
            .file_name()
            .map(std::ffi::OsStr::to_string_lossy)
            .unwrap_or_default();
        if is_data_file(&name, &stem, payload) {
            files.push(path);
        }
    }
    // A directory has no order. With one, a repeated import reads the rows in the same order and names the
    // same bad rows.
    files.sort();
    // An export of which a file was lost looks like a smaller table. The number is the only check: the
    // checksums cannot be compared.
    match u64::try_from(files.len()) == Ok(count) {
        true => Ok((payload, files)),
        false => Err(Failure::Damaged(format!(
            "{shown} has {count} data files, and {} of them are beside it: nothing was imported",
            files.len()
        ))),
    }
}

/// Whether a name is `STEM_PARTITIONRANGE_FILE_CHECKSUM.EXTENSION`, or without the two indexes.
fn is_data_file(name: &str, stem: &str, payload: Payload) -> bool {
    let extension = match payload {
        Payload::Json => ".json",
        Payload::Csv => ".csv",
    };
    let Some(middle) = name
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_suffix(extension))
    else {
        return false;
    };
    let is_index = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_checksum =
        |text: &str| text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match *middle.split('_').collect::<Vec<_>>() {
        ["", range, file, checksum] => is_index(range) && is_index(file) && is_checksum(checksum),
        ["", checksum] => is_checksum(checksum),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_files_have_the_name_of_their_manifest() {
        let stem = "myaccount_mytable_20140903T051850.8128447Z";
        let is = |name: &str| is_data_file(name, stem, Payload::Json);
        assert!(is(
            "myaccount_mytable_20140903T051850.8128447Z_0_0_C3040FE8.json"
        ));
        assert!(is(
            "myaccount_mytable_20140903T051850.8128447Z_0_11_0AF395F1DC42E952.json"
        ));
        assert!(is(
            "myaccount_mytable_20140903T051850.8128447Z_0AF395F1DC42E952.json"
        ));
        for other in [
            "myaccount_mytable_20140903T051850.8128447Z.manifest",
            "myaccount_mytable_20140903T051850.8128447Z_0_0_C3040FE8.csv",
            "myaccount_mytable_20140903T051850.8128447Z_a_0_0_C3040FE8.json",
            "other_0_0_C3040FE8.json",
        ] {
            assert!(!is(other), "{other}");
        }
        assert!(!is_data_file(
            "abc_0_0_C3040FE8.schema.csv",
            "abc",
            Payload::Csv
        ));
    }
}
