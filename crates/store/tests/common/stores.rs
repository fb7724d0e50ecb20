//! The stores under test.

use povmeter_store::{MemoryStore, NodeStore, StateHistory, StoredNodes, Verified};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A store under test.
pub(crate) trait TestStore:
    NodeStore + StateHistory + Send + Sync + Sized + 'static
{
    /// What must outlive the store, such as its folder.
    type Home;

    fn make() -> (Self::Home, Self);

    /// The store, closed and opened again if it lies on disk.
    fn settle(self, home: &Self::Home) -> Self;
}

impl TestStore for MemoryStore {
    type Home = ();

    fn make() -> ((), Self) {
        ((), MemoryStore::new())
    }

    fn settle(self, (): &()) -> Self {
        self
    }
}

/// A store in a folder.
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
pub(crate) trait DiskStore: TestStore + StoredNodes + std::fmt::Debug {
    /// Name of the engine.
    const ENGINE: &'static str;

    fn open_at(path: &std::path::Path) -> Result<Self, povmeter_store::OpenError>;
    fn create_at(path: &std::path::Path) -> Result<Self, povmeter_store::OpenError>;
    fn open_or_create_at(path: &std::path::Path) -> Result<Self, povmeter_store::OpenError>;
    fn create_filled_at<E>(
        path: &std::path::Path,
        fill: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<Self, povmeter_store::FillError<E>>;

    fn backup_to(
        &mut self,
        path: &std::path::Path,
        progress: povmeter_store::Progress<'_>,
    ) -> Result<(), povmeter_store::BackupError>;
    fn folder(&self) -> &std::path::Path;
}

/// Opens a store that nobody else has open any more. A process that another thread has just started has a copy of every
/// file that is open here, until it runs its own program. So for a moment the store may be locked although it was
/// dropped.
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
pub(crate) fn open_released<S: DiskStore>(
    path: &std::path::Path,
) -> Result<S, povmeter_store::OpenError> {
    let started = std::time::Instant::now();
    loop {
        match S::open_at(path) {
            Err(povmeter_store::OpenError::InUse { .. })
                if started.elapsed() < std::time::Duration::from_secs(60) =>
            {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
macro_rules! on_disk {
    ($($(#[$attribute:meta])* $store:ident $engine:literal;)*) => {$(
        $(#[$attribute])*
        impl DiskStore for povmeter_store::$store {
            const ENGINE: &'static str = $engine;

            fn open_at(path: &std::path::Path) -> Result<Self, povmeter_store::OpenError> {
                Self::open(path)
            }

            fn create_at(path: &std::path::Path) -> Result<Self, povmeter_store::OpenError> {
                Self::create(path)
            }

            fn open_or_create_at(path: &std::path::Path) -> Result<Self, povmeter_store::OpenError> {
                Self::open_or_create(path)
            }

            fn create_filled_at<E>(
                path: &std::path::Path,
                fill: impl FnOnce(&mut Self) -> Result<(), E>,
            ) -> Result<Self, povmeter_store::FillError<E>> {
                Self::create_filled(path, fill)
            }

            fn backup_to(
                &mut self,
                path: &std::path::Path,
                progress: povmeter_store::Progress<'_>,
            ) -> Result<(), povmeter_store::BackupError> {
                self.backup(path, progress)
            }

            fn folder(&self) -> &std::path::Path {
                self.path()
            }
        }

        $(#[$attribute])*
        impl TestStore for povmeter_store::$store {
            type Home = tempfile::TempDir;

            fn make() -> (Self::Home, Self) {
                let home = tempfile::tempdir().unwrap();
                let store = Self::create(home.path()).unwrap();
                (home, store)
            }

            fn settle(self, home: &Self::Home) -> Self {
                drop(self);
                Self::open(home.path()).unwrap()
            }
        }
    )*};
}

#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
on_disk! {
    #[cfg(feature = "parity-db")]
    ParityDbStore "parity-db";
    #[cfg(feature = "rocksdb")]
    RocksDbStore "rocksdb";
}

/// A wrapped store is a store too.
impl<S: TestStore> TestStore for Verified<S> {
    type Home = S::Home;

    fn make() -> (Self::Home, Self) {
        let (home, store) = S::make();
        (home, Verified::new(store))
    }

    fn settle(self, home: &Self::Home) -> Self {
        Verified::new(self.into_inner().settle(home))
    }
}

#[cfg(feature = "parallel")]
impl<S: TestStore> TestStore for povmeter_store::ParallelReads<S> {
    type Home = S::Home;

    fn make() -> (Self::Home, Self) {
        let (home, store) = S::make();
        (home, Self::new(store, std::num::NonZeroUsize::MIN).unwrap())
    }

    fn settle(self, home: &Self::Home) -> Self {
        let store = self.into_inner().settle(home);
        Self::new(store, std::num::NonZeroUsize::MIN).unwrap()
    }
}

/// The count of each node of `store`, by hash.
pub(crate) fn counts(store: &mut impl StoredNodes) -> BTreeMap<povmeter_delta_root::NodeHash, u64> {
    let mut counts = BTreeMap::new();
    let listed = store.each_node(&mut |node| {
        let earlier = counts.insert(node.hash, node.references);
        assert_eq!(earlier, None, "{} is listed twice", node.hash);
        ControlFlow::Continue(())
    });
    listed.unwrap();
    counts
}
