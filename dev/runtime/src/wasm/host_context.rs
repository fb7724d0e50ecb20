//! What a runtime in wasm has of its host: memory from an allocator, and functions.

use sc_allocator::FreeingBumpHeapAllocator;
use sc_executor::error::WasmError;
use sp_wasm_interface::{FunctionContext, HostFunctionRegistry, Pointer, Result, WordSize};
use std::{collections::BTreeMap, ops::Range};
use wasmtime::{Caller, ExternType, FuncType, IntoFunc, Linker, Memory, Module, StoreLimits, Val};

/// What belongs to an instance beside what its code can reach.
#[derive(Default)]
pub(super) struct HostState {
    pub(super) memory: Option<Memory>,
    pub(super) limits: StoreLimits,
    /// That of the call in progress.
    pub(super) allocator: Option<FreeingBumpHeapAllocator>,
    pub(super) panic_message: Option<String>,
}

/// A call of a host function.
pub(super) struct HostContext<'c>(Caller<'c, HostState>);

impl HostContext<'_> {
    /// The memory, and the rest of the state.
    fn parts(&mut self) -> Result<(&mut [u8], &mut HostState)> {
        let memory = self.0.data().memory.ok_or("an instance without memory")?;
        Ok(memory.data_and_store_mut(&mut self.0))
    }

    fn with_allocator<R>(
        &mut self,
        run: impl FnOnce(&mut FreeingBumpHeapAllocator, &mut Heap<'_>) -> R,
    ) -> Result<R> {
        let (memory, state) = self.parts()?;
        let allocator = state.allocator.as_mut().ok_or("no call in progress")?;
        Ok(run(allocator, &mut Heap(memory)))
    }
}

impl FunctionContext for HostContext<'_> {
    fn read_memory_into(&mut self, address: Pointer<u8>, dest: &mut [u8]) -> Result<()> {
        let (memory, _) = self.parts()?;
        let found = range(address, dest.len()).and_then(|range| memory.get(range));
        dest.copy_from_slice(found.ok_or("memory read is out of bounds")?);
        Ok(())
    }

    fn write_memory(&mut self, address: Pointer<u8>, data: &[u8]) -> Result<()> {
        let (memory, _) = self.parts()?;
        let found = range(address, data.len()).and_then(|range| memory.get_mut(range));
        found
            .ok_or("memory write is out of bounds")?
            .copy_from_slice(data);
        Ok(())
    }

    fn allocate_memory(&mut self, size: WordSize) -> Result<Pointer<u8>> {
        self.with_allocator(|allocator, heap| allocator.allocate(heap, size))?
            .map_err(|error| error.to_string())
    }

    fn deallocate_memory(&mut self, pointer: Pointer<u8>) -> Result<()> {
        self.with_allocator(|allocator, heap| allocator.deallocate(heap, pointer))?
            .map_err(|error| error.to_string())
    }

    fn register_panic_error_message(&mut self, message: &str) {
        self.0.data_mut().panic_message = Some(message.to_owned());
    }
}

/// The bytes from `address` on, `None` if they are beyond what an address can name.
pub(super) fn range(address: Pointer<u8>, len: usize) -> Option<Range<usize>> {
    let start = usize::try_from(u32::from(address)).ok()?;
    Some(start..start.checked_add(len)?)
}

/// All memory that an instance ever has.
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

/// Gives `linker` the functions `H` that `module` imports. Others fail when they are called.
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
