// The interface between the CUDA engine and a GPU, without CUDA headers: device memory, streams,
// and graphs of recorded work. There are two implementations: runtime_cuda.cc, and
// runtime_emulated.cc for tests on a CPU. In the emulator, device memory is host memory, and a
// stream does its work immediately. It plays two GPUs (emulated_gpus.h).
#ifndef BASTION_KERNELS_CUDA_RUNTIME_RUNTIME_H_
#define BASTION_KERNELS_CUDA_RUNTIME_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bastion::kernels::cuda {

struct DeviceInfo {
  std::string name;  // "NVIDIA H100 80GB HBM3".
  std::string uuid;  // 16 bytes, the same in every process.
  // UUIDs of the other GPUs that this process sees and whose memory this one can read.
  std::vector<std::string> peers;
  int ordinal = 0;
  int capability = 0;  // 90 is compute capability 9.0.
  // Devices of one family give a kernel the same bits: "cuda-sm90", or "emulated".
  std::string family;
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t free_bytes = 0;
  size_t cache_bytes = 0;       // L2.
  size_t shared_bytes = 0;      // Shared memory that a block may use.
  double bytes_per_second = 0;  // Memory bandwidth from clock and bus width. 0: unknown.
};

// Makes GPU `ordinal` the GPU of this process. UNAVAILABLE if there is no driver or no such GPU.
// FAILED_PRECONDITION if the GPU is too old for the kernels.
[[nodiscard]] absl::StatusOr<DeviceInfo> OpenDevice(int ordinal);

// Device memory, or host memory that the device can access. Zeroed and aligned to 256 bytes.
// Movable.
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

  // RESOURCE_EXHAUSTED if there is not enough memory; the message names `what`, the size needed and
  // the size available.
  [[nodiscard]] static absl::StatusOr<Memory> OnDevice(size_t bytes, const char* what);
  // Page-locked host memory. The device accesses it at the same address.
  [[nodiscard]] static absl::StatusOr<Memory> OnHost(size_t bytes, const char* what);

  // Memory of `device` that another process can import and read. It shares no allocation with other
  // memory. UNIMPLEMENTED if the driver cannot share memory.
  [[nodiscard]] static absl::StatusOr<Memory> OnDeviceShareable(const DeviceInfo& device,
                                                                size_t bytes, const char* what);
  // Returns a file descriptor of the memory, to be sent to the other process. The caller closes it.
  // REQUIRES: OnDeviceShareable allocated this memory.
  [[nodiscard]] absl::StatusOr<int> ExportDescriptor() const;
  // Memory that another process exported.
  struct Exported {
    int descriptor = -1;  // The caller of Import still owns it.
    size_t bytes = 0;
    std::string uuid;  // UUID of the GPU whose memory it is.
  };
  // Maps `exported` read-only, for `device`. The memory stays valid after the other process exits.
  // UNAVAILABLE if the memory cannot be mapped, for example because it is on a GPU that is no peer
  // of `device`, or on another MIG partition.
  [[nodiscard]] static absl::StatusOr<Memory> Import(const Exported& exported,
                                                     const DeviceInfo& device);

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
  std::shared_ptr<const Mapping> mapping_;  // Owns shared memory; null for other memory.
};

// Recorded work that can be run repeatedly. Every run reads and writes the same memory.
class Graph {
 public:
  virtual ~Graph() = default;
};

// A queue of work for the device. The device executes it in order, while the host continues. The
// next Synchronize() or AwaitFlag() returns the first error. Not thread-safe, but not tied to one
// thread.
class Stream {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Stream>> Create();
  virtual ~Stream() = default;

  // Copies between any two addresses in host or device memory.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  virtual void Fill(void* to, uint8_t value, size_t bytes) = 0;

  // Until EndRecording, work that this thread puts on the stream is recorded, not executed. Run
  // each kernel once before recording it, because CUDA loads the code of a kernel at its first
  // launch.
  virtual void BeginRecording() = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<Graph>> EndRecording() = 0;
  virtual void Run(const Graph& graph) = 0;

  // Waits for all work on the stream. INTERNAL if any work failed since the last call.
  [[nodiscard]] virtual absl::Status Synchronize() = 0;
  // Spins until the device has stored `value` or more at `flag`, which is host memory. INTERNAL if
  // any work failed, or if all work is done and the flag was not raised.
  [[nodiscard]] virtual absl::Status AwaitFlag(const uint64_t* flag, uint64_t value) = 0;

  // Mark records a point in time on the stream and returns its index. ElapsedSeconds waits for the
  // later of two marks and returns the time between them. Neither may be called while recording.
  // ForgetMarks discards all marks.
  [[nodiscard]] virtual int Mark() = 0;
  [[nodiscard]] virtual absl::StatusOr<double> ElapsedSeconds(int from, int to) = 0;
  virtual void ForgetMarks() = 0;

  // Whether a kernel that is put on the stream now may start before the work in front of it is
  // over. It may if the device can do that, and NoteKernel was called after that work.
  [[nodiscard]] virtual bool follows_kernel() const = 0;
  virtual void NoteKernel() = 0;

  // For kernels and libraries. native() returns the CUDA stream. ReportError passes a CUDA error
  // code to the next wait; it ignores 0, which means no error. It aborts the process after an error
  // that makes the GPU useless to it, such as access to a wrong address. AddHostWork executes or
  // records host code; only the emulator supports it.
  [[nodiscard]] virtual void* native() = 0;
  virtual void ReportError(int error, const char* what) = 0;
  virtual void AddHostWork(std::function<void()> work) = 0;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_RUNTIME_RUNTIME_H_
