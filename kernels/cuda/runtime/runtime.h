// A GPU's memory, its queue of work and recordings of such work, without the GPU's headers: what
// the CUDA engine is written against. Two implementations: runtime_cuda.cc, and runtime_emulated.cc
// for tests on a CPU, where device memory is memory and work is done as it is put on the stream.
#ifndef BASTION_KERNELS_CUDA_RUNTIME_RUNTIME_H_
#define BASTION_KERNELS_CUDA_RUNTIME_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bastion::kernels::cuda {

struct DeviceInfo {
  std::string name;  // "NVIDIA H100 80GB HBM3".
  std::string uuid;  // 16 bytes, the same in every process.
  int ordinal = 0;
  int capability = 0;  // 90 is compute capability 9.0.
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t free_bytes = 0;
  size_t cache_bytes = 0;       // L2.
  double bytes_per_second = 0;  // Of its memory, by its clock and width; 0: it does not say.
};

// Makes GPU `ordinal` the one of this process. UNAVAILABLE where there is no driver or no such GPU,
// FAILED_PRECONDITION where it is older than these kernels were compiled for.
[[nodiscard]] absl::StatusOr<DeviceInfo> OpenDevice(int ordinal);

// Memory of the device, or of the host for the device to copy from and write to. Zeroed, aligned to
// 256 bytes. Movable.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(on_host_, other.on_host_);
    std::swap(mapping_, other.mapping_);
    return *this;
  }
  ~Memory();

  // RESOURCE_EXHAUSTED with what was wanted and what is free.
  [[nodiscard]] static absl::StatusOr<Memory> OnDevice(size_t bytes, const char* what);
  // Page-locked; the device reaches it under the same address.
  [[nodiscard]] static absl::StatusOr<Memory> OnHost(size_t bytes, const char* what);

  // Of the device, in an allocation of its own, for another process on that device to read.
  // UNIMPLEMENTED where the driver cannot share memory.
  [[nodiscard]] static absl::StatusOr<Memory> OnDeviceToShare(size_t bytes, const char* what);
  // A file descriptor of it to hand over, the caller's to close. REQUIRES: made to share.
  [[nodiscard]] absl::StatusOr<int> ExportDescriptor() const;
  // `bytes` that another process exported, to be read only. They stay when that process is gone;
  // the descriptor stays the caller's. UNAVAILABLE where they cannot be mapped, as for memory of
  // another device or a part of one (MIG).
  [[nodiscard]] static absl::StatusOr<Memory> Import(int descriptor, size_t bytes);

  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  struct Mapping;

  Memory(void* data, size_t bytes, bool on_host) : data_(data), bytes_(bytes), on_host_(on_host) {}
  Memory(std::shared_ptr<const Mapping> mapping, size_t bytes);

  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool on_host_ = false;
  std::shared_ptr<const Mapping> mapping_;  // Of memory that is shared, which goes with it.
};

// Work that was recorded, to be run again and again as it is: it reads and writes the same memory.
class Graph {
 public:
  virtual ~Graph() = default;
};

// Work done in the order in which it is put here, while the host goes on. What fails is remembered
// and told by the next Synchronize(). Not thread-safe, but for any thread at a time.
class Stream {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Stream>> Create();
  virtual ~Stream() = default;

  // Between any two memories of host and device.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  virtual void Fill(void* to, uint8_t value, size_t bytes) = 0;

  // What is put on the stream from here to End, by this thread, is recorded instead of done.
  // Kernels should have run before: their code is loaded when they are first wanted.
  virtual void BeginRecording() = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<Graph>> EndRecording() = 0;
  virtual void Run(const Graph& graph) = 0;

  // Waits for all of it. INTERNAL when anything failed since the last time.
  [[nodiscard]] virtual absl::Status Synchronize() = 0;
  // Waits until the device has put `value` (or more) at `flag`, memory of the host; spins.
  // INTERNAL as Synchronize, and when all work is done and the flag was not raised.
  [[nodiscard]] virtual absl::Status AwaitFlag(const uint64_t* flag, uint64_t value) = 0;

  // Marks a moment in the work, for ElapsedSeconds: waits for the later of two marks. Not while
  // recording.
  [[nodiscard]] virtual int Mark() = 0;
  [[nodiscard]] virtual absl::StatusOr<double> ElapsedSeconds(int from, int to) = 0;
  virtual void ForgetMarks() = 0;

  // For kernels and libraries: the device's own stream; keeping an error code (0: none); and, in
  // the emulator alone, doing or recording something.
  [[nodiscard]] virtual void* native() = 0;
  virtual void Note(int error, const char* what) = 0;
  virtual void Do(std::function<void()> work) = 0;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_RUNTIME_RUNTIME_H_
