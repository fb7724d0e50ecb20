//! Tests of crashes: a process that commits, forks, prunes and discards is killed again and again, its
//! files are cut off or garbled, its disk is full. Afterwards the store opens at a whole state that was
//! committed, or opening it returns an error.
//!
//! The process is this program: [`child_process`] is the test that it runs.
#![cfg(all(unix, any(feature = "parity-db", feature = "rocksdb")))]
#![allow(clippy::unwrap_used)]

mod common;

use common::stores::{open_released, DiskStore};
use common::tries::{block, random_changes, BlockChanges};
use povmeter_delta_root::Root;
use povmeter_store::{prune_to_last, verify, KeptState, MemoryStore, NodeStore, StateHistory};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

/// Names the engine, the task and the folder for the child process.
const ENGINE: &str = "POVMETER_CRASH_ENGINE";
const TASK: &str = "POVMETER_CRASH_TASK";
const FOLDER: &str = "POVMETER_CRASH_FOLDER";

/// States that the child keeps.
const KEPT: usize = 4;

/// The changes of the main chain's block at `height`.
fn main_changes(height: u64, large: bool) -> BlockChanges {
    let mut changes = random_changes(height, if height.is_multiple_of(10) { 700 } else { 30 });
    if large {
        let value = vec![u8::try_from(height % 251).unwrap(); 1 << 20];
        changes
            .top
            .insert(format!("large {height}").into_bytes(), Some(value));
    }
    changes
}

fn fork_changes(height: u64) -> BlockChanges {
    random_changes(height << 32, 20)
}

/// Returns the state of the main chain on which the next block is built. A crash may have left a fork as
/// the newest state.
fn head(store: &impl StateHistory) -> KeptState {
    let newest = *store.states().newest();
    let parent = newest.parent.and_then(|parent| store.states().get(parent));
    match parent {
        Some(parent) if is_fork(store, parent, &newest) => *parent,
        _ => newest,
    }
}

fn is_fork(store: &impl StateHistory, parent: &KeptState, state: &KeptState) -> bool {
    block(store, parent.root, &fork_changes(state.height)).root == state.root
}

/// Commits a block of the main chain and a fork beside it, discards the fork, and prunes.
fn step(store: &mut impl StateHistory, large: bool) -> Result<u64, povmeter_store::StoreError> {
    let parent = head(store);
    let height = parent.height + 1;
    let update = block(store, parent.root, &fork_changes(height));
    store.keep(parent.id, &update)?;
    let update = block(store, parent.root, &main_changes(height, large));
    let state = store.keep(parent.id, &update)?;
    let forks = store.states().children(parent.id).map(|state| state.id);
    let forks: Vec<_> = forks.filter(|fork| *fork != state).collect();
    for fork in forks {
        store.discard(fork)?;
    }
    prune_to_last(store, NonZeroUsize::new(KEPT).unwrap(), &mut |_| ())?;
    Ok(height)
}

fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // The process that listens may be gone.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn commit_until_killed<S: DiskStore>(folder: &Path, large: bool) {
    let mut store = match open_released::<S>(folder) {
        Ok(store) => store,
        Err(error) => return say(format!("refused {error}")),
    };
    say("opened");
    loop {
        match step(&mut store, large) {
            Ok(height) => say(format!("committed {height}")),
            Err(error) => return say(format!("failed {error}")),
        }
    }
}

/// Opens the store and says what is there.
fn look<S: DiskStore>(folder: &Path) {
    let mut store = match open_released::<S>(folder) {
        Ok(store) => store,
        Err(error) => return say(format!("refused {error}")),
    };
    let states: Vec<_> = store.states().iter().copied().collect();
    match verify(&mut store, &mut |_| ()) {
        Ok(report) if report.is_clean() => {
            for state in states {
                say(format!("state {} {}", state.height, state.root));
            }
            say("clean");
        }
        Ok(report) => say(format!("damaged {}", report.problems[0])),
        Err(error) => say(format!("unreadable {error}")),
    }
}

/// Copies the store, and says whether the copy is complete.
fn back_up<S: DiskStore>(folder: &Path) {
    let mut store = open_released::<S>(&folder.join("store")).unwrap();
    match store.backup_to(&folder.join("copy"), &mut |_| ()) {
        Ok(()) => say("copied"),
        Err(error) => say(format!("failed {error}")),
    }
}

