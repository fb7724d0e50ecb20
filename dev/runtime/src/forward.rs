//! A macro for externalities that forward calls.

/// Implements the methods of `Externalities` that only benchmarks call by calling those of a field.
#[macro_export]
macro_rules! forward_benchmarking {
    ($field:ident) => {
        fn wipe(&mut self) {
            self.$field.wipe();
        }

        fn commit(&mut self) {
            self.$field.commit();
        }

        fn read_write_count(&self) -> (u32, u32, u32, u32) {
            self.$field.read_write_count()
        }

        fn reset_read_write_count(&mut self) {
            self.$field.reset_read_write_count();
        }

        fn get_whitelist(&self) -> Vec<sp_core::storage::TrackedStorageKey> {
            self.$field.get_whitelist()
        }

        fn set_whitelist(&mut self, new: Vec<sp_core::storage::TrackedStorageKey>) {
            self.$field.set_whitelist(new);
        }

        fn proof_size(&self) -> Option<u32> {
            self.$field.proof_size()
        }

        fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
            self.$field.get_read_and_written_keys()
        }
    };
}
