//! Takes tests of published crates from the registry's copies, for build scripts of test crates.
//!
//! A test crate stores no tests. Its build script copies the sources of the published crate with the
//! necessary changes, and a test program includes the copy:
//! ```text
//! sources("sc-client-db", "0.55.0")          the folder that cargo has
//! copy(from, to, changes, left_out)          a copy with the changes made and some tests left out
//! write_root(to, file)                       the crate's root, with paths to the copied modules, to include!
//! ```

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Why sources could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// A file or a folder could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Cargo did not list its packages.
    #[error("expected the packages of cargo metadata, found: {found}")]
    Metadata {
        /// What cargo printed instead.
        found: String,
    },
    /// This build does not use the package.
    #[error("expected {package} {version} among the packages of this build, found none")]
    NoPackage {
        /// Its name.
        package: String,
        /// Its version.
        version: String,
    },
    /// A change does not fit the sources.
    #[error("{file}: expected {old:?}, to change it because {why}")]
    Change {
        /// The changed file.
        file: String,
        /// What was expected.
        old: String,
        /// The reason of the change.
        why: String,
    },
    /// The file lacks a test.
    #[error("{file}: expected a test {name}")]
    NoTest {
        /// The file.
        file: String,
        /// The test.
        name: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, SourcesError>;

/// A change of a file: replaces each occurrence of `old` by `new`.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The file, from the folder of the sources.
    pub file: &'static str,
    /// The text to replace.
    pub old: &'static str,
    /// The new text.
    pub new: &'static str,
    /// The reason.
    pub why: &'static str,
}

/// A test that is left out, and why.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// The file, from the folder of the sources.
    pub file: &'static str,
    /// The function.
    pub name: &'static str,
    /// The reason.
    pub why: &'static str,
}

/// The folder in which cargo has the sources of a package of this build.
///
/// # Errors
/// [`SourcesError::Metadata`], [`SourcesError::NoPackage`].
pub fn sources(package: &str, version: &str) -> Result<PathBuf> {
    let metadata = |found: String| SourcesError::Metadata { found };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let told = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline"])
        .output()
        .map_err(|error| metadata(error.to_string()))?;
    let packages: serde_json::Value = serde_json::from_slice(&told.stdout)
        .map_err(|_| metadata(String::from_utf8_lossy(&told.stderr).into_owned()))?;
    let packages = packages["packages"].as_array();
    let manifest = packages.into_iter().flatten().find_map(|found| {
        let is_it = found["name"] == package && found["version"] == version;
        let is_published = !found["source"].is_null();
        found["manifest_path"]
            .as_str()
            .filter(|_| is_it && is_published)
    });
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    let folder = folder.ok_or_else(|| SourcesError::NoPackage {
        package: package.to_owned(),
        version: version.to_owned(),
    })?;
    Ok(folder.join("src"))
}

/// Reads a file.
///
/// # Errors
/// [`SourcesError::File`].
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(in_file(path))
}

/// Writes a file.
///
/// # Errors
/// [`SourcesError::File`].
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(in_file(path))
}

fn in_file(path: &Path) -> impl FnOnce(io::Error) -> SourcesError {
    let path = path.to_owned();
    move |source| SourcesError::File { path, source }
}

/// Copies a folder of sources with `changes` made and without the tests `left_out`.
///
/// # Errors
/// [`SourcesError`] if a file can't be read or written, or lacks the text of a change or a left out test.
pub fn copy(from: &Path, to: &Path, changes: &[Change], left_out: &[LeftOut]) -> Result<()> {
    copy_below(from, to, "", changes, left_out)
}

fn copy_below(
    from: &Path,
    to: &Path,
    below: &str,
    changes: &[Change],
    left_out: &[LeftOut],
) -> Result<()> {
    fs::create_dir_all(to).map_err(in_file(to))?;
    for entry in fs::read_dir(from).map_err(in_file(from))? {
        let entry = entry.map_err(in_file(from))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, target) = (entry.path(), to.join(&name));
        let file = format!("{below}{name}");
        if path.is_dir() {
            copy_below(&path, &target, &format!("{file}/"), changes, left_out)?;
        } else {
            let text = edit(read(&path)?, &file, changes, left_out)?;
            write(&target, &text)?;
        }
    }
    Ok(())
}

