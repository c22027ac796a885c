//! Limits what a grammar of a client may cost: memory, CPU time, and work for a client that is gone.
//!
//! `run` counts the allocations of its thread. When a limit is exceeded, the next allocation fails,
//! and the hook for failed allocations unwinds to `run`, through destructors that free everything.
//! This is the only way to stop code of a library that loops and allocates. Loops that may not
//! allocate call `check`.

use std::alloc::{GlobalAlloc, Layout, System, set_alloc_error_hook};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::Once;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The clock is read once per this many allocations or checks.
const STEPS_PER_LOOK: u32 = 64;
/// How often a client is asked whether it is still there.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Asks the caller whether the work is still needed. `../../ffi.h` declares the same type.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Cancellation {
    pub is_canceled: extern "C" fn(*const u8) -> bool,
    pub context: *const u8,
}

// The caller lets any thread ask.
unsafe impl Send for Cancellation {}
unsafe impl Sync for Cancellation {}

#[derive(Clone, Copy)]
pub struct Limits {
    /// Memory that `run` may hold at a time.
    pub bytes: usize,
    /// CPU time of the thread.
    pub time: Duration,
    pub cancellation: Option<Cancellation>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overrun {
    Memory,
    Time,
    Canceled,
}

/// What a thread has left. Const-initialized and without destructors, so that an allocator may use it.
struct Meter {
    armed: Cell<bool>,
    used: Cell<isize>,
    max_used: Cell<isize>,
    steps: Cell<u32>,
    cpu_end: Cell<Duration>,
    next_look: Cell<Option<Instant>>,
    cancellation: Cell<Option<Cancellation>>,
    overrun: Cell<Option<Overrun>>,
}

thread_local! {
    static METER: Meter = const { Meter {
        armed: Cell::new(false),
        used: Cell::new(0),
        max_used: Cell::new(0),
        steps: Cell::new(0),
        cpu_end: Cell::new(Duration::ZERO),
        next_look: Cell::new(None),
        cancellation: Cell::new(None),
        overrun: Cell::new(None),
    } };
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Meter {
    /// Counts one step. False if the work must end.
    fn step(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        self.steps.get() % STEPS_PER_LOOK != 0 || self.look()
    }

    /// Reads the clocks. Reading the CPU time takes long, and less of it has passed than wall time.
    fn look(&self) -> bool {
        let now = Instant::now();
        if self.next_look.get().is_some_and(|time| now < time) {
            return true;
        }
        let left = self.cpu_end.get().saturating_sub(cpu_time());
        if left.is_zero() {
            self.overrun.set(Some(Overrun::Time));
        }
        let mut pause = left;
        if let Some(Cancellation { is_canceled, context }) = self.cancellation.get() {
            self.armed.set(false); // The caller's code has no budget.
            if is_canceled(context) {
                self.overrun.set(Some(Overrun::Canceled));
            }
            self.armed.set(true);
            pause = pause.min(CLIENT_CHECK_INTERVAL);
        }
        self.next_look.set(now.checked_add(pause));
        self.overrun.get().is_none()
    }

    /// Counts an allocation. False if it must fail.
    fn add(&self, bytes: usize) -> bool {
        let used = self.used.get() + bytes as isize;
        if self.armed.get() {
            if used > self.max_used.get() {
                self.overrun.set(Some(Overrun::Memory));
                return false;
            }
            if !self.step() {
                return false;
            }
        }
        self.used.set(used);
        true
    }

    fn subtract(&self, bytes: usize) {
        self.used.set(self.used.get() - bytes as isize);
    }

    fn arm(&self, limits: Limits) {
        self.max_used.set(self.used.get().saturating_add_unsigned(limits.bytes));
        self.cpu_end.set(cpu_time().saturating_add(limits.time));
        self.next_look.set(Instant::now().checked_add(limits.time));
        if limits.cancellation.is_some() {
            self.next_look.set(None);
        }
        self.cancellation.set(limits.cancellation);
        self.overrun.set(None);
        self.armed.set(true);
    }
}

struct CountingAllocator;

unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let counted = METER.with(|meter| meter.add(layout.size()));
        if counted { unsafe { System.alloc(layout) } } else { null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let counted = METER.with(|meter| meter.add(layout.size()));
        if counted { unsafe { System.alloc_zeroed(layout) } } else { null_mut() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        METER.with(|meter| meter.subtract(layout.size()));
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Until the old memory is free, both count.
        if !METER.with(|meter| meter.add(size)) {
            return null_mut();
        }
        let moved = unsafe { System.realloc(memory, layout, size) };
        METER.with(|meter| meter.subtract(if moved.is_null() { size } else { layout.size() }));
        moved
    }
}

/// Ends the work of `run` if a limit is exceeded. For loops of this crate.
pub fn check() {
    if METER.with(|meter| meter.armed.get() && !meter.step()) {
        unwind();
    }
}

/// Unwinds to `run`. Without a message: the panic hook would look up the symbols of the stack.
fn unwind() -> ! {
    METER.with(|meter| meter.armed.set(false)); // Destructors may allocate.
    resume_unwind(Box::new(()))
}

/// Called after an allocation has failed. Without limits, the machine has no memory left, and the
/// process aborts.
fn on_failed_allocation(_: Layout) {
    if METER.with(|meter| meter.armed.get()) {
        unwind();
    }
}

/// Runs `work` within limits. Returns its result and the bytes by which the memory of the thread grew.
/// After an error, objects that `work` was changing must not be used. REQUIRES: `work` does not call
/// `run`.
pub fn run<T>(limits: Limits, work: impl FnOnce() -> T) -> Result<(T, isize), Overrun> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| set_alloc_error_hook(on_failed_allocation));
    METER.with(|meter| {
        let before = meter.used.get();
        meter.arm(limits);
        let result = catch_unwind(AssertUnwindSafe(work));
        meter.armed.set(false);
        // A library may have caught the panic, and returned an error instead.
        match (meter.overrun.get(), result) {
            (Some(overrun), _) => Err(overrun),
            (None, Ok(value)) => Ok((value, meter.used.get() - before)),
            (None, Err(payload)) => resume_unwind(payload),
        }
    })
}
