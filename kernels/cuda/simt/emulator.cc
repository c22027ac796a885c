#include "kernels/cuda/simt/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "kernels/cuda/simt/simt.h"

// Switches stacks. Pushes the callee-saved registers, stores the stack pointer in *from, and
// continues on the stack `to`, which an earlier call saved.
extern "C" void bastion_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl bastion_emulator_switch
.type bastion_emulator_switch, @function
bastion_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size bastion_emulator_switch, . - bastion_emulator_switch
)");

namespace bastion::kernels::cuda::emulator {
namespace {

constexpr int kMaxThreads = 1024;
constexpr size_t kStackBytes = 256 * 1024;
// Each stack begins at another offset. Otherwise the tops of all stacks would compete for the same
// few sets of the caches.
constexpr size_t kStackOffset = 9 * 64;
constexpr int kStackOffsets = 64;

enum class State : uint8_t { kReady, kAtBlockBarrier, kAtWarpBarrier, kAtCondition, kDone };

struct Copy {
  void* to;
  const void* from;
};

struct Thread {
  void* stack_pointer = nullptr;
  const absl::FunctionRef<bool()>* ready = nullptr;  // What it waits for, in kAtCondition.
  int exchanges = 0;
  bool waited = false;  // For earlier kernels.
  std::vector<Copy> queued;
  std::deque<std::vector<Copy>> committed;
};

struct WarpState {
  WarpValues values[2];  // Used alternately: a lane may be one exchange ahead of the slowest lane.
};

class Machine {
 public:
  Machine() : threads_(kMaxThreads), states_(kMaxThreads), warps_(kMaxThreads / kWarp) {
    stacks_ = static_cast<char*>(mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    CHECK(stacks_ != MAP_FAILED) << "cannot allocate the emulator's stacks";
    shared_storage_.resize(kSharedBytes + 1024);
    const auto begin = reinterpret_cast<uintptr_t>(shared_storage_.data());
    shared_ = shared_storage_.data() + (-begin & 1023);
  }

  void Run(const LaunchShape& shape, absl::FunctionRef<void()> body) {
    CHECK(shape.threads > 0 && shape.threads <= kMaxThreads && shape.threads % kWarp == 0)
        << shape.threads << " threads per block; the number must be a multiple of " << kWarp
        << " from " << kWarp << " to " << kMaxThreads;
    CHECK_LE(shape.shared, kSharedBytes) << "too much shared memory per block";
    shape_ = &shape;
    body_ = &body;
    const int64_t blocks = int64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
    for (const int64_t block : Order(blocks)) {
      block_ = {static_cast<int>(block % shape.grid.x),
                static_cast<int>(block / shape.grid.x % shape.grid.y),
                static_cast<int>(block / shape.grid.x / shape.grid.y)};
      RunBlock();
    }
  }

  // Sets the current thread's state, and switches to another thread of its warp, or to the
  // scheduler. They resume the thread when it is ready again.
  void Wait(State state) {
    states_[current_] = state;
    void** const mine = &threads_[current_].stack_pointer;
    const int next = seed_ == 0 ? NextOfWarp() : -1;
    if (next >= 0) current_ = next;
    bastion_emulator_switch(mine, next >= 0 ? threads_[next].stack_pointer : scheduler_);
  }

  void WaitUntil(absl::FunctionRef<bool()> ready) {
    if (ready()) return;
    threads_[current_].ready = &ready;
    Wait(State::kAtCondition);
  }

  [[nodiscard]] std::vector<int64_t> Order(int64_t count) {
    std::vector<int64_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    if (seed_ != 0) std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  void SetSchedule(uint32_t seed) {
    seed_ = seed;
    random_.seed(seed);
  }

  [[nodiscard]] Thread& thread() { return threads_[current_]; }
  [[nodiscard]] WarpState& warp() { return warps_[current_ / kWarp]; }
  [[nodiscard]] int current() const { return current_; }
  [[nodiscard]] Grid block() const { return block_; }
  [[nodiscard]] int64_t blocks_begun() const { return blocks_begun_; }
  [[nodiscard]] const LaunchShape& shape() const { return *shape_; }
  [[nodiscard]] char* shared() { return shared_; }

 private:
  static void ThreadMain();

  // Prepares a stack so that the first switch to it starts ThreadMain.
  void Prepare(int index) {
    char* const end = stacks_ + (index + 1) * kStackBytes - index % kStackOffsets * kStackOffset;
    auto* top = reinterpret_cast<uint64_t*>(end) - 2;
    *top = reinterpret_cast<uint64_t>(&ThreadMain);
    std::fill(top - 6, top, 0);
    threads_[index] = {};
    threads_[index].stack_pointer = top - 6;
    states_[index] = State::kReady;
  }

  // A ready thread of the current thread's warp; -1 if there is none. The last thread that waits at
  // the warp's barrier makes all ready.
  [[nodiscard]] int NextOfWarp() {
    const int first = current_ / kWarp * kWarp;
    for (int i = current_ + 1; i < first + kWarp; ++i) {
      if (states_[i] == State::kReady) return i;
    }
    if (Count(State::kAtWarpBarrier, first, kWarp) < kWarp) return -1;
    MakeReady(first, kWarp);
    return first;
  }

  void RunBlock() {
    ++blocks_begun_;
    std::memset(shared_, 0xFF, shape_->shared);
    for (int i = 0; i < shape_->threads; ++i) Prepare(i);
    while (!AllDone()) {
      for (const int64_t i : Order(shape_->threads)) {
        if (states_[i] != State::kReady) continue;
        current_ = static_cast<int>(i);
        bastion_emulator_switch(&scheduler_, threads_[i].stack_pointer);
      }
      ReleaseBarriers();
    }
  }

  [[nodiscard]] bool AllDone() const {
    return Count(State::kDone, 0, shape_->threads) == shape_->threads;
  }

  [[nodiscard]] int Count(State state, int first, int count) const {
    const auto begin = states_.begin() + first;
    return static_cast<int>(std::count(begin, begin + count, state));
  }

  void MakeReady(int first, int count) {
    for (int i = first; i < first + count; ++i) {
      if (states_[i] != State::kDone) states_[i] = State::kReady;
    }
  }

  void ReleaseBarriers() {
    const int threads = shape_->threads;
    bool released = false;
    for (int first = 0; first < threads; first += kWarp) {
      if (Count(State::kAtWarpBarrier, first, kWarp) < kWarp) continue;
      MakeReady(first, kWarp);
      released = true;
    }
    for (int i = 0; i < threads; ++i) {
      if (states_[i] != State::kAtCondition || !(*threads_[i].ready)()) continue;
      states_[i] = State::kReady;
      released = true;
    }
    if (released) return;
    const int at_block = Count(State::kAtBlockBarrier, 0, threads);
    const int done = Count(State::kDone, 0, threads);
    CHECK_EQ(at_block + done, threads)
        << "deadlock in block (" << block_.x << ", " << block_.y << ", " << block_.z
        << "): " << at_block << " threads wait at a block barrier, "
        << Count(State::kAtWarpBarrier, 0, threads) << " wait at a warp barrier, " << done
        << " have finished, " << Count(State::kAtCondition, 0, threads)
        << " wait for a phase or for products";
    MakeReady(0, threads);
  }

  std::vector<Thread> threads_;
  std::vector<State> states_;  // One per thread.
  std::vector<WarpState> warps_;
  char* stacks_;
  std::vector<char> shared_storage_;
  char* shared_;
  void* scheduler_ = nullptr;
  const LaunchShape* shape_ = nullptr;
  const absl::FunctionRef<void()>* body_ = nullptr;
  Grid block_;
  int64_t blocks_begun_ = 0;
  int current_ = 0;
  uint32_t seed_ = 0;
  std::mt19937 random_;
};

Machine& GetMachine() {
  static auto* const machine = new Machine();
  return *machine;
}

Mutex launch_mutex;

void Perform(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, 16);
    } else {
      std::memcpy(copy.to, copy.from, 16);
    }
  }
}

void Machine::ThreadMain() {
  Machine& machine = GetMachine();
  (*machine.body_)();
  FinishCopies(0);
  machine.Wait(State::kDone);
}

// The address of a matrix row in shared memory. Checks its alignment and bounds.
const char* SharedRow(uint32_t address) {
  CHECK(address % 16 == 0 && address + 16 <= GetMachine().shape().shared)
      << "a matrix row at byte " << address
      << " of shared memory is unaligned or past the end of the shared memory";
  return Shared() + address;
}

// Element (row, column) of matrix `matrix`. Lane 8 · matrix + r passed the address of row r.
uint16_t Element(const WarpValues& rows, int matrix, int row, int column) {
  const char* at;
  std::memcpy(&at, rows.of(8 * matrix + row), sizeof(at));
  uint16_t bits;
  std::memcpy(&bits, at + 2 * column, 2);
  return bits;
}

}  // namespace

