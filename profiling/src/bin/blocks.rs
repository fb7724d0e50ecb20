//! Builds blocks for profilers to look at.
//!
//! Prepares a parent state and a block, says `ready` and the state root of the block, and builds the
//! block once for each line that it reads. It answers each with the nanoseconds of thread CPU time
//! that the phases took, in the order of [`PHASES`]. With `--blocks N` it builds N blocks and ends.
//!
//! This is one file, and uses only what the development crates have had from their first day, because the
//! scripts put it into the trees of earlier commits and build it there.

use povmeter_dev_ladder::{LadderBlock, Strategy};
use povmeter_dev_runtime::{
    build_block, commit_parent, BlockOutcome, BoundarySize, CallKind, Estimates, Host, HostError,
    Peer, Phases, Plan, PlanOptions, PovmeterBlock, SharedNodes, Signatures, TransactionStep,
};
use povmeter_store::{MemoryStore, ParityDbStore};
use std::{
    env,
    error::Error,
    fmt::Write as _,
    hint::black_box,
    io::{stdin, stdout, BufRead, Write as _},
    process::ExitCode,
};

const USAGE: &str = "\
blocks [OPTIONS]
  --contender NAME     povmeter, povmeter-none, peer-none, or a strategy on the peer [povmeter]
  --blocks N           build N blocks and end, instead of one for each line of the input
  --accounts N         accounts in the parent state [10000]
  --transfers N        signed extrinsics in the block [544]
  --call NAME          transfer_keep_alive or transfer_all [transfer_keep_alive]
  --signatures KIND    free or sr25519 [free]
  --state memory|PATH  where the parent state lies: in memory, or in a parity-db in a new folder
  --cache none|warm    the peer's trie cache [none]
  --memory KIND        whose allocator builds the blocks: system, or own, which keeps frame pointers,
                       as that of the C library does not [system]";

/// The phases of a block, in the order in which their times are printed.
const PHASES: [&str; 5] = ["initialize", "extrinsics", "estimates", "finalize", "seal"];

/// Functions that tell the phases of a block apart in any profile.
macro_rules! phases {
    ($($name:ident)*) => { $(
        #[inline(never)]
        fn $name<R>(work: impl FnOnce() -> R) -> R {
            let result = work();
            // Because `work` is not the last call, this frame stays on the stack during it. Because
            // the strings differ, the compiler can't merge the functions.
            black_box(stringify!($name));
            result
        }
    )* };
}

phases! { phase_initialize phase_extrinsics phase_estimates phase_finalize phase_seal }

/// A host whose phases are marked in profiles.
struct Marked<H> {
    host: H,
    entered: usize,
    /// How often the runtime is entered before the block is finalized.
    entries: usize,
}

impl<H: Host> Host for Marked<H> {
    type Finished = H::Finished;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        let entered = self.entered;
        self.entered += 1;
        let host = &mut self.host;
        if entered == 0 {
            phase_initialize(|| host.execute(call))
        } else if entered < self.entries {
            phase_extrinsics(|| host.execute(call))
        } else {
            phase_finalize(|| host.execute(call))
        }
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        phase_extrinsics(|| self.host.transaction(step))
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        phase_estimates(|| self.host.boundary())
    }

    fn recorded(&self) -> u64 {
        self.host.recorded()
    }

    fn finish(self) -> Result<H::Finished, HostError> {
        phase_seal(|| self.host.finish())
    }
}

/// The implementation that builds the block.
#[derive(Clone, Copy)]
enum Contender {
    Peer,
    Ladder(Strategy),
    Povmeter(Estimates),
}

impl Contender {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "peer-none" => Self::Peer,
            "povmeter" => Self::Povmeter(Estimates::Everywhere),
            "povmeter-none" => Self::Povmeter(Estimates::Nowhere),
            _ => {
                let strategy = Strategy::ALL.into_iter().find(|one| one.name() == name);
                Self::Ladder(strategy.ok_or_else(|| {
                    let names: Vec<_> = Strategy::ALL.iter().map(|one| one.name()).collect();
                    let names = names.join(", ");
                    format!("expected povmeter, povmeter-none, peer-none, {names}; found {name}")
                })?)
            }
        })
    }
}