fn run<S: DiskStore>(task: &str, folder: &Path) {
    match task {
        "back up" => back_up::<S>(folder),
        "commit" => commit_until_killed::<S>(folder, false),
        "large" => commit_until_killed::<S>(folder, true),
        "look" => look::<S>(folder),
        _ => panic!("{task}"),
    }
}

#[test]
#[ignore = "the process that the other tests start"]
fn child_process() {
    let (Ok(engine), Ok(task)) = (env::var(ENGINE), env::var(TASK)) else {
        return;
    };
    let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
    // With one thread the test program has begun a line with the name of this test, which would else become a part of
    // what the child says first.
    say("");
    match engine.as_str() {
        #[cfg(feature = "parity-db")]
        "parity-db" => run::<povmeter_store::ParityDbStore>(&task, &folder),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => run::<povmeter_store::RocksDbStore>(&task, &folder),
        _ => panic!("{engine}"),
    }
}

const CHILD_ARGUMENTS: [&str; 4] = ["child_process", "--exact", "--ignored", "--nocapture"];

fn start<S: DiskStore>(task: &str, folder: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(CHILD_ARGUMENTS);
    start_command::<S>(command, task, folder)
}

fn start_command<S: DiskStore>(mut command: Command, task: &str, folder: &Path) -> Child {
    command
        .env(ENGINE, S::ENGINE)
        .env(TASK, task)
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The longest time from the opening of a store to the kill, in microseconds, where commits are fast.
const LONGEST_LIFE: u64 = 50_000;
/// The most kills one after the other that come too soon. The last of them come up to 5 seconds after the opening.
const MOST_IDLE: u64 = 100;

/// Kills the child a random time after it has opened the store; in one of `early` cases before it has
/// opened it. `idle` is the number of kills just before that came too soon: each lengthens the time, because on a
/// slow or busy machine a commit takes longer.
fn kill(mut child: Child, early: u32, idle: u64, rng: &mut SmallRng) -> (Vec<String>, Option<i32>) {
    let mut first = Vec::new();
    let mut longest = LONGEST_LIFE;
    if !rng.random_ratio(1, early) {
        longest *= 1 + idle;
        let mut out = child.stdout.take().unwrap();
        // The test program has lines of its own.
        while !first.ends_with(b"opened\n") {
            let mut byte = [0];
            if out.read(&mut byte).unwrap() == 0 {
                break;
            }
            first.push(byte[0]);
        }
        child.stdout = Some(out);
    }
    thread::sleep(Duration::from_micros(rng.random_range(0..longest)));
    child.kill().unwrap();
    end(child)
}

/// Waits until the child has ended. Returns what it said, and the signal that ended it.
fn end(mut child: Child) -> (Vec<String>, Option<i32>) {
    let mut said = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let status = child.wait().unwrap();
    (said.lines().map(str::to_owned).collect(), status.signal())
}

/// The roots that the chain has, computed in memory.
struct Chain {
    store: MemoryStore,
    large: bool,
    main: Vec<Root>,
    forks: Vec<Root>,
}

impl Chain {
    fn new(large: bool) -> Self {
        Self {
            store: MemoryStore::new(),
            large,
            main: vec![Root::EMPTY],
            forks: vec![Root::EMPTY],
        }
    }

    /// Whether a state of this height and root was ever committed.
    fn has(&mut self, height: u64, root: &str) -> bool {
        while self.main.len() as u64 <= height {
            let next = self.main.len() as u64;
            let parent = self.store.root();
            self.forks
                .push(block(&self.store, parent, &fork_changes(next)).root);
            let update = block(&self.store, parent, &main_changes(next, self.large));
            self.store.commit(&update).unwrap();
            self.main.push(self.store.root());
        }
        let at = usize::try_from(height).unwrap();
        [self.main[at], self.forks[at]]
            .map(|root| root.to_string())
            .contains(&root.to_owned())
    }
}

/// What became of a store.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// It is whole, and the newest state has this height.
    Clean(u64),
    /// It was not opened, or its damage was found.
    Error(String),
    /// The process was ended by this signal.
    Signal(i32),
}

