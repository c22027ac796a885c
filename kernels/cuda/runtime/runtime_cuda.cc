#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/runtime/current_device.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {
namespace {

constexpr int kLeastCapability = 80;
constexpr size_t kLeastBytes = 256;

// The GPU that OpenDevice chose.
std::atomic<int> process_device{-1};

// The text of `error`, which CUDA then forgets: a later question for the last one is about others.
std::string Text(cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return absl::StrCat(cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
}

int64_t Attribute(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, ordinal) != cudaSuccess) return 0;
  return value;
}

// A memory clock in kHz, data on both of its edges, over a bus of so many bits.
double BytesPerSecond(int ordinal) {
  const auto clock = static_cast<double>(Attribute(cudaDevAttrMemoryClockRate, ordinal));
  const auto bits = static_cast<double>(Attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal));
  return 2e3 * clock * bits / 8;
}

size_t MiB(size_t bytes) { return bytes >> 20; }

struct CudaGraph final : Graph {
  CudaGraph() = default;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    if (executable != nullptr) static_cast<void>(cudaGraphExecDestroy(executable));
  }

  cudaGraphExec_t executable = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() override {
    static_cast<void>(MakeCurrent());
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  void Copy(void* to, const void* from, size_t bytes) override {
    Enter();
    Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "a copy");
  }
  void Fill(void* to, uint8_t value, size_t bytes) override {
    Enter();
    Note(cudaMemsetAsync(to, value, bytes, stream_), "a fill");
  }

  void BeginRecording() override {
    CHECK(!recording_) << "one recording at a time";
    Enter();
    // Other threads may allocate meanwhile.
    Note(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "a recording's begin");
    recording_ = true;
  }
  absl::StatusOr<std::unique_ptr<Graph>> EndRecording() override;
  void Run(const Graph& graph) override {
    Enter();
    Note(cudaGraphLaunch(static_cast<const CudaGraph&>(graph).executable, stream_),
         "what was recorded");
  }

  absl::Status Synchronize() override {
    CHECK(!recording_) << "waiting for what is being recorded";
    Enter();
    Note(cudaStreamSynchronize(stream_), "the work on the GPU");
    return TakeNoted();
  }
  absl::Status AwaitFlag(const uint64_t* flag, uint64_t value) override;

  int Mark() override;
  absl::StatusOr<double> ElapsedSeconds(int from, int to) override;
  void ForgetMarks() override { marks_ = 0; }

  void* native() override {
    Enter();
    return stream_;
  }
  void Note(int error, const char* what) override {
    if (error == cudaSuccess) return;
    const std::string text = Text(static_cast<cudaError_t>(error));
    if (noted_.ok()) noted_ = absl::InternalError(absl::StrCat(what, " failed: ", text));
  }
  void Do(std::function<void()> /*work*/) override {
    CHECK(false) << "work of the host on a GPU's stream: that is for the emulator";
  }

 private:
  void Enter() { Note(MakeCurrent(), "choosing the GPU"); }
  // Sees to it that a wait for a flag ends: false when no flag can come any more.
  [[nodiscard]] bool StillRuns();
  [[nodiscard]] absl::Status TakeNoted() { return std::exchange(noted_, absl::OkStatus()); }

  const cudaStream_t stream_;
  absl::Status noted_;
  bool recording_ = false;
  std::vector<cudaEvent_t> events_;  // Of which the first `marks_` are in use.
  size_t marks_ = 0;
};

absl::StatusOr<std::unique_ptr<Graph>> CudaStream::EndRecording() {
  CHECK(recording_) << "nothing is being recorded";
  Enter();
  recording_ = false;
  cudaGraph_t graph = nullptr;
  Note(cudaStreamEndCapture(stream_, &graph), "a recording");
  auto recorded = std::make_unique<CudaGraph>();
  if (noted_.ok()) {
    Note(cudaGraphInstantiate(&recorded->executable, graph, 0), "making a recording ready");
  }
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  if (noted_.ok()) Note(cudaGraphUpload(recorded->executable, stream_), "loading a recording");
  RETURN_IF_ERROR(TakeNoted());
  return recorded;
}

bool CudaStream::StillRuns() {
  const cudaError_t state = cudaStreamQuery(stream_);
  if (state == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return true;
  }
  Note(state, "the work on the GPU");
  return false;
}

absl::Status CudaStream::AwaitFlag(const uint64_t* flag, uint64_t value) {
  constexpr int kSpins = 4096;  // A few hundred microseconds between two looks at the stream.
  CHECK(!recording_) << "waiting for what is being recorded";
  Enter();
  const auto raised = [&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) >= value; };
  for (;;) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (raised()) return TakeNoted();
      __builtin_ia32_pause();
    }
    if (StillRuns()) continue;
    RETURN_IF_ERROR(TakeNoted());
    if (raised()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the GPU has done its work and the flag is at ", *flag,
                                            " instead of ", value,
                                            ": nothing on the stream raises it"));
  }
}

int CudaStream::Mark() {
  CHECK(!recording_) << "marks are not recorded";
  Enter();
  if (marks_ == events_.size()) {
    cudaEvent_t event = nullptr;
    Note(cudaEventCreate(&event), "a mark");
    events_.push_back(event);
  }
  Note(cudaEventRecord(events_[marks_], stream_), "a mark");
  return static_cast<int>(marks_++);
}