struct Options {
    contender: Contender,
    blocks: Option<u32>,
    plan: PlanOptions,
    /// The folder of a parity-db; memory if there is none.
    folder: Option<String>,
    warm_cache: bool,
    own_memory: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            contender: Contender::Povmeter(Estimates::Everywhere),
            blocks: None,
            plan: PlanOptions::default(),
            folder: None,
            warm_cache: false,
            own_memory: false,
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next();
            let value = value.ok_or_else(|| format!("expected a value after {option}\n{USAGE}"))?;
            match (option.as_str(), value.as_str()) {
                ("--contender", name) => options.contender = Contender::named(name)?,
                ("--blocks", _) => options.blocks = Some(number(&value)?),
                ("--accounts", _) => options.plan.accounts = number(&value)?,
                ("--transfers", _) => options.plan.transfers = number(&value)?,
                ("--call", "transfer_keep_alive") => {
                    options.plan.call = CallKind::TransferKeepAlive;
                }
                ("--call", "transfer_all") => options.plan.call = CallKind::TransferAll,
                ("--signatures", "free") => options.plan.signatures = Signatures::Free,
                ("--signatures", "sr25519") => options.plan.signatures = Signatures::Sr25519,
                ("--state", "memory") => options.folder = None,
                ("--state", _) => options.folder = Some(value),
                ("--cache", "none") => options.warm_cache = false,
                ("--cache", "warm") => options.warm_cache = true,
                ("--memory", "system") => options.own_memory = false,
                ("--memory", "own") => options.own_memory = true,
                _ => return Err(format!("unexpected: {option} {value}\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("expected a number, found {text}"))
}

/// A block to build, and the parent state to build it on.
struct Setting {
    contender: Contender,
    plan: Plan,
    nodes: SharedNodes,
    peer: Peer,
}

impl Setting {
    fn new(options: &Options) -> Result<Self, Box<dyn Error>> {
        let plan = Plan::new(options.plan)?;
        let nodes = match &options.folder {
            None => {
                let mut store = MemoryStore::new();
                commit_parent(&mut store, &plan)?;
                SharedNodes::new(store)
            }
            Some(folder) => {
                let mut store = ParityDbStore::create(folder)?;
                commit_parent(&mut store, &plan)?;
                SharedNodes::new(store)
            }
        };
        let parent = nodes.parent(plan.parent().state_root);
        let mut peer = Peer::new(parent, options.plan.state_version);
        if options.warm_cache {
            peer = peer.warmed(&plan)?;
        }
        let contender = options.contender;
        Ok(Self {
            contender,
            plan,
            nodes,
            peer,
        })
    }

    /// Builds a block without marked phases.
    fn warm_up(&self) -> Result<BlockOutcome, Box<dyn Error>> {
        Ok(match self.contender {
            Contender::Peer => build_block(self.peer.block(), &self.plan, |_| {}),
            Contender::Ladder(strategy) => {
                build_block(LadderBlock::new(&self.peer, strategy), &self.plan, |_| {})
            }
            Contender::Povmeter(estimates) => {
                build_block(self.povmeter(estimates), &self.plan, |_| {})
            }
        }?)
    }

    /// Builds a block with marked phases.
    fn build(&self) -> Result<BlockOutcome, Box<dyn Error>> {
        Ok(match self.contender {
            Contender::Peer => build_block(self.marked(self.peer.block()), &self.plan, |_| {}),
            Contender::Ladder(strategy) => {
                let block = LadderBlock::new(&self.peer, strategy);
                build_block(self.marked(block), &self.plan, |_| {})
            }
            Contender::Povmeter(estimates) => {
                build_block(self.marked(self.povmeter(estimates)), &self.plan, |_| {})
            }
        }?)
    }

    fn povmeter(&self, estimates: Estimates) -> PovmeterBlock<SharedNodes> {
        PovmeterBlock::new(self.nodes.clone(), &self.plan, estimates)
    }

    fn marked<H>(&self, host: H) -> Marked<H> {
        Marked {
            host,
            entered: 0,
            // The initialization, the inherent and the signed extrinsics.
            entries: 2 + self.plan.extrinsics().len(),
        }
    }
}

/// The nanoseconds of each phase in a line.
fn line(phases: Phases) -> String {
    let Phases {
        initialize,
        extrinsics,
        boundaries,
        finalize,
        finish,
    } = phases;
    let mut line = String::new();
    for spent in [initialize, extrinsics, boundaries, finalize, finish] {
        // Writing to a string does not fail.
        let _ = write!(line, "{} ", spent.cpu.as_nanos());
    }
    line
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let setting = Setting::new(options)?;
    if options.own_memory {
        memory::take_over();
    }
    let root = setting.warm_up()?.built.root;
    let mut out = stdout().lock();
    writeln!(out, "ready {root:?} {}", PHASES.join(" "))?;
    out.flush()?;
    if let Some(blocks) = options.blocks {
        for _ in 0..blocks {
            writeln!(out, "{}", line(setting.build()?.phases))?;
        }
        return Ok(());
    }
    for request in stdin().lock().lines() {
        request?;
        writeln!(out, "{}", line(setting.build()?.phases))?;
        out.flush()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    // Compute the root on this thread, because only its time is measured.
    env::set_var("RAYON_NUM_THREADS", "1");
    let options = Options::parse(env::args().skip(1));
    match options
        .map_err(Into::into)
        .and_then(|options| run(&options))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// An allocator that keeps frame pointers, by which profilers read stacks.
///
/// The C library's allocator uses the register of the frame pointer for other values, so a stack that is
/// read while it runs ends there: a tenth of all stacks. This allocator has lists of free pieces by size,
/// and takes about as much time.
mod memory {
    #![allow(unsafe_code)]

    use std::{
        alloc::{GlobalAlloc, Layout, System},
        cell::Cell,
        ptr::null_mut,
        sync::atomic::{AtomicPtr, Ordering::Relaxed},
    };

    /// Bytes of the region from which pieces are cut. The system serves requests that do not fit.
    const REGION: usize = 1 << 30;
    /// Pieces have a multiple of this size, and begin at a multiple of it.
    const STEP: usize = 16;
    /// Sizes with a list each: up to 1 KiB in steps, then powers of two.
    const SIZES: usize = 64 + 20;

    struct Allocator;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// The region; null as long as the system allocates.
    static REGION_START: AtomicPtr<u8> = AtomicPtr::new(null_mut());

    thread_local! {
        /// The free pieces of each size, linked by their first word.
        static FREE: [Cell<*mut u8>; SIZES] = const { [const { Cell::new(null_mut()) }; SIZES] };
        /// The bytes of the region that are cut. Only the thread that took over cuts any.
        static CUT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// From now on, serves allocations of this thread from a region of its own.
    pub(super) fn take_over() {
        if let Ok(layout) = Layout::from_size_align(REGION, 4096) {
            CUT.set(0);
            // SAFETY: the size is not zero. The region is never given back.
            REGION_START.store(unsafe { System.alloc(layout) }, Relaxed);
        }
    }

    /// The list for `size` bytes, and the size of its pieces; `None` if all pieces are smaller.
    fn list(size: usize) -> Option<(usize, usize)> {
        if size <= 64 * STEP {
            let steps = size.div_ceil(STEP).max(1);
            return Some((steps - 1, steps * STEP));
        }
        let power = size.checked_next_power_of_two()?;
        // The first power of two is 2 KiB.
        let list = 64 + power.trailing_zeros() as usize - 11;
        (list < SIZES).then_some((list, power))
    }

    // SAFETY: a piece is in the region, handed out to one owner at a time, as large as its list says,
    // and aligned as the region is cut; all other memory is the system's, from unchanged arguments.
    // `dealloc` finds the same list as `alloc`, since both have the same layout. Nothing unwinds, and
    // the thread-locals need no initialization and no destructor.
    unsafe impl GlobalAlloc for Allocator {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let start = REGION_START.load(Relaxed);
            if start.is_null() {
                // SAFETY: see above.
                return unsafe { System.alloc(layout) };
            }
            // SAFETY: see above.
            unsafe { from_region(start, layout) }
        }

        #[inline]
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            let start = REGION_START.load(Relaxed);
            if start.is_null() {
                // SAFETY: see above.
                return unsafe { System.alloc_zeroed(layout) };
            }
            // SAFETY: see above.
            let piece = unsafe { from_region(start, layout) };
            if !piece.is_null() {
                // SAFETY: the piece is as large as the layout, at least.
                unsafe { piece.write_bytes(0, layout.size()) };
            }
            piece
        }

        #[inline]
        unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            let start = REGION_START.load(Relaxed);
            if start.is_null() {
                // SAFETY: see above.
                return unsafe { System.realloc(piece, layout, size) };
            }
            let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
                return null_mut();
            };
            // SAFETY: see above; both pieces are as large as what is copied.
            unsafe {
                let larger = from_region(start, wanted);
                if !larger.is_null() {
                    piece.copy_to_nonoverlapping(larger, size.min(layout.size()));
                    self.dealloc(piece, layout);
                }
                larger
            }
        }

        #[inline]
        unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
            let start = REGION_START.load(Relaxed);
            if (piece as usize).wrapping_sub(start as usize) >= REGION || start.is_null() {
                // SAFETY: see above.
                return unsafe { System.dealloc(piece, layout) };
            }
            to_list(piece, layout);
        }
    }

    #[inline(never)]
    unsafe fn from_region(start: *mut u8, layout: Layout) -> *mut u8 {
        if let (Some((list, size)), true) = (list(layout.size()), layout.align() <= STEP) {
            let free = FREE.with(|free| free[list].get());
            if !free.is_null() {
                // SAFETY: a free piece has the next one in its first word.
                FREE.with(|lists| lists[list].set(unsafe { free.cast::<*mut u8>().read() }));
                return free;
            }
            let cut = CUT.get();
            if cut.checked_add(size).is_some_and(|end| end <= REGION) {
                CUT.set(cut + size);
                // SAFETY: inside of the region.
                return unsafe { start.add(cut) };
            }
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    #[inline(never)]
    fn to_list(piece: *mut u8, layout: Layout) {
        if let Some((list, _)) = list(layout.size()) {
            FREE.with(|lists| {
                // SAFETY: the piece has at least 16 bytes, is aligned to 16, and has no other owner.
                unsafe { piece.cast::<*mut u8>().write(lists[list].get()) };
                lists[list].set(piece);
            });
        }
    }
}