void SetSchedule(uint32_t seed) {
  MutexLock lock(&launch_mutex);
  GetMachine().SetSchedule(seed);
}

void Run(const LaunchShape& shape, absl::FunctionRef<void()> thread) {
  MutexLock lock(&launch_mutex);
  GetMachine().Run(shape, thread);
}

int ThreadIndex() { return GetMachine().current(); }
int BlockThreads() { return GetMachine().shape().threads; }
Grid Block() { return GetMachine().block(); }
Grid Blocks() { return GetMachine().shape().grid; }
char* Shared() { return GetMachine().shared(); }
void SyncBlock() { GetMachine().Wait(State::kAtBlockBarrier); }
void SyncWarp() { GetMachine().Wait(State::kAtWarpBarrier); }
void WaitUntil(absl::FunctionRef<bool()> ready) { GetMachine().WaitUntil(ready); }
int64_t BlocksBegun() { return GetMachine().blocks_begun(); }
void CheckShared(uint32_t at, int bytes) {
  CHECK_LE(at + static_cast<size_t>(bytes), GetMachine().shape().shared)
      << "byte " << at << " of shared memory, and " << bytes << " from it: past the end";
}

void WaitForEarlierKernels() { GetMachine().thread().waited = true; }
void CheckWaited() {
  CHECK(GetMachine().thread().waited)
      << "a thread of the kernel has not called BeginKernel() or WaitForEarlierKernels()";
}