/// Opens the store in another process and compares it with the chain. Fails if the store counts as whole
/// but holds a state that was never committed.
fn look_at<S: DiskStore>(folder: &Path, chain: &mut Chain) -> Outcome {
    let (said, signal) = end(start::<S>("look", folder));
    if let Some(signal) = signal {
        return Outcome::Signal(signal);
    }
    let errors = ["refused ", "damaged ", "unreadable "];
    if let Some(line) = said
        .iter()
        .find(|line| errors.iter().any(|start| line.starts_with(start)))
    {
        return Outcome::Error(line.clone());
    }
    assert!(said.iter().any(|line| line == "clean"), "{said:?}");
    let states = said.iter().filter_map(|line| line.strip_prefix("state "));
    let mut newest = 0;
    for state in states {
        let (height, root) = state.split_once(' ').unwrap();
        let height = height.parse().unwrap();
        assert!(chain.has(height, root), "never committed: {state}");
        newest = newest.max(height);
    }
    Outcome::Clean(newest)
}

/// The last height that the child said it committed.
fn committed(said: &[String]) -> Option<u64> {
    let heights = said
        .iter()
        .filter_map(|line| line.strip_prefix("committed "));
    heights.filter_map(|height| height.parse().ok()).next_back()
}

/// Kills a process at random points on one store, `times` times or more, until more than `times / 10` of the killed
/// processes have committed something. Returns the number of blocks that were committed and lost.
fn killed<S: DiskStore>(times: u64, seed: u64) -> u64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let home = tempfile::tempdir().unwrap();
    drop(S::create_at(home.path()).unwrap());
    let mut chain = Chain::new(false);
    let (mut newest, mut progressed, mut lost) = (0, 0, 0);
    let (mut round, mut idle) = (0, 0);
    while round < times || progressed <= times / 10 {
        assert!(
            idle < MOST_IDLE,
            "{progressed} of {round} killed processes committed something"
        );
        let child = start::<S>("commit", home.path());
        let (said, signal) = kill(child, 5, idle, &mut rng);
        assert_eq!(signal, Some(9), "round {round}: the child ended: {said:?}");
        let Outcome::Clean(found) = look_at::<S>(home.path(), &mut chain) else {
            panic!("round {round}: {:?}", look_at::<S>(home.path(), &mut chain));
        };
        assert!(
            found >= newest,
            "round {round}: from {newest} back to {found}"
        );
        let told = committed(&said).unwrap_or(newest);
        if found > newest {
            (progressed, idle) = (progressed + 1, 0);
        } else {
            idle += 1;
        }
        lost += told.saturating_sub(found);
        newest = found;
        round += 1;
    }
    println!(
        "{}: killed {round} times, {progressed} times with new blocks; {newest} blocks, {lost} lost",
        S::ENGINE
    );
    lost
}

/// Copies the files of a folder; some may come and go meanwhile.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let _ = fs::copy(entry.path(), to.join(entry.file_name()));
    }
}

/// Copies the folder of a process at random points while it works, as a backup by hand would.
fn copied_alive<S: DiskStore>(times: u64, seed: u64) -> Vec<Outcome> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let home = tempfile::tempdir().unwrap();
    drop(S::create_at(home.path()).unwrap());
    let mut chain = Chain::new(false);
    let outcomes = (0..times).map(|_| {
        let to = tempfile::tempdir().unwrap();
        let mut child = start::<S>("commit", home.path());
        thread::sleep(Duration::from_micros(rng.random_range(50_000..150_000)));
        copy(home.path(), to.path());
        child.kill().unwrap();
        end(child);
        look_at::<S>(to.path(), &mut chain)
    });
    outcomes.collect()
}

/// Damages the end of a file, as a disk does that wrote only some sectors.
fn damage_end(file: &Path, rng: &mut SmallRng) {
    let mut content = fs::read(file).unwrap();
    if content.is_empty() {
        return;
    }
    let length = content.len();
    let tail = rng.random_range(1..=length.min(8192));
    match rng.random_range(0..4) {
        0 => content.truncate(length - tail),
        1 => content[length - tail..].fill(0),
        2 => rng.fill(&mut content[length - tail..]),
        _ => content[length - tail] ^= 1 << rng.random_range(0..8),
    }
    fs::write(file, content).unwrap();
}

