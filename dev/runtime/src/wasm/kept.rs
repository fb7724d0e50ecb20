//! A runtime in wasm whose instances are kept from call to call.

use super::{
    host_context::{link, range, Heap, HostState},
    written_pages::WrittenPages,
    HostFunctions,
};
use parity_wasm::elements::{ExportEntry, Internal};
use sc_allocator::FreeingBumpHeapAllocator;
use sc_executor::{
    error::{Backtrace, Error, MessageWithBacktrace, WasmError},
    with_externalities_safe,
};
use sc_executor_common::runtime_blob::RuntimeBlob;
use sp_externalities::Externalities;
use std::{
    collections::HashMap,
    fmt,
    ops::Range,
    panic::AssertUnwindSafe,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};
use wasmtime::{Config, Engine, Global, InstancePre, Linker, Module, Store, StoreLimitsBuilder};
use wasmtime::{Memory, TypedFunc, Val, WasmBacktrace};

/// The prefix of the exports that this file adds: the globals that the code can change.
const GLOBAL: &str = "povmeter_kept_global_";
/// An instance that wrote more bytes than this is not kept: restoring them takes longer than making a new
/// instance.
const MOST_WRITTEN: usize = 4 << 20;

/// A compiled runtime, and its idle instances.
///
/// The state of an instance is its memory and its globals, and nothing else, because the settings leave out
/// instructions that change tables. After a call, every global and every page of memory that was ever written
/// is restored. So each call finds what it would find in a new instance, also after a call that failed. The
/// kernel is asked which pages were written only if the thread had a page fault in the call, because the
/// first write to each page causes one. An instance is dropped if the system does not tell which pages were
/// written.
///
/// An instance serves calls of one name. Some calls of a block write twenty times as many pages as a
/// transfer, and each later call in the same instance would restore all of them.
pub(super) struct Kept {
    engine: Engine,
    module: InstancePre<HostState>,
    globals: Vec<String>,
    heap_pages: u32,
    /// Idle instances by the name of their call.
    idle: Mutex<HashMap<String, Vec<Instance>>>,
    /// The memory of a new instance, up to its last byte that is not zero.
    fresh: OnceLock<Vec<u8>>,
    pages: Option<WrittenPages>,
}

struct Instance {
    store: Store<HostState>,
    memory: Memory,
    heap_base: u32,
    globals: Vec<(Global, Val)>,
    call: TypedFunc<(u32, u32), u64>,
    /// The ranges of memory that were ever written; `None` until the kernel was asked.
    written: Option<Vec<Range<usize>>>,
    /// Whether the first write to each page causes a page fault.
    faults_each: bool,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("heap_pages", &self.heap_pages)
            .finish_non_exhaustive()
    }
}

impl Kept {
    /// Compiles `code`, compressed or not. Its instances get `heap_pages` of memory in addition to their
    /// own.
    ///
    /// # Errors
    /// [`WasmError`] if the code is not a runtime.
    pub(super) fn new(code: &[u8], heap_pages: u32) -> Result<Self, WasmError> {
        let other = |error| WasmError::Other(format!("{error:#}"));
        let mut blob = RuntimeBlob::uncompress_if_needed(code)?;
        blob.convert_memory_import_into_export()?;
        blob.clear_memory_max_limit()?;
        let (code, globals) = export_globals(&blob.serialize())?;
        let engine = Engine::new(&settings()).map_err(other)?;
        let module = Module::new(&engine, code).map_err(other)?;
        let mut linker = Linker::new(&engine);
        link::<HostFunctions>(&mut linker, &module)?;
        Ok(Self {
            module: linker.instantiate_pre(&module).map_err(other)?,
            engine,
            globals,
            heap_pages,
            idle: Mutex::default(),
            fresh: OnceLock::new(),
            pages: WrittenPages::new().ok(),
        })
    }

    /// Returns the result of `call` with the argument `data`, run on `externalities`.
    ///
    /// # Errors
    /// [`Error`], as a `WasmExecutor` returns it.
    pub(super) fn call(
        &self,
        externalities: &mut dyn Externalities,
        call: &str,
        data: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.run(externalities, call, data, Instance::failure)
    }