void Exchange(const void* value, size_t size, absl::FunctionRef<void(const WarpValues&)> read) {
  CHECK_LE(size, WarpValues::kBytes);
  Machine& machine = GetMachine();
  WarpValues& values = machine.warp().values[machine.thread().exchanges++ % 2];
  std::memcpy(values.bytes[machine.current() % kWarp], value, size);
  machine.Wait(State::kAtWarpBarrier);
  read(values);
}

void QueueCopy(void* shared, const void* global) {
  const auto aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; };
  CHECK(aligned(shared) && aligned(global)) << "an asynchronous copy must be aligned to 16 bytes";
  GetMachine().thread().queued.push_back({shared, global});
}

void CommitCopies() {
  Thread& thread = GetMachine().thread();
  thread.committed.push_back(std::move(thread.queued));
  thread.queued.clear();
}

void FinishCopies(int pending) {
  Thread& thread = GetMachine().thread();
  while (static_cast<int>(thread.committed.size()) > pending) {
    Perform(thread.committed.front());
    thread.committed.pop_front();
  }
}

}  // namespace bastion::kernels::cuda::emulator

namespace bastion::kernels::cuda::simt {

using emulator::WarpValues;

void LoadMatrices(uint32_t (&words)[4], uint32_t row_address) {
  const char* const row = emulator::SharedRow(row_address);
  const int lane = emulator::ThreadIndex() % kWarp;
  emulator::Exchange(&row, sizeof(row), [&](const WarpValues& rows) {
    for (int m = 0; m < 4; ++m) {
      const uint32_t low = emulator::Element(rows, m, lane / 4, 2 * (lane % 4));
      const uint32_t high = emulator::Element(rows, m, lane / 4, 2 * (lane % 4) + 1);
      words[m] = low | high << 16;
    }
  });
}

void LoadMatricesTransposed(uint32_t (&words)[4], uint32_t row_address) {
  const char* const row = emulator::SharedRow(row_address);
  const int lane = emulator::ThreadIndex() % kWarp;
  emulator::Exchange(&row, sizeof(row), [&](const WarpValues& rows) {
    for (int m = 0; m < 4; ++m) {
      const uint32_t low = emulator::Element(rows, m, 2 * (lane % 4), lane / 4);
      const uint32_t high = emulator::Element(rows, m, 2 * (lane % 4) + 1, lane / 4);
      words[m] = low | high << 16;
    }
  });
}

// simt_nvcc.h documents which elements a lane holds.
void MatrixMultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const int lane = emulator::ThreadIndex() % kWarp;
  emulator::Exchange(mine, sizeof(mine), [&](const WarpValues& values) {
    const auto half = [&](int from, int word, int upper) {
      uint32_t pair;
      std::memcpy(&pair, values.of(from) + 4 * word, 4);
      return upper != 0 ? HighBf16(pair) : LowBf16(pair);
    };
    const auto element_a = [&](int row, int k) {
      return half(row % 8 * 4 + k % 8 / 2, row / 8 + 2 * (k / 8), k % 2);
    };
    const auto element_b = [&](int k, int column) {
      return half(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
    };
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += element_a(row, k) * element_b(k, column);
      d[i] += sum;
    }
  });
}

}  // namespace bastion::kernels::cuda::simt