/// Kills a process and damages the end of its log, `times` times.
fn torn_logs<S: DiskStore>(times: u64, seed: u64, is_log: impl Fn(&str) -> bool) -> Vec<Outcome> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let home = tempfile::tempdir().unwrap();
    drop(S::create_at(home.path()).unwrap());
    let mut chain = Chain::new(false);
    let (mut outcomes, mut idle) = (vec![], 0);
    while outcomes.len() < usize::try_from(times).unwrap() {
        assert!(idle < MOST_IDLE, "most processes leave no log");
        kill(start::<S>("commit", home.path()), u32::MAX, idle, &mut rng);
        let to = tempfile::tempdir().unwrap();
        copy(home.path(), to.path());
        let files = fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap());
        let logs = files.filter(|file| is_log(&file.file_name().to_string_lossy()));
        let logs: Vec<_> = logs
            .filter(|file| file.metadata().unwrap().len() > 0)
            .collect();
        for log in &logs {
            damage_end(&log.path(), &mut rng);
        }
        if logs.is_empty() {
            idle += 1;
        } else {
            outcomes.push(look_at::<S>(to.path(), &mut chain));
            idle = 0;
        }
    }
    outcomes
}

fn summary(engine: &str, what: &str, outcomes: &[Outcome]) {
    let count = |of: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| of(outcome)).count();
    let clean = count(|outcome| matches!(outcome, Outcome::Clean(_)));
    let errors = count(|outcome| matches!(outcome, Outcome::Error(_)));
    let signals = count(|outcome| matches!(outcome, Outcome::Signal(_)));
    println!(
        "{engine}, {what}: {clean} whole, {errors} with an error, {signals} ended by a signal"
    );
    for outcome in outcomes
        .iter()
        .filter(|outcome| !matches!(outcome, Outcome::Clean(_)))
        .take(5)
    {
        println!("  {outcome:?}");
    }
}

/// Checks that no outcome is a signal. [`look_at`] has checked before that no wrong state seems whole.
fn assert_no_signal(engine: &str, what: &str, outcomes: &[Outcome]) {
    summary(engine, what, outcomes);
    let signal = outcomes
        .iter()
        .find(|outcome| matches!(outcome, Outcome::Signal(_)));
    assert_eq!(signal, None);
}

/// Starts a process whose files may have at most this many blocks of 512 bytes.
fn start_limited<S: DiskStore>(blocks: u64, task: &str, folder: &Path) -> Child {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    command
        .arg("-c")
        .arg(script)
        .arg(env::current_exe().unwrap())
        .args(CHILD_ARGUMENTS);
    start_command::<S>(command, task, folder)
}

/// Copies a store to a disk without room for all of it: the copy is complete, or an error says that it is not.
fn copied_to_a_full_disk<S: DiskStore>(mebibytes: impl Iterator<Item = u64>) {
    let home = tempfile::tempdir().unwrap();
    let mut store = S::create_at(&home.path().join("store")).unwrap();
    for _ in 0..44 {
        step(&mut store, true).unwrap();
    }
    let states = store.states().clone();
    drop(store);
    let (mut whole, mut failed) = (0, 0);
    for limit in mebibytes {
        let (said, signal) = end(start_limited::<S>(limit << 11, "back up", home.path()));
        assert_eq!(signal, None, "{said:?}");
        let path = home.path().join("copy");
        match S::open_at(&path) {
            Ok(mut copy) => {
                whole += 1;
                assert_eq!(*copy.states(), states);
                assert!(verify(&mut copy, &mut |_| ()).unwrap().is_clean());
            }
            Err(error) => {
                failed += 1;
                let told = said.iter().any(|line| line.starts_with("failed "));
                assert!(told, "{limit}: {said:?}, but {error}");
            }
        }
        fs::remove_dir_all(path).unwrap();
    }
    println!("{}: {whole} whole, {failed} failed", S::ENGINE);
    assert!(whole > 0 && failed > 0, "{whole}, {failed}");
}

