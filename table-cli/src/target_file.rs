//! Files that commands write from stores.
//!
//! A file has its name when it is complete, and only its owner can read it: it may have what the store keeps from others. A file that is
//! replaced keeps its mode and its owner. What is no file, such as a device or a pipe, is written through and never replaced.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The end of the name of a file that is being written.
const PARTIAL_ENDING: &str = ".partial";

/// Lets only the owner use what the process creates: backups, stores, temporary files, and the files of this module.
pub(crate) fn create_private_files() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct TargetFile {
    file: File,
    /// `None` for a device or a pipe.
    named: Option<Named>,
}

/// The name that a file gets when it is complete.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    partial: PathBuf,
    /// The file that is replaced.
    replaced: Option<Metadata>,
}

impl TargetFile {
    /// Creates the file. It has another name until [`finish`](Self::finish), so that an interrupted command never leaves a file that looks
    /// complete.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let (path, replaced) = match fs::metadata(path) {
            Ok(there) if there.is_file() => (resolved(path)?, Some(there)),
            Ok(there) if there.is_dir() => {
                return Err(Failure::misuse(format!(
                    "{} is a directory: name a file in it",
                    path.display()
                )));
            }
            // A rename would put a file in the place of the device or the pipe.
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(path);
                let file = file.map_err(|error| unwritable(path, &error))?;
                return Ok(Self { file, named: None });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
                return Err(Failure::misuse(format!(
                    "{} is a symbolic link to a file that does not exist: name that file",
                    path.display()
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(unwritable(path, &error)),
        };
        let partial = partial_path(&path);
        let file = create_anew(&partial).map_err(|error| unwritable(&partial, &error))?;
        Ok(Self {
            file,
            named: Some(Named {
                path,
                partial,
                replaced,
            }),
        })
    }

    /// Writes a file whole; see [`create`](Self::create). An error leaves no partial file.
    pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
        let mut target = Self::create(path)?;
        match target.file.write_all(content) {
            Ok(()) => target.finish(),
            Err(error) => {
                if let Some(named) = &target.named {
                    let _ = fs::remove_file(&named.partial);
                }
                Err(unwritable(path, &error))
            }
        }
    }

    /// Writes the bytes to disk, and gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        let Some(Named {
            path,
            partial,
            replaced,
        }) = self.named
        else {
            return Ok(());
        };
        let finish = || {
            if let Some(replaced) = &replaced {
                keep_access(&self.file, replaced)?;
            }
            // Before the name: after a power failure a complete name must not lead to a part of the content.
            self.file.sync_all()?;
            // Last: a file under the final name is complete. Within one directory, a rename replaces an older file in one step.
            fs::rename(&partial, &path)
        };
        finish().map_err(|error| unwritable(&path, &error))
    }
}

impl Write for TargetFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The path of a file itself, if the path is a symbolic link to it.
fn resolved(path: &Path) -> Result<PathBuf> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    // `/dev/stdout` and the like: the file is open already, and the program that opened it goes on with the file that is there.
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Err(Failure::misuse(format!(
            "{} stands for an open file, which would be replaced: give - for standard output, or the name of the file",
            path.display()
        )));
    }
    fs::canonicalize(path).map_err(|error| unwritable(path, &error))
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(PARTIAL_ENDING);
    name.into()
}

/// Creates a file that only its owner can read. A partial file of an earlier run is replaced: nothing records which rows it has. It is not
/// opened, because another user may have put a link in its place.
fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Gives a file the owner and the mode of the file that it replaces.
#[cfg(unix)]
fn keep_access(file: &File, replaced: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let own = file.metadata()?;
    let mut mode = replaced.mode() & 0o777;
    let is_other = (own.uid(), own.gid()) != (replaced.uid(), replaced.gid());
    if is_other && fchown(file, Some(replaced.uid()), Some(replaced.gid())).is_err() {
        // Without the former group, the mode would open the file to the group of this process.
        mode &= 0o707;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_access(_file: &File, _replaced: &Metadata) -> io::Result<()> {
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_is_private_and_a_replaced_file_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.csv");
        TargetFile::write_whole(&path, b"1").unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), mode(&path)),
            (b"1".to_vec(), 0o600)
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        TargetFile::write_whole(&path, b"2").unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), mode(&path)),
            (b"2".to_vec(), 0o644)
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_partial_file_is_private_and_is_never_a_link_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("rows.csv"),
            directory.path().join("other"),
        );
        fs::write(&other, "other").unwrap();
        let partial = partial_path(&path);
        symlink(&other, &partial).unwrap();
        let target = TargetFile::create(&path).unwrap();
        assert_eq!(
            (mode(&partial), partial.is_symlink(), path.exists()),
            (0o600, false, false)
        );
        target.finish().unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (link, file) = (
            directory.path().join("latest.csv"),
            directory.path().join("2026.csv"),
        );
        symlink(&file, &link).unwrap();
        let dangling = TargetFile::create(&link).unwrap_err();
        assert!(
            matches!(&dangling, Failure::Misuse(text) if text.contains("symbolic link")),
            "{dangling}"
        );
        fs::write(&file, "old").unwrap();
        TargetFile::write_whole(&link, b"new").unwrap();
        assert_eq!(
            (link.is_symlink(), fs::read_to_string(&file).unwrap()),
            (true, "new".to_owned())
        );
        let directory = TargetFile::create(directory.path()).unwrap_err();
        assert!(matches!(&directory, Failure::Misuse(_)), "{directory}");
    }

    #[test]
    fn a_device_is_written_through() {
        let null = Path::new("/dev/null");
        let before = fs::metadata(null).unwrap().permissions();
        TargetFile::write_whole(null, b"rows").unwrap();
        let after = fs::metadata(null).unwrap();
        assert!(!after.is_file() && after.permissions() == before);
    }
}