    /// As [`Self::call`], for a call that is expected to fail, with a short error.
    pub(super) fn begin(
        &self,
        externalities: &mut dyn Externalities,
        call: &str,
        data: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.run(externalities, call, data, |_, trap| {
            Error::from(trap.root_cause().to_string())
        })
    }

    fn run(
        &self,
        externalities: &mut dyn Externalities,
        call: &str,
        data: &[u8],
        explain: impl FnOnce(&mut Instance, &wasmtime::Error) -> Error,
    ) -> Result<Vec<u8>, Error> {
        let idle = self.idle().get_mut(call).and_then(Vec::pop);
        let mut instance = match idle {
            Some(instance) => instance,
            None => self.instantiate(call)?,
        };
        let faults = WrittenPages::faults();
        let run = AssertUnwindSafe(|| instance.call(data));
        let answer = with_externalities_safe(externalities, run)?;
        let answer = match answer {
            Ok(Err(trap)) => Err(explain(&mut instance, &trap)),
            Ok(Ok(answer)) => Ok(answer),
            Err(error) => Err(error),
        };
        let faulted = faults.is_none() || faults != WrittenPages::faults();
        if self.restore(&mut instance, faulted).is_some() {
            let mut idle = self.idle();
            match idle.get_mut(call) {
                Some(instances) => instances.push(instance),
                None => _ = idle.insert(call.to_owned(), vec![instance]),
            }
        }
        answer
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<String, Vec<Instance>>> {
        // Nothing panics while the lock is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an instance for calls of the export `call`.
    fn instantiate(&self, call: &str) -> Result<Instance, Error> {
        let other = |error: &str| Error::from(error.to_owned());
        let failed = |error| WasmError::Other(format!("{error:#}"));
        let mut store = Store::new(&self.engine, HostState::default());
        let instance = self.module.instantiate(&mut store).map_err(failed)?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.ok_or_else(|| other("memory is not exported under `memory` name"))?;
        // Looks at the memory before it grows, because a page that was looked at costs time in each
        // scan for written pages.
        self.fresh.get_or_init(|| {
            let bytes = memory.data(&store);
            let end = bytes.iter().rposition(|byte| *byte != 0);
            bytes[..end.map_or(0, |last| last + 1)].to_vec()
        });
        memory
            .grow(&mut store, u64::from(self.heap_pages))
            .map_err(failed)?;
        let faults_each = WrittenPages::fault_each(memory.data_mut(&mut store));
        let len = memory.data_size(&store);
        store.data_mut().memory = Some(memory);
        store.data_mut().limits = StoreLimitsBuilder::new().memory_size(len).build();
        store.limiter(|state| &mut state.limits);
        let heap_base = instance.get_global(&mut store, "__heap_base");
        let heap_base = heap_base.and_then(|global| global.get(&mut store).i32());
        let heap_base =
            heap_base.ok_or_else(|| other("__heap_base is not a global of type i32"))?;
        let mut globals = Vec::new();
        for name in &self.globals {
            let global = instance.get_global(&mut store, name);
            let global = global.ok_or_else(|| other("a global is not exported"))?;
            globals.push((global, global.get(&mut store)));
        }
        let export = instance.get_export(&mut store, call);
        let export = export.ok_or_else(|| format!("Exported method {call} is not found"))?;
        let function = export.into_func();
        let function = function.ok_or_else(|| format!("Export {call} is not a function"))?;
        let typed = function.typed(&store);
        let typed =
            typed.map_err(|_| format!("Exported function '{call}' has invalid signature."))?;
        Ok(Instance {
            store,
            memory,
            heap_base: heap_base.cast_unsigned(),
            globals,
            call: typed,
            written: None,
            faults_each,
        })
    }

    /// Restores `instance` to the state of a new one; `None` if that fails. If no page `faulted` in the call,
    /// the written pages are those that are known.
    fn restore(&self, instance: &mut Instance, faulted: bool) -> Option<()> {
        let (pages, fresh) = (self.pages.as_ref()?, self.fresh.get()?);
        let Instance {
            store,
            globals,
            written: known,
            faults_each,
            ..
        } = instance;
        for (global, value) in globals {
            global.set(&mut *store, *value).ok()?;
        }
        let memory = instance.memory.data_mut(store);
        let ranges = match known {
            Some(ranges) if *faults_each && !faulted => ranges,
            known => {
                let mut ranges = Vec::new();
                pages.of(memory, |range| ranges.push(range)).ok()?;
                known.insert(ranges)
            }
        };
        if ranges.iter().map(Range::len).sum::<usize>() > MOST_WRITTEN {
            return None;
        }
        for range in ranges.iter().cloned() {
            let had = fresh.get(range.start..).unwrap_or_default();
            let had = &had[..had.len().min(range.len())];
            let (same, zeros) = memory[range].split_at_mut(had.len());
            same.copy_from_slice(had);
            zeros.fill(0);
        }
        Some(())
    }
}

impl Instance {
    /// Returns the result of the instance's call, or the trap.
    fn call(&mut self, data: &[u8]) -> Result<Result<Vec<u8>, wasmtime::Error>, Error> {
        let size = u32::try_from(data.len()).map_err(|error| error.to_string())?;
        let mut allocator = FreeingBumpHeapAllocator::new(self.heap_base);
        let memory = self.memory.data_mut(&mut self.store);
        let address = allocator.allocate(&mut Heap(memory), size)?;
        let argument = range(address, data.len()).and_then(|range| memory.get_mut(range));
        argument
            .ok_or("memory write is out of bounds")?
            .copy_from_slice(data);
        let state = self.store.data_mut();
        state.allocator = Some(allocator);
        state.panic_message = None;
        let answer = match self.call.call(&mut self.store, (address.into(), size)) {
            Ok(answer) => answer,
            Err(trap) => return Ok(Err(trap)),
        };
        let (address, len) = sp_runtime_interface::unpack_ptr_and_len(answer);
        let bytes = usize::try_from(len)
            .ok()
            .and_then(|len| range(sp_wasm_interface::Pointer::new(address), len))
            .and_then(|range| self.memory.data(&self.store).get(range));
        Ok(Ok(bytes.ok_or(Error::OutputExceedsBounds)?.to_vec()))
    }

    fn failure(&mut self, trap: &wasmtime::Error) -> Error {
        let backtrace = trap.downcast_ref::<WasmBacktrace>();
        let backtrace = backtrace.map(|backtrace| Backtrace {
            backtrace_string: backtrace.to_string(),
        });
        match self.store.data_mut().panic_message.take() {
            Some(message) => Error::AbortedDueToPanic(MessageWithBacktrace { message, backtrace }),
            None => {
                let message = trap.root_cause().to_string();
                Error::AbortedDueToTrap(MessageWithBacktrace { message, backtrace })
            }
        }
    }
}

/// Returns the settings of `sc-executor`, except that memory does not come from a pool.
fn settings() -> Config {
    let mut config = Config::new();
    config.cranelift_opt_level(wasmtime::OptLevel::SpeedAndSize);
    config.cranelift_nan_canonicalization(false);
    config.max_wasm_stack(1024 * 1024);
    config.parallel_compilation(true);
    config.wasm_reference_types(false);
    config.wasm_simd(false);
    config.wasm_relaxed_simd(false);
    config.wasm_bulk_memory(false);
    config.wasm_multi_value(false);
    config.wasm_multi_memory(false);
    config.wasm_threads(false);
    config.wasm_memory64(false);
    config.wasm_tail_call(false);
    config.wasm_extended_const(false);
    // With copy on write, a page that is only read stays the file's.
    config.memory_init_cow(true);
    config.memory_guaranteed_dense_image_size(u64::MAX);
    config
}

/// Exports each global that `code` can change. Returns the new code, and the names of these
/// exports.
fn export_globals(code: &[u8]) -> Result<(Vec<u8>, Vec<String>), WasmError> {
    let failed = |error: parity_wasm::elements::Error| WasmError::Other(error.to_string());
    let mut module: parity_wasm::elements::Module =
        parity_wasm::deserialize_buffer(code).map_err(failed)?;
    let globals = module
        .global_section()
        .map_or(&[][..], |section| section.entries());
    let changing = globals
        .iter()
        .enumerate()
        .filter(|(_, global)| global.global_type().is_mutable());
    let indices: Vec<_> = changing
        .filter_map(|(index, _)| u32::try_from(index).ok())
        .collect();
    let names: Vec<_> = indices
        .iter()
        .map(|index| format!("{GLOBAL}{index}"))
        .collect();
    if let Some(exports) = module.export_section_mut() {
        for (name, index) in names.iter().zip(indices) {
            let entry = ExportEntry::new(name.clone(), Internal::Global(index));
            exports.entries_mut().push(entry);
        }
    }
    let code = parity_wasm::serialize(module).map_err(failed)?;
    Ok((code, names))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{WasmRuntime, PAGE};
    use codec::Encode;
    use rand::{rngs::SmallRng, seq::IndexedRandom, Rng, SeedableRng};
    use sp_state_machine::BasicExternalities;

    /// A module that changes all that code can change, at the caller's address.
    const MODULE: &str = r#"(module
        (import "env" "memory" (memory 18))
        (import "env" "ext_allocator_malloc_version_1" (func $malloc (param i32) (result i32)))
        (import "env" "ext_allocator_free_version_1" (func $free (param i32)))
        (import "env" "ext_panic_handler_abort_on_panic_version_1" (func $panic (param i64)))
        (import "env" "ext_of_no_host" (func $missing))
        (global (export "__heap_base") i32 (i32.const 1114112))
        (global $calls (mut i64) (i64.const 7))
        (global $other (mut i32) (i32.const -1))
        (data (i32.const 1048576) "data of the module, which it may change")
        ;; Returns the bytes of the argument, 24 of them, changed to what was found.
        (func $answer (param $at i32) (result i64)
            (i64.or (i64.extend_i32_u (local.get $at)) (i64.const 0x1800000000)))
        ;; The argument: an address, a length.
        (func (export "change") (param $at i32) (param $len i32) (result i64)
            (local $address i32) (local $end i32) (local $result i32)
            (local.set $address (i32.load (local.get $at)))
            (local.set $end (i32.add (local.get $address) (i32.load offset=4 (local.get $at))))
            (local.set $result (call $malloc (i32.const 24)))
            (i64.store (local.get $result) (i64.load (local.get $address)))
            (i64.store offset=8 (local.get $result)
                (i64.add (global.get $calls) (i64.extend_i32_u (global.get $other))))
            (i32.store offset=16 (local.get $result) (memory.size))
            (i32.store offset=20 (local.get $result) (memory.grow (i32.const 1)))
            (global.set $calls (i64.add (global.get $calls) (i64.const 1)))
            (global.set $other (i32.add (global.get $other) (local.get $address)))
            (block $done (loop $next
                (br_if $done (i32.ge_u (local.get $address) (local.get $end)))
                (i32.store8 (local.get $address) (i32.const 0x5a))
                (local.set $address (i32.add (local.get $address) (i32.const 1)))
                (br $next)))
            (call $answer (local.get $result)))
        (func (export "far") (param i32 i32) (result i64)
            (i64.const 0x7fffffff7fffffff))
        (func (export "trap") (param $at i32) (param $len i32) (result i64)
            (i32.store8 (i32.const 1048576) (i32.const 0))
            (global.set $calls (i64.const 0))
            unreachable)
        (func (export "missing") (param i32 i32) (result i64)
            (call $missing)
            (i64.const 0))
        (func (export "panic") (param $at i32) (param $len i32) (result i64)
            (call $panic (i64.or (i64.extend_i32_u (local.get $at))
                (i64.shl (i64.extend_i32_u (local.get $len)) (i64.const 32))))
            (i64.const 0))
        (func (export "huge") (param i32 i32) (result i64)
            (i64.extend_i32_u (call $malloc (i32.const 0x7fffffff))))
        (func (export "free") (param $at i32) (param i32) (result i64)
            (call $free (local.get $at))
            (call $answer (call $malloc (i32.const 24))))
        (func (export "free_twice") (param $at i32) (param i32) (result i64)
            (call $free (local.get $at))
            (call $free (local.get $at))
            (i64.const 0))
        (func (export "free_nothing") (param i32 i32) (result i64)
            (call $free (i32.const 5))
            (i64.const 0))
        (func (export "exhaust") (param i32 i32) (result i64)
            (loop $again
                (drop (call $malloc (i32.const 0x1000000)))
                (br $again))
            (i64.const 0))
        (func (export "no_entry") (param i32) (result i64) (i64.const 0))
    )"#;

    /// Pages of an instance: its own 18, and a doubled heap.
    const PAGES: usize = 18 + 2 * 2_048;

    fn runtimes() -> [WasmRuntime; 2] {
        let new = WasmRuntime::new(wat::parse_str(MODULE).unwrap(), None);
        [new.clone(), new.keeping_instances().unwrap()]
    }

    fn call(runtime: &WasmRuntime, call: &str, data: &[u8]) -> Result<Vec<u8>, String> {
        let result = BasicExternalities::default().execute_with(|| runtime.call(call, data));
        // The lines after the first one hold places in the code, which the exports of globals move.
        result.map_err(|error| error.to_string().lines().next().unwrap().to_owned())
    }

    /// Calls other than `change`. Most fail.
    const OTHERS: [&str; 11] = [
        "far",
        "trap",
        "missing",
        "panic",
        "huge",
        "exhaust",
        "free",
        "free_twice",
        "free_nothing",
        "no_entry",
        "absent",
    ];

    /// Returns the name of a call, an address and a length.
    fn any_call(rng: &mut SmallRng) -> (&'static str, u32, u32) {
        let end = u32::try_from(PAGES * PAGE).unwrap();
        let address = match rng.random_range(0..4) {
            0 => rng.random_range(1_048_570..1_048_640),
            1 => rng.random_range(1_114_112..1_300_000),
            2 => rng.random_range(end - 100..=end),
            _ => rng.random_range(0..end),
        };
        let len = match rng.random_bool(0.1) {
            true => rng.random_range(1_000_000..6_000_000),
            false => rng.random_range(0..20_000),
        };
        let name = match rng.random_bool(0.2) {
            true => OTHERS.choose(rng).unwrap(),
            false => "change",
        };
        (name, address, len)
    }

    /// The reference is the executor of nodes, which makes an instance for each call.
    #[test]
    fn each_call_finds_a_new_instance() {
        let [new, kept] = runtimes();
        let mut rng = SmallRng::seed_from_u64(1);
        for number in 0..500 {
            let (name, address, len) = any_call(&mut rng);
            let data = (address, len).encode();
            let expected = call(&new, name, &data);
            let found = call(&kept, name, &data);
            assert_eq!(found, expected, "call {number}: {name} {address} {len}");
        }
    }

    #[test]
    fn an_instance_is_kept_until_it_writes_much() {
        let [_, runtime] = runtimes();
        let kept = runtime.kept.as_ref().unwrap();
        let Some(pages) = &kept.pages else {
            return println!("this system does not tell which pages were written");
        };
        if let Err(error) = pages.of(&[], |_| {}) {
            return println!("this system does not tell which pages were written: {error}");
        }
        let idle = || kept.idle().values().map(Vec::len).sum::<usize>();
        let written = |call: &str| {
            let idle = kept.idle();
            let ranges = idle[call][0].written.as_ref().unwrap();
            ranges.iter().map(std::ops::Range::len).sum::<usize>()
        };
        let change = |len: u32| call(&runtime, "change", &(2_000_000_u32, len).encode());
        change(5).unwrap();
        assert_eq!(idle(), 1);
        change(50_000).unwrap();
        assert_eq!(idle(), 1);
        let much = written("change");
        for _ in 0..2 {
            call(&runtime, "trap", &[]).unwrap_err();
            assert_eq!(idle(), 2, "an instance for each name of a call");
        }
        assert!(written("trap") < 20_000 && 50_000 <= much);
        change(8 << 20).unwrap();
        assert_eq!(idle(), 1);
    }

    #[test]
    fn code_that_is_no_runtime_is_an_error() {
        for code in [&b"diary"[..], b"\0asm\x01\0\0\0"] {
            let runtime = WasmRuntime::new(code.to_vec(), None).keeping_instances();
            let found = runtime.and_then(|runtime| runtime.prepare());
            println!("{}", found.unwrap_err());
        }
    }
}