/// Lets a process write until a file may not grow any more, as on a full disk.
fn limited<S: DiskStore>(blocks: u64) {
    let home = tempfile::tempdir().unwrap();
    drop(S::create_at(home.path()).unwrap());
    let (said, signal) = end(start_limited::<S>(blocks, "large", home.path()));
    assert_eq!(signal, None, "{said:?}");
    let failed = said.iter().find(|line| line.starts_with("failed "));
    println!("{}: {}", S::ENGINE, failed.unwrap_or(&format!("{said:?}")));
    assert!(
        failed.is_some_and(|line| line.contains("the database could not")),
        "{said:?}"
    );
    let told = committed(&said).unwrap();
    let found = look_at::<S>(home.path(), &mut Chain::new(true));
    let Outcome::Clean(found) = found else {
        panic!("{found:?}");
    };
    assert!(found <= told + 1, "{told}, {found}");
    // The store takes further blocks.
    let mut store = S::open_at(home.path()).unwrap();
    let next = head(&store).height + 1;
    assert_eq!(step(&mut store, true).unwrap(), next);
}

#[cfg(feature = "parity-db")]
mod parity_db {
    use super::*;
    use povmeter_store::ParityDbStore;

    fn is_log(name: &str) -> bool {
        name.starts_with("log")
    }

    #[test]
    fn killed_at_any_moment() {
        let _lost_in_the_queue = killed::<ParityDbStore>(30, 1);
    }

    #[test]
    #[ignore = "takes long: a minute"]
    fn killed_at_any_moment_takes_long() {
        let _lost_in_the_queue = killed::<ParityDbStore>(200, 2);
    }

    #[test]
    fn torn_logs_are_found_out() {
        let outcomes = torn_logs::<ParityDbStore>(12, 3, is_log);
        assert_no_signal(ParityDbStore::ENGINE, "torn logs", &outcomes);
    }

    #[test]
    #[ignore = "takes long: a minute"]
    fn torn_logs_are_found_out_takes_long() {
        let outcomes = torn_logs::<ParityDbStore>(200, 4, is_log);
        assert_no_signal(ParityDbStore::ENGINE, "torn logs", &outcomes);
    }

    #[test]
    fn copies_of_an_open_store_are_found_out() {
        let outcomes = copied_alive::<ParityDbStore>(12, 5);
        summary(ParityDbStore::ENGINE, "copied while open", &outcomes);
    }

    #[test]
    #[ignore = "takes long: a minute"]
    fn copies_of_an_open_store_are_found_out_takes_long() {
        let outcomes = copied_alive::<ParityDbStore>(200, 5);
        summary(ParityDbStore::ENGINE, "copied while open", &outcomes);
    }

    /// Bytes that an operating system writes at once.
    const PAGE: usize = 4096;

