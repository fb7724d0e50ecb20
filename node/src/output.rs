//! What the program prints, and the file that it writes.

use crate::{error::Error, service::interrupted};
use std::{
    fmt::Display,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufWriter, Write},
    path::Path,
};
use tempfile::NamedTempFile;
use tokio::runtime::Handle;

/// Prints a line of a result. If nobody reads any more, as behind `head`, the line is lost, and that is no failure.
///
/// # Errors
/// [`Error::Output`] if the line can't be written, as to a full disk.
pub(crate) fn print_line(line: impl Display) -> Result<(), Error> {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Writes a file with what `write` writes. A regular file that is there stays as it is until the new one is whole, and
/// so do links to it and its permissions. A pipe or a device is written in place. If the process is interrupted
/// meanwhile, it removes what it has written and ends with the exit code 1; `handle` waits for that.
///
/// # Errors
/// What `of_file` makes of an error of the file system, or the error of `write`.
pub(crate) fn write_file(
    handle: &Handle,
    path: &Path,
    of_file: impl Fn(io::Error) -> Error,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let earlier = match fs::metadata(path) {
        Ok(earlier) => Some(earlier),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(of_file(error)),
    };
    let buffered = |file: &mut File| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush().map_err(&of_file)
    };
    if earlier.as_ref().is_some_and(|earlier| !earlier.is_file()) {
        let file = OpenOptions::new().write(true).open(path);
        return buffered(&mut file.map_err(&of_file)?);
    }
    // The file behind a link, so that the link stays.
    let target = match path.canonicalize() {
        Ok(target) => target,
        Err(_) if !path.is_symlink() => path.to_owned(),
        Err(error) => return Err(of_file(error)),
    };
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".povmeter-node-");
    // Those of ordinary files; the default of `tempfile` is for secrets.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(&of_file)?;
    let part = file.path().to_owned();
    let interrupted = handle.spawn(async move {
        // Without signals, nothing is interrupted in an orderly way.
        if interrupted().await.is_ok() {
            let _ = fs::remove_file(part);
            std::process::exit(1);
        }
    });
    let written = finish(file, &target, earlier, &of_file, buffered);
    interrupted.abort();
    written
}

/// Writes the content of the new file, and puts it in the place of `target`.
fn finish(
    mut file: NamedTempFile,
    target: &Path,
    earlier: Option<Metadata>,
    of_file: impl Fn(io::Error) -> Error,
    write: impl FnOnce(&mut File) -> Result<(), Error>,
) -> Result<(), Error> {
    write(file.as_file_mut())?;
    if let Some(earlier) = earlier {
        let permissions = file.as_file().set_permissions(earlier.permissions());
        permissions.map_err(&of_file)?;
    }
    // Errors of a full disk may come this late.
    file.as_file().sync_all().map_err(&of_file)?;
    let persisted = file.persist(target);
    persisted.map(drop).map_err(|error| of_file(error.error))
}
