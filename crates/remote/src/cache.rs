//! Nodes and blocks on disk.
//!
//! ```text
//! file   = "povmeter remote cache 1\n" record*
//! record = length of the value (4 bytes, little endian), CRC-32 of what follows (4 bytes),
//!          kind (1 byte), key (32 bytes), value
//! ```
//!
//! Records are only appended, under a lock of the file, so that several processes can share a folder. A
//! record that is cut off, because a process was killed, is removed when the file is opened next, or before the next
//! record: it would claim the bytes of the records after it.
//!
//! ```text
//! append: with the lock
//!     read the heads that other processes have appended since
//!     if they do not end with a whole record: read all heads again, and cut off what follows the last whole record
//!     append the record; if this fails, cut off the part that was written
//! open: with the lock, take the length: no process is in the middle of a record then
//!     without the lock, read the heads up to this length, because a large file takes seconds
//!     if they do not end with a whole record there, or can't be read:
//!         with the lock, read all heads again, and cut off what follows the last whole record
//! ```
//!
//! Without the lock, another process may cut off the end of the file and append to it. Then an entry of the index is of
//! bytes that are no longer there. Its checksum shows this when it is read, and its value is requested again.

use flate2::Crc;
use fs4::fs_std::FileExt;
use std::{
    collections::{hash_map, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const FILE: &str = "nodes.cache";
const MAGIC: &[u8] = b"povmeter remote cache 1\n";
/// Length, checksum, kind, key.
const HEAD: usize = 4 + 4 + 1 + 32;
/// The largest value in bytes. A larger length means that the record is damaged.
const LARGEST: u32 = 128 << 20;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Node = 0,
    Header = 1,
    Body = 2,
    Number = 3,
}

/// A file of nodes, headers and extrinsics. It grows without a limit; remove its folder to free the space. A
/// clone is another handle.
///
/// # Costs
/// The index of the file is in memory: 65 to 130 bytes for each record, because a table doubles when it is full. While
/// it doubles, the old table is there, too. So a process with 2 GiB for the index opens a file of 14 million records,
/// and one with 4 GiB a file of 29 million. Values are read from the file one at a time.
#[derive(Clone, Debug)]
pub struct DiskCache(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    /// The offsets of values, and their lengths and checksums.
    index: Index,
    /// Where the last record whose head was read ends.
    end: u64,
}

/// Entries by kind and key.
type Index = HashMap<(u8, [u8; 32]), Entry>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    length: u32,
    sum: u32,
}

/// Why a cache cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The file system failed.
    #[error("{}: expected a cache that can be read and written, found: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Error of the file system.
        source: Arc<io::Error>,
    },
    /// The file belongs to another program, or to another version.
    #[error("{}: expected a cache of this version of povmeter, found another file; remove it or name another folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

