//! Chromium without a window.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The time limit of a page. Far above the usual time, because test machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(120);

/// The browser's program.
pub(crate) struct Browser(PathBuf);

impl Browser {
    pub(crate) fn find() -> Option<Self> {
        let folders = env::var_os("PATH")?;
        let folders: Vec<_> = env::split_paths(&folders).collect();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let paths = names
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let mut paths = paths.filter(|path| path.is_file());
        paths.next().map(Self)
    }

    /// The page after the browser has read it, as HTML.
    pub(crate) fn dom(&self, page: &Path) -> String {
        self.run(page, &["--dump-dom", "--allow-file-access-from-files"])
    }

    /// A picture of the upper part of the page, `width` pixels wide and 1600 high.
    pub(crate) fn screenshot(&self, page: &Path, width: usize, dark: bool) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let picture = folder.path().join("picture.png");
        let scheme = if dark { 0 } else { 1 };
        self.run(
            page,
            &[
                &format!("--screenshot={}", picture.display()),
                &format!("--window-size={width},1600"),
                &format!("--blink-settings=preferredColorScheme={scheme}"),
                "--hide-scrollbars",
                "--force-device-scale-factor=1",
            ],
        );
        fs::read(picture).unwrap()
    }

    /// Runs the browser with a new profile and without network services, and returns what it prints.
    fn run(&self, page: &Path, args: &[&str]) -> String {
        let profile = tempfile::tempdir().unwrap();
        let (printed, said) = (profile.path().join("printed"), profile.path().join("said"));
        let file = |path| Stdio::from(fs::File::create(path).unwrap());
        let mut child = Command::new(&self.0)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
            ])
            .args(["--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync"])
            .arg(format!(
                "--user-data-dir={}",
                profile.path().join("profile").display()
            ))
            .args(args)
            .arg(format!("file://{}", page.display()))
            .stdout(file(&printed))
            .stderr(file(&said))
            .spawn()
            .unwrap();
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > PATIENCE {
                child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(20));
        };
        let said = fs::read_to_string(said).unwrap();
        assert!(status.success(), "{status}: {said}");
        fs::read_to_string(printed).unwrap()
    }
}
