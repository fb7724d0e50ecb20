//! The host side of a runtime in wasm: memory from an allocator, and host functions.

use sc_allocator::FreeingBumpHeapAllocator;
use sc_executor::error::WasmError;
use sp_wasm_interface::{FunctionContext, HostFunctionRegistry, Pointer, Result, WordSize};
use std::{collections::BTreeMap, ops::Range};
use wasmtime::{Caller, ExternType, FuncType, IntoFunc, Linker, Memory, Module, StoreLimits, Val};

/// The state of an instance that its code cannot reach.
#[derive(Default)]
pub(super) struct HostState {
    pub(super) memory: Option<Memory>,
    pub(super) limits: StoreLimits,
    /// The allocator of the call in progress.
    pub(super) allocator: Option<FreeingBumpHeapAllocator>,
    pub(super) panic_message: Option<String>,
}

/// A call of a host function.
pub(super) struct HostContext<'c>(Caller<'c, HostState>);

/// Returns the memory of the instance that calls, and the rest of its state.
fn parts<'c>(caller: &'c mut Caller<'_, HostState>) -> Result<(&'c mut [u8], &'c mut HostState)> {
    let memory = caller.data().memory.ok_or("an instance without memory")?;
    Ok(memory.data_and_store_mut(caller))
}

fn allocate(caller: &mut Caller<'_, HostState>, size: WordSize) -> Result<Pointer<u8>> {
    let (memory, state) = parts(caller)?;
    let allocator = state.allocator.as_mut().ok_or("no call in progress")?;
    let allocated = allocator.allocate(&mut Heap(memory), size);
    allocated.map_err(|error| error.to_string())
}

fn deallocate(caller: &mut Caller<'_, HostState>, pointer: Pointer<u8>) -> Result<()> {
    let (memory, state) = parts(caller)?;
    let allocator = state.allocator.as_mut().ok_or("no call in progress")?;
    let deallocated = allocator.deallocate(&mut Heap(memory), pointer);
    deallocated.map_err(|error| error.to_string())
}

impl HostContext<'_> {
    /// Returns the bytes from `address` on, to `read` or `write` them.
    fn bytes(&mut self, address: Pointer<u8>, len: usize, to: &str) -> Result<&mut [u8]> {
        let (memory, _) = parts(&mut self.0)?;
        let found = range(address, len).and_then(|range| memory.get_mut(range));
        found.ok_or_else(|| format!("memory {to} is out of bounds"))
    }
}

impl FunctionContext for HostContext<'_> {
    fn read_memory(&mut self, address: Pointer<u8>, size: WordSize) -> Result<Vec<u8>> {
        let len = usize::try_from(size).map_err(|error| error.to_string())?;
        Ok(self.bytes(address, len, "read")?.to_vec())
    }

    fn read_memory_into(&mut self, address: Pointer<u8>, dest: &mut [u8]) -> Result<()> {
        dest.copy_from_slice(self.bytes(address, dest.len(), "read")?);
        Ok(())
    }

    fn write_memory(&mut self, address: Pointer<u8>, data: &[u8]) -> Result<()> {
        self.bytes(address, data.len(), "write")?
            .copy_from_slice(data);
        Ok(())
    }

    fn allocate_memory(&mut self, size: WordSize) -> Result<Pointer<u8>> {
        allocate(&mut self.0, size)
    }

    fn deallocate_memory(&mut self, pointer: Pointer<u8>) -> Result<()> {
        deallocate(&mut self.0, pointer)
    }

    fn register_panic_error_message(&mut self, message: &str) {
        self.0.data_mut().panic_message = Some(message.to_owned());
    }
}

/// Returns the range of `len` bytes from `address` on; `None` if its end exceeds `usize`.
pub(super) fn range(address: Pointer<u8>, len: usize) -> Option<Range<usize>> {
    let start = usize::try_from(u32::from(address)).ok()?;
    Some(start..start.checked_add(len)?)
}

/// The whole memory of an instance, which never grows.
pub(super) struct Heap<'m>(pub(super) &'m mut [u8]);