impl DiskCache {
    /// Opens the cache in `folder`, and creates what is missing. Reads the head of each record, without the lock of the
    /// file, so that other processes go on meanwhile.
    ///
    /// # Errors
    /// [`CacheError::File`] if the file system fails, [`CacheError::Foreign`] if the file is no cache.
    pub fn open(folder: &Path) -> Result<Self, CacheError> {
        let path = folder.join(FILE);
        let failed = |source: io::Error| CacheError::File {
            path: path.clone(),
            source: Arc::new(source),
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let mut file = options.open(&path).map_err(failed)?;
        let end = locked(&mut file, |file| Ok(file.metadata()?.len())).map_err(failed)?;
        let found = match whole_index(&file, end) {
            Some(index) => Some((index, end)),
            None => locked(&mut file, repair).map_err(failed)?,
        };
        let (index, end) = found.ok_or_else(|| CacheError::Foreign { path: path.clone() })?;
        let open = Open {
            path,
            file,
            index,
            end,
        };
        Ok(Self(Arc::new(Mutex::new(open))))
    }

    /// Number of nodes, headers, bodies and block hashes in the cache.
    pub fn len(&self) -> usize {
        self.state().index.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A poisoned lock does no harm, because the index changes only after the file.
    fn state(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key, or `None` if the value is missing or damaged.
    pub(crate) fn get(&self, kind: Kind, key: &[u8; 32]) -> Result<Option<Vec<u8>>, CacheError> {
        let mut state = self.state();
        let id = (kind as u8, *key);
        let Some(Entry { at, length, sum }) = state.index.get(&id).copied() else {
            return Ok(None);
        };
        let mut value = vec![0; length as usize];
        let seek = state.file.seek(SeekFrom::Start(at));
        match seek.and_then(|_| state.file.read_exact(&mut value)) {
            Ok(()) => {}
            // Another process removed the end of the file.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                state.index.remove(&id);
                return Ok(None);
            }
            Err(error) => return Err(state.failed(error)),
        }
        if checksum(kind as u8, key, &value) != sum {
            state.index.remove(&id);
            return Ok(None);
        }
        Ok(Some(value))
    }

    /// Adds a value, unless its key has one or the value is larger than `LARGEST`.
    pub(crate) fn put(&self, kind: Kind, key: &[u8; 32], value: &[u8]) -> Result<(), CacheError> {
        let mut state = self.state();
        let id = (kind as u8, *key);
        let length = u32::try_from(value.len())
            .ok()
            .filter(|length| *length <= LARGEST);
        let Some(length) = length.filter(|_| !state.index.contains_key(&id)) else {
            return Ok(());
        };
        let sum = checksum(kind as u8, key, value);
        let (length_bytes, sum_bytes) = (length.to_le_bytes(), sum.to_le_bytes());
        let record = [&length_bytes[..], &sum_bytes, &[kind as u8], key, value].concat();
        let appended = state.append(id, &record, (length, sum));
        match appended.map_err(|error| state.failed(error))? {
            true => Ok(()),
            false => Err(CacheError::Foreign {
                path: state.path.clone(),
            }),
        }
    }
}

impl Open {
    /// Appends a record of `id`, unless another process has. Its value has this length and checksum. Returns `false` if
    /// another program has replaced the content of the file.
    fn append(
        &mut self,
        id: (u8, [u8; 32]),
        record: &[u8],
        (length, sum): (u32, u32),
    ) -> io::Result<bool> {
        let Self {
            file, index, end, ..
        } = self;
        locked(file, |file| {
            if !catch_up(file, index, end)? {
                return Ok(false);
            }
            if let hash_map::Entry::Vacant(vacant) = index.entry(id) {
                write_or_cut(file, *end, |file| file.write_all(record))?;
                let at = *end + HEAD as u64;
                vacant.insert(Entry { at, length, sum });
                *end += record.len() as u64;
            }
            Ok(true)
        })
    }

    fn failed(&self, source: io::Error) -> CacheError {
        CacheError::File {
            path: self.path.clone(),
            source: Arc::new(source),
        }
    }
}

/// The checksum of a record.
fn checksum(kind: u8, key: &[u8; 32], value: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(&[kind]);
    sum.update(key);
    sum.update(value);
    sum.sum()
}

/// Calls `work` while no other process has the lock of `file`.
fn locked<T>(file: &mut File, work: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    FileExt::lock_exclusive(file)?;
    let done = work(file);
    FileExt::unlock(file)?;
    done
}

/// The index of the first `end` bytes; `None` if they are not a cache that ends with a whole record, or can't be read.
/// On Windows a lock of another process keeps this one from reading.
fn whole_index(file: &File, end: u64) -> Option<Index> {
    let (index, at) = scan(file, end).ok()??;
    (at == end).then_some(index)
}

/// The index of all records, with the end of the last one. Cuts off what follows the last whole record. Returns `None`
/// if the file is no cache. Needs the lock, because another process may be in the middle of a record otherwise.
fn repair(file: &mut File) -> io::Result<Option<(Index, u64)>> {
    let end = file.metadata()?.len();
    if end == 0 {
        write_or_cut(file, 0, |file| file.write_all(MAGIC))?;
        return Ok(Some((Index::new(), MAGIC.len() as u64)));
    }
    let Some((index, at)) = scan(file, end)? else {
        return Ok(None);
    };
    if at < end {
        file.set_len(at)?;
    }
    Ok(Some((index, at)))
}

/// Adds the records after `end` to the index, and sets `end` to the end of the last one. If the file does not end with
/// a whole record, repairs it. Returns `false` if the file is no cache any more. Needs the lock, as [`repair`] does.
fn catch_up(file: &mut File, index: &mut Index, end: &mut u64) -> io::Result<bool> {
    let length = file.metadata()?.len();
    if *end < length {
        *end = read_heads(file, *end, length, index)?;
    }
    if *end == length {
        return Ok(true);
    }
    // A record is cut off, or the file is damaged, or another program has replaced its content. Only the records from
    // the first one on tell which, and where whole ones end.
    let Some(found) = repair(file)? else {
        return Ok(false);
    };
    (*index, *end) = found;
    Ok(true)
}

/// Writes to the file, whose end is `at`. If this fails, cuts off the part that was written.
fn write_or_cut(
    file: &mut File,
    at: u64,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let written = write(file);
    if written.is_err() {
        // The error of the write says more. What is left is cut off before the next record.
        let _ = file.set_len(at);
    }
    written
}

/// Reads the heads of the records in the first `end` bytes, and returns the index with the end of the last whole
/// record. Returns `None` if the file is no cache.
fn scan(mut file: &File, end: u64) -> io::Result<Option<(Index, u64)>> {
    if end < MAGIC.len() as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut magic = [0; MAGIC.len()];
    file.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Ok(None);
    }
    let mut index = Index::new();
    let at = read_heads(file, MAGIC.len() as u64, end, &mut index)?;
    Ok(Some((index, at)))
}

/// Reads the heads of the records from `at` to `end` into the index, and returns the end of the last whole record.
fn read_heads(mut file: &File, mut at: u64, end: u64, index: &mut Index) -> io::Result<u64> {
    file.seek(SeekFrom::Start(at))?;
    let mut reader = BufReader::new(file);
    while end - at >= HEAD as u64 {
        let mut head = [0; HEAD];
        reader.read_exact(&mut head)?;
        let number = |from: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&head[from..from + 4]);
            u32::from_le_bytes(bytes)
        };
        let (length, sum) = (number(0), number(4));
        let mut key = [0; 32];
        key.copy_from_slice(&head[9..]);
        let value_at = at + HEAD as u64;
        if length > LARGEST || u64::from(length) > end - value_at {
            break;
        }
        let entry = Entry {
            at: value_at,
            length,
            sum,
        };
        index.insert((head[8], key), entry);
        reader.seek_relative(i64::from(length))?;
        at = value_at + u64::from(length);
    }
    Ok(at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::{mem, sync::mpsc, thread, time::Duration};

    /// Opens the file beside a cache.
    fn other_handle(folder: &Path) -> File {
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true);
        options.open(folder.join(FILE)).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn a_process_that_appends_does_not_keep_others_from_reading_heads() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path()).unwrap();
        cache.put(Kind::Node, &[1; 32], b"value").unwrap();
        let (file, appending) = (other_handle(folder.path()), other_handle(folder.path()));
        let end = file.metadata().unwrap().len();
        FileExt::lock_exclusive(&appending).unwrap();
        let (to, from) = mpsc::channel();
        thread::spawn(move || to.send(whole_index(&file, end).map(|index| index.len())));
        let found = from.recv_timeout(Duration::from_secs(20));
        assert_eq!(found.unwrap(), Some(1));
    }

    #[test]
    fn only_a_file_of_whole_records_is_read_without_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path()).unwrap();
        let one = other_handle(folder.path()).metadata().unwrap().len();
        for key in 1..=3 {
            cache.put(Kind::Node, &[key; 32], &[key; 50]).unwrap();
        }
        let mut file = other_handle(folder.path());
        let whole = file.metadata().unwrap().len();
        for end in 0..=whole {
            let at_end = (end >= one).then(|| (end - one) % (HEAD as u64 + 50));
            let expected = (at_end == Some(0)).then(|| (end - one) / (HEAD as u64 + 50));
            let found = whole_index(&file, end).map(|index| index.len() as u64);
            assert_eq!(found, expected, "{end}");
        }
        // Another process has cut off the end since the length was taken.
        assert!(whole_index(&file, whole + 91).is_none());
        file.write_all(&[1; 7]).unwrap();
        let opened = DiskCache::open(folder.path()).unwrap();
        assert_eq!(opened.len(), 3);
        assert_eq!(file.metadata().unwrap().len(), whole);
    }

    /// The first bytes of a record, as a process leaves them that is killed within it.
    fn torn(bytes: usize) -> Vec<u8> {
        let head = [&200_u32.to_le_bytes()[..], &[7; 4], &[0], &[9; 32]].concat();
        [&head[..], &[5; 200]].concat()[..bytes].to_vec()
    }

    #[test]
    fn records_after_one_that_is_cut_off_are_not_lost() {
        let value = |key: u8| vec![key; 300];
        for bytes in [1, HEAD - 1, HEAD, HEAD + 199] {
            let folder = tempfile::tempdir().unwrap();
            let caches = [1, 2, 3].map(|_| DiskCache::open(folder.path()).unwrap());
            let mut file = other_handle(folder.path());
            for key in 0..9 {
                // Each of the three appends after another one was killed, and twice in a row.
                let cache = &caches[usize::from(key / 2 % 3)];
                cache.put(Kind::Node, &[key; 32], &value(key)).unwrap();
                file.write_all(&torn(bytes)).unwrap();
            }
            let opened = DiskCache::open(folder.path()).unwrap();
            assert_eq!(opened.len(), 9, "{bytes}");
            for key in 0..9 {
                let found = opened.get(Kind::Node, &[key; 32]).unwrap();
                assert_eq!(found, Some(value(key)), "{bytes}");
            }
            let whole = MAGIC.len() + 9 * (HEAD + 300);
            assert_eq!(file.metadata().unwrap().len(), whole as u64);
        }
    }

    #[test]
    fn a_process_that_appends_finds_the_records_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = [1, 2].map(|_| DiskCache::open(folder.path()).unwrap());
        two.put(Kind::Node, &[1; 32], b"first").unwrap();
        two.put(Kind::Node, &[2; 32], b"second").unwrap();
        let length = || other_handle(folder.path()).metadata().unwrap().len();
        let before = length();
        // It is there already.
        one.put(Kind::Node, &[2; 32], b"second").unwrap();
        assert_eq!(length(), before);
        for cache in [one, two] {
            assert_eq!(cache.len(), 2);
            for (key, value) in [(1, &b"first"[..]), (2, b"second")] {
                let found = cache.get(Kind::Node, &[key; 32]).unwrap();
                assert_eq!(found.as_deref(), Some(value));
            }
        }
    }

    #[test]
    fn a_file_that_another_program_cuts_off_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path()).unwrap();
        for key in 1..=3 {
            cache.put(Kind::Node, &[key; 32], &[key; 50]).unwrap();
        }
        let file = other_handle(folder.path());
        // Within the third record.
        let two = MAGIC.len() + 2 * (HEAD + 50);
        file.set_len(two as u64 + 9).unwrap();
        cache.put(Kind::Node, &[4; 32], &[4; 50]).unwrap();
        let found = [1, 2, 3, 4].map(|key| cache.get(Kind::Node, &[key; 32]).unwrap().is_some());
        assert_eq!(found, [true, true, false, true]);
        assert_eq!(DiskCache::open(folder.path()).unwrap().len(), 3);
    }

    /// Also if it is longer than the file was.
    #[test]
    fn a_file_with_the_content_of_another_is_read_from_its_beginning() {
        let [folder, other] = [1, 2].map(|_| tempfile::tempdir().unwrap());
        let cache = DiskCache::open(folder.path()).unwrap();
        cache.put(Kind::Node, &[1; 32], &[1; 50]).unwrap();
        let mut file = other_handle(folder.path());
        let mut replace = |content: &[u8]| {
            file.set_len(0).unwrap();
            file.write_all(content).unwrap();
        };
        let replacement = DiskCache::open(other.path()).unwrap();
        for key in 10..20 {
            replacement.put(Kind::Node, &[key; 32], &[key; 73]).unwrap();
        }
        replace(&fs::read(other.path().join(FILE)).unwrap());
        cache.put(Kind::Node, &[2; 32], &[2; 50]).unwrap();
        assert_eq!(cache.len(), 11);
        for key in 10..20 {
            let found = cache.get(Kind::Node, &[key; 32]).unwrap();
            assert_eq!(found, Some(vec![key; 73]));
        }
        assert_eq!(DiskCache::open(folder.path()).unwrap().len(), 11);
        for diary in [&b"dear diary, this is long enough"[..], &[b'd'; 5_000]] {
            replace(diary);
            let error = cache.put(Kind::Node, &[5; 32], &[5; 50]).unwrap_err();
            assert!(matches!(error, CacheError::Foreign { .. }), "{error}");
            assert_eq!(fs::read(folder.path().join(FILE)).unwrap(), diary);
        }
    }

    #[test]
    fn a_record_that_can_not_be_written_whole_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path()).unwrap();
        cache.put(Kind::Node, &[1; 32], b"value").unwrap();
        let mut file = other_handle(folder.path());
        let end = file.metadata().unwrap().len();
        let written = write_or_cut(&mut file, end, |file| {
            file.write_all(&torn(60))?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.metadata().unwrap().len(), end);
    }

    #[test]
    fn processes_that_open_and_append_at_once_get_only_right_values() {
        let folder = tempfile::tempdir().unwrap();
        let value = |key: u8| vec![key; usize::from(key) * 7];
        thread::scope(|scope| {
            for worker in 0..4_u8 {
                let folder = folder.path();
                scope.spawn(move || {
                    for round in 0..40 {
                        let cache = DiskCache::open(folder).unwrap();
                        for key in 0..20 {
                            let found = cache.get(Kind::Node, &[key; 32]).unwrap();
                            assert!(found.is_none_or(|found| found == value(key)), "{key}");
                        }
                        let key = (worker * 5 + round) % 20;
                        cache.put(Kind::Node, &[key; 32], &value(key)).unwrap();
                        // As if a process was killed within a record.
                        if worker == 0 {
                            let mut file = other_handle(folder);
                            locked(&mut file, |file| file.write_all(&[1; 60])).unwrap();
                        }
                    }
                });
            }
        });
        DiskCache::open(folder.path()).unwrap();
    }

    /// The bytes of a record that the documentation of [`DiskCache`] and docs/remote.md name.
    #[test]
    fn a_record_takes_the_memory_that_the_documentation_says() {
        // A byte of control for each slot, of which seven in eight are used before the table doubles.
        let slot = mem::size_of::<((u8, [u8; 32]), Entry)>() + 1;
        assert_eq!((slot * 8 / 7, slot * 16 / 7), (65, 130));
        let (most, doubling) = ((1 << 25) * 7 / 8, slot * ((1 << 25) + (1 << 24)));
        assert!(most > 29_000_000 && doubling < 4 << 30);
        let (most, doubling) = ((1 << 24) * 7 / 8, slot * ((1 << 24) + (1 << 23)));
        assert!(most > 14_000_000 && doubling < 2 << 30);
    }
}
