//! What the program prints, and the file that it writes.

use crate::error::Error;
use std::{
    fmt::Display,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::Path,
};

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
/// so do links to it and its permissions. A pipe or a device is written in place.
///
/// # Errors
/// What `of_file` makes of an error of the file system, or the error of `write`.
pub(crate) fn write_file(
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
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".povmeter-node-");
    // Those of ordinary files; the default of `tempfile` is for secrets.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(&of_file)?;
    buffered(file.as_file_mut())?;
    if let Some(earlier) = earlier {
        let permissions = file.as_file().set_permissions(earlier.permissions());
        permissions.map_err(&of_file)?;
    }
    // Errors of a full disk may come this late.
    file.as_file().sync_all().map_err(&of_file)?;
    let persisted = file.persist(&target);
    persisted.map(drop).map_err(|error| of_file(error.error))
}