impl sc_allocator::Memory for Heap<'_> {
    fn with_access_mut<R>(&mut self, run: impl FnOnce(&mut [u8]) -> R) -> R {
        run(self.0)
    }

    fn with_access<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R {
        run(self.0)
    }

    fn grow(&mut self, _: u32) -> std::result::Result<(), ()> {
        Err(())
    }

    fn pages(&self) -> u32 {
        // At most 65,536.
        u32::try_from(self.0.len() / super::PAGE).unwrap_or(u32::MAX)
    }

    fn max_pages(&self) -> Option<u32> {
        Some(self.pages())
    }
}

/// Links the functions `H` that `module` imports to `linker`. Imports without a function fail when
/// they are called.
pub(super) fn link<H: sp_wasm_interface::HostFunctions>(
    linker: &mut Linker<HostState>,
    module: &Module,
) -> std::result::Result<(), WasmError> {
    let mut wanted = BTreeMap::new();
    for import in module.imports() {
        let ExternType::Func(of) = import.ty() else {
            continue;
        };
        if import.module() == "env" {
            wanted.insert(import.name().to_owned(), of);
        }
    }
    let mut registry = Registry { linker, wanted };
    // Goes first: `wanted` then lacks these names, so Substrate's functions for them are not
    // linked.
    link_allocator(&mut registry)?;
    H::register_static(&mut registry)?;
    for (name, of) in registry.wanted {
        let error = format!("call to a missing function env:{name}");
        let missing = move |_: Caller<'_, _>, _: &[Val], _: &mut [Val]| {
            Err(wasmtime::Error::msg(error.clone()))
        };
        let linked = linker.func_new("env", &name, of, missing);
        linked.map_err(|error| WasmError::Other(format!("{error:#}")))?;
    }
    Ok(())
}

/// Links the functions with which a runtime allocates, hundreds of times in a transfer. Substrate's functions
/// look up their callee in two tables, and catch panics, each time: a twentieth of the time of a transfer.
fn link_allocator(registry: &mut Registry<'_>) -> std::result::Result<(), WasmError> {
    // Returns the error that the executor reports for Substrate's functions, which panic.
    fn failed(what: &str, error: String) -> wasmtime::Error {
        let called = "host code panicked while being called by the runtime";
        wasmtime::Error::msg(format!("{called}: Failed to {what} memory: {error:?}"))
    }
    let malloc = |mut caller: Caller<'_, HostState>, size: u32| {
        let allocated = allocate(&mut caller, size);
        let allocated = allocated.map_err(|error| failed("allocate", error))?;
        Ok::<_, wasmtime::Error>(u32::from(allocated))
    };
    let free = |mut caller: Caller<'_, HostState>, pointer: u32| {
        let deallocated = deallocate(&mut caller, Pointer::new(pointer));
        deallocated.map_err(|error| failed("deallocate", error))
    };
    registry.register_static("ext_allocator_malloc_version_1", malloc)?;
    registry.register_static("ext_allocator_free_version_1", free)
}

struct Registry<'l> {
    linker: &'l mut Linker<HostState>,
    /// The imports that have no function yet.
    wanted: BTreeMap<String, FuncType>,
}

impl<'l> HostFunctionRegistry for Registry<'l> {
    type State = HostState;
    type Error = WasmError;
    type FunctionContext = HostContext<'l>;

    fn with_function_context<R>(
        caller: Caller<'_, HostState>,
        callback: impl FnOnce(&mut dyn FunctionContext) -> R,
    ) -> R {
        callback(&mut HostContext(caller))
    }

    fn register_static<Params, Results>(
        &mut self,
        name: &str,
        function: impl IntoFunc<HostState, Params, Results> + 'static,
    ) -> std::result::Result<(), WasmError> {
        if self.wanted.remove(name).is_some() {
            let linked = self.linker.func_wrap("env", name, function);
            linked.map_err(|error| WasmError::Other(format!("{error:#}")))?;
        }
        Ok(())
    }
}