    /// Resets about half of the changed pages of the mapped files in `after`, which are tables and
    /// indexes, to their content in `before`, or to zeros if the file ends earlier there. A file that is
    /// not in `before` stays. Returns the number of pages reset.
    fn lose_pages(before: &Path, after: &Path, rng: &mut SmallRng) -> u32 {
        let mut lost = 0;
        for entry in fs::read_dir(after).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with("table") && !name.starts_with("index") {
                continue;
            }
            let Ok(old) = fs::read(before.join(entry.file_name())) else {
                continue;
            };
            let mut content = fs::read(entry.path()).unwrap();
            for (number, page) in content.chunks_mut(PAGE).enumerate() {
                let mut was = [0; PAGE];
                let kept = old.chunks(PAGE).nth(number).unwrap_or_default();
                was[..kept.len()].copy_from_slice(kept);
                if *page != was[..page.len()] && rng.random() {
                    page.copy_from_slice(&was[..page.len()]);
                    lost += 1;
                }
            }
            fs::write(entry.path(), content).unwrap();
        }
        lost
    }

    /// Whether each log of `before` that is not empty is the start of the same log in `after`. There
    /// must be such a log.
    fn logs_go_on(before: &Path, after: &Path) -> bool {
        let files = fs::read_dir(before).unwrap().map(|entry| entry.unwrap());
        let logs = files.filter(|file| is_log(&file.file_name().to_string_lossy()));
        let logs = logs.map(|file| (file.file_name(), fs::read(file.path()).unwrap()));
        let logs: Vec<_> = logs.filter(|(_, log)| !log.is_empty()).collect();
        let goes_on = |(name, log): &(_, Vec<u8>)| {
            fs::read(after.join(name)).is_ok_and(|longer| longer.starts_with(log))
        };
        !logs.is_empty() && logs.iter().all(goes_on)
    }

    /// Kills a process that writes pages whose changes are in its logs, and resets some of these pages
    /// to their content before the process began, because in a crash of the whole system mapped pages
    /// reach the disk in any order, or not at all. The store must open at the same state as with all
    /// pages. Ends when pages were lost `times` times.
    fn lost_pages(times: u32, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let home = tempfile::tempdir().unwrap();
        drop(ParityDbStore::create_at(home.path()).unwrap());
        let mut chain = Chain::new(true);
        let (mut done, mut lost, mut kills) = (0, 0, 0);
        while done < times {
            kills += 1;
            assert!(
                kills < 40 * times,
                "most processes lose their logs, or write no page: {done}"
            );
            let [before, after, whole] = [(); 3].map(|()| tempfile::tempdir().unwrap());
            copy(home.path(), before.path());
            let mut child = start::<ParityDbStore>("large", home.path());
            // Waits longer on a machine where a process needs longer to begin.
            let most = 150_000 * (1 + u64::from(kills / 10));
            thread::sleep(Duration::from_micros(rng.random_range(0..most)));
            child.kill().unwrap();
            end(child);
            if !logs_go_on(before.path(), home.path()) {
                continue;
            }
            copy(home.path(), after.path());
            copy(home.path(), whole.path());
            let pages = lose_pages(before.path(), after.path(), &mut rng);
            if pages > 0 {
                let expected = look_at::<ParityDbStore>(whole.path(), &mut chain);
                assert!(matches!(expected, Outcome::Clean(_)), "{expected:?}");
                let found = look_at::<ParityDbStore>(after.path(), &mut chain);
                assert_eq!(found, expected, "{pages} pages lost");
                (done, lost) = (done + 1, lost + pages);
            }
        }
        println!("{times} times, {lost} pages lost of {kills} killed processes");
    }

    #[test]
    fn pages_that_did_not_reach_the_disk_are_in_the_log() {
        lost_pages(3, 6);
    }

    #[test]
    #[ignore = "takes long: three minutes"]
    fn pages_that_did_not_reach_the_disk_are_in_the_log_takes_long() {
        // A new store each time, because a longer log takes longer to read.
        for seed in 7..27 {
            lost_pages(5, seed);
        }
    }

    #[test]
    fn a_disk_without_room_is_an_error() {
        // 48 MiB: the smallest index needs 33.
        limited::<ParityDbStore>(98_304);
    }

    #[test]
    fn a_copy_on_a_full_disk_is_not_complete() {
        copied_to_a_full_disk::<ParityDbStore>((38..54).step_by(5));
    }
}

#[cfg(feature = "rocksdb")]
mod rocksdb {
    use super::*;
    use povmeter_store::RocksDbStore;

    fn is_log(name: &str) -> bool {
        name.ends_with(".log")
    }

    #[test]
    fn killed_at_any_moment() {
        assert_eq!(killed::<RocksDbStore>(30, 1), 0);
    }

    #[test]
    #[ignore = "takes long: a minute"]
    fn killed_at_any_moment_takes_long() {
        assert_eq!(killed::<RocksDbStore>(200, 2), 0);
    }

    #[test]
    fn torn_logs_are_found_out() {
        let outcomes = torn_logs::<RocksDbStore>(12, 3, is_log);
        assert_no_signal(RocksDbStore::ENGINE, "torn logs", &outcomes);
    }

    #[test]
    #[ignore = "takes long: a minute"]
    fn torn_logs_are_found_out_takes_long() {
        let outcomes = torn_logs::<RocksDbStore>(200, 4, is_log);
        assert_no_signal(RocksDbStore::ENGINE, "torn logs", &outcomes);
    }

    #[test]
    #[ignore = "takes long: a minute"]
    fn copies_of_an_open_store_are_found_out_takes_long() {
        let outcomes = copied_alive::<RocksDbStore>(200, 5);
        assert_no_signal(RocksDbStore::ENGINE, "copied while open", &outcomes);
    }

    #[test]
    fn a_disk_without_room_is_an_error() {
        // 8 MiB: the log reaches the limit first.
        limited::<RocksDbStore>(16_384);
    }
}