/// The text of `file` with its changes made and without the tests left out.
///
/// # Errors
/// [`SourcesError::Change`], [`SourcesError::NoTest`].
pub fn edit(
    mut text: String,
    file: &str,
    changes: &[Change],
    left_out: &[LeftOut],
) -> Result<String> {
    for test in left_out.iter().filter(|test| test.file == file) {
        text = without(&text, test.name).ok_or_else(|| SourcesError::NoTest {
            file: file.to_owned(),
            name: test.name.to_owned(),
        })?;
    }
    for Change { old, new, why, .. } in changes.iter().filter(|change| change.file == file) {
        if !text.contains(old) {
            return Err(SourcesError::Change {
                file: file.to_owned(),
                old: (*old).to_owned(),
                why: (*why).to_owned(),
            });
        }
        text = text.replace(old, new);
    }
    Ok(text)
}

/// A text without one of the tests of its module `tests`.
fn without(text: &str, name: &str) -> Option<String> {
    let start = text
        .find(&format!("\t#[test]\n\tfn {name}("))
        .or_else(|| text.find(&format!("\tparameterized_test!(\n\t\t{name},")))?;
    let end = start + text[start..].find("\n\t}\n")? + 4;
    Some(format!("{}{}", &text[..start], &text[end..]))
}

/// The module of tests that ends a file.
///
/// # Errors
/// [`SourcesError::NoTest`] if there is none.
pub fn tests_of<'t>(text: &'t str, file: &str) -> Result<&'t str> {
    let starts = [
        "\n#[cfg(test)]\nmod tests {",
        "\n#[cfg(test)]\npub mod tests {",
    ];
    let at = starts.iter().find_map(|start| text.find(start));
    let at = at.ok_or_else(|| SourcesError::NoTest {
        file: file.to_owned(),
        name: "tests".to_owned(),
    })?;
    Ok(&text[at..])
}

/// Writes the `lib.rs` of the copied sources in `folder` in a form that `include!` accepts: gives modules
/// their paths, and leaves out inner attributes and comments, which may stand only at the beginning of a
/// file.
///
/// # Errors
/// [`SourcesError::File`].
pub fn write_root(folder: &Path, to: &Path) -> Result<()> {
    let mut text = String::new();
    for line in read(&folder.join("lib.rs"))?.lines() {
        let declared = line
            .split_once("mod ")
            .filter(|(before, _)| ["", "pub ", "pub(crate) "].contains(before));
        if let Some(name) = declared.and_then(|(_, rest)| rest.strip_suffix(';')) {
            let file = folder.join(format!("{name}.rs"));
            let file = if file.exists() {
                file
            } else {
                folder.join(name).join("mod.rs")
            };
            text += &format!("#[path = {:?}]\n", file.display().to_string());
        }
        if !line.starts_with("//!") && !line.starts_with("#![") {
            text += line;
            text += "\n";
        }
    }
    write(to, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "fn code() {}\n\n#[cfg(test)]\nmod tests {\n\t#[test]\n\tfn one() {\n\t\tcode();\n\t}\n\n\
                        \t#[test]\n\tfn two() {}\n}\n";

    #[test]
    fn a_test_is_left_out_and_the_others_stay() {
        let left_out = [LeftOut {
            file: "a.rs",
            name: "one",
            why: "",
        }];
        let text = edit(TEXT.to_owned(), "a.rs", &[], &left_out);
        let text = text.unwrap_or_default();
        assert!(!text.contains("fn one()") && text.contains("fn two()"));
        assert_eq!(
            edit(TEXT.to_owned(), "b.rs", &[], &left_out)
                .ok()
                .as_deref(),
            Some(TEXT)
        );
    }

    #[test]
    fn a_change_that_does_not_fit_is_an_error() {
        let change = Change {
            file: "a.rs",
            old: "gone",
            new: "",
            why: "it was there",
        };
        let error = edit(TEXT.to_owned(), "a.rs", &[change], &[]);
        let error = error.err().map(|error| error.to_string());
        let expected = "a.rs: expected \"gone\", to change it because it was there";
        assert_eq!(error.as_deref(), Some(expected));
    }

    #[test]
    fn the_tests_of_a_file_are_its_last_module() {
        assert!(tests_of(TEXT, "a.rs").is_ok_and(|tests| tests.starts_with("\n#[cfg(test)]")));
        assert!(tests_of("fn code() {}", "a.rs").is_err());
    }
}