absl::StatusOr<double> CudaStream::ElapsedSeconds(int from, int to) {
  CHECK(std::min(from, to) >= 0 && static_cast<size_t>(std::max(from, to)) < marks_)
      << "marks " << from << " and " << to << " of " << marks_;
  Enter();
  float milliseconds = 0;
  cudaError_t error = cudaEventSynchronize(events_[std::max(from, to)]);
  if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, events_[from], events_[to]);
  if (error != cudaSuccess) {
    return absl::InternalError(absl::StrCat("the work between two marks failed: ", Text(error)));
  }
  return static_cast<double>(milliseconds) * 1e-3;
}

absl::Status NoRoom(size_t bytes, const char* what, size_t free, cudaError_t error) {
  const std::string wanted = absl::StrCat(MiB(bytes), " MiB for ", what);
  if (error != cudaErrorMemoryAllocation) {
    return absl::InternalError(absl::StrCat("no memory, ", wanted, ": ", Text(error)));
  }
  static_cast<void>(cudaGetLastError());
  return absl::ResourceExhaustedError(
      absl::StrCat(wanted, " wanted, ", MiB(free), " MiB are free"));
}

}  // namespace

int ProcessDevice() {
  const int device = process_device.load(std::memory_order_relaxed);
  CHECK_GE(device, 0) << "OpenDevice comes first";
  return device;
}

cudaError_t MakeCurrent() {
  thread_local int current = -1;
  const int device = ProcessDevice();
  if (current == device) return cudaSuccess;
  const cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) current = device;
  return error;
}

absl::StatusOr<DeviceInfo> OpenDevice(int ordinal) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    return absl::UnavailableError(absl::StrCat(Text(error),
                                               ": is there an NVIDIA GPU, and a driver for CUDA ",
                                               CUDART_VERSION / 1000, "? nvidia-smi says which"));
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(absl::StrCat("GPU ", ordinal, " of ", count,
                                               ": they are counted from 0, and CUDA_VISIBLE_DEVICES"
                                               " may hide some"));
  }
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) {
    return absl::UnavailableError(absl::StrCat("GPU ", ordinal, ": ", Text(error)));
  }
  DeviceInfo info;
  info.name = properties.name;
  info.uuid.assign(properties.uuid.bytes, sizeof properties.uuid.bytes);
  info.ordinal = ordinal;
  info.capability = 10 * properties.major + properties.minor;
  if (info.capability < kLeastCapability) {
    return absl::FailedPreconditionError(
        absl::StrCat(info.name, " has compute capability ", properties.major, ".", properties.minor,
                     ": the kernels need ", kLeastCapability / 10, ".0 (A100) or newer"));
  }
  process_device.store(ordinal, std::memory_order_relaxed);
  error = MakeCurrent();
  if (error == cudaSuccess) error = cudaMemGetInfo(&info.free_bytes, &info.memory_bytes);
  if (error != cudaSuccess) {
    return absl::UnavailableError(
        absl::StrCat(info.name, ": ", Text(error), ": does another process keep it?"));
  }
  info.multiprocessors = properties.multiProcessorCount;
  info.cache_bytes = static_cast<size_t>(properties.l2CacheSize);
  info.bytes_per_second = BytesPerSecond(ordinal);
  return info;
}

// What fails here was told by the stream whose work failed, or is the process's end: the runtime
// may be gone before a static object, and the driver has then taken the memory back.
Memory::~Memory() {
  if (data_ == nullptr || mapping_ != nullptr || MakeCurrent() != cudaSuccess) return;
  if ((on_host_ ? cudaFreeHost(data_) : cudaFree(data_)) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
}

absl::StatusOr<Memory> Memory::OnDevice(size_t bytes, const char* what) {
  void* data = nullptr;
  cudaError_t error = MakeCurrent();
  if (error == cudaSuccess) error = cudaMalloc(&data, std::max(bytes, kLeastBytes));
  if (error != cudaSuccess) {
    size_t free = 0, all = 0;
    static_cast<void>(cudaMemGetInfo(&free, &all));
    return NoRoom(bytes, what, free, error);
  }
  Memory memory(data, bytes, /*on_host=*/false);
  // Streams of ours do not wait for the default one, which this goes to.
  error = cudaMemset(data, 0, std::max(bytes, kLeastBytes));
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
  if (error != cudaSuccess) return NoRoom(bytes, what, 0, error);
  return memory;
}

absl::StatusOr<Memory> Memory::OnHost(size_t bytes, const char* what) {
  void* data = nullptr;
  cudaError_t error = MakeCurrent();
  if (error == cudaSuccess) {
    error = cudaHostAlloc(&data, std::max(bytes, kLeastBytes),
                          cudaHostAllocMapped | cudaHostAllocPortable);
  }
  if (error != cudaSuccess) {
    const auto free = static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    return NoRoom(bytes, what, free, error);
  }
  std::memset(data, 0, std::max(bytes, kLeastBytes));
  return Memory(data, bytes, /*on_host=*/true);
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create() {
  cudaStream_t stream = nullptr;
  cudaError_t error = MakeCurrent();
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) {
    return absl::InternalError(absl::StrCat("no stream on the GPU: ", Text(error)));
  }
  return std::make_unique<CudaStream>(stream);
}

}  // namespace bastion::kernels::cuda
