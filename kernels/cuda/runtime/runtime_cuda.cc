#include <cuda.h>
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
#include "kernels/cuda/runtime/tensor_map.h"

namespace bastion::kernels::cuda {
namespace {

constexpr int kMinCapability = 80;
constexpr size_t kMinBytes = 256;

// The GPU that OpenDevice chose.
std::atomic<int> process_device{-1};

// The text of `error`. Also clears CUDA's last error, so that later calls of cudaGetLastError do
// not return it again.
std::string Text(cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return absl::StrCat(cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
}

// True if every further call of this process fails, as the documentation of CUDA says of the error.
bool EndsContext(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

int64_t Attribute(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, ordinal) != cudaSuccess) return 0;
  return value;
}

// The peak memory bandwidth: the clock in kHz, two transfers per cycle, over a bus of `bits` bits.
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
  CudaStream(cudaStream_t stream, bool overlaps) : stream_(stream), overlaps_(overlaps) {}
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() override {
    static_cast<void>(MakeCurrent());
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  void Copy(void* to, const void* from, size_t bytes) override {
    Enter();
    ReportError(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "a memory copy");
  }
  void Fill(void* to, uint8_t value, size_t bytes) override {
    Enter();
    ReportError(cudaMemsetAsync(to, value, bytes, stream_), "a memory fill");
  }

  void BeginRecording() override {
    CHECK(!recording_) << "end the current recording before you begin another";
    Enter();
    // ThreadLocal: other threads may allocate memory during the recording.
    ReportError(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                "starting a recording");
    recording_ = true;
  }
  absl::StatusOr<std::unique_ptr<Graph>> EndRecording() override;
  void Run(const Graph& graph) override {
    Enter();
    ReportError(cudaGraphLaunch(static_cast<const CudaGraph&>(graph).executable, stream_),
                "launching a recorded graph");
  }

  absl::Status Synchronize() override {
    CHECK(!recording_) << "cannot wait for a stream that is being recorded";
    Enter();
    ReportError(cudaStreamSynchronize(stream_), "work on the GPU");
    return TakeError();
  }
  absl::Status AwaitFlag(const uint64_t* flag, uint64_t value) override;

  int Mark() override;
  absl::StatusOr<double> ElapsedSeconds(int from, int to) override;
  void ForgetMarks() override { marks_ = 0; }

  bool follows_kernel() const override { return overlaps_ && last_is_kernel_; }
  void NoteKernel() override { last_is_kernel_ = true; }
  void* native() override {
    Enter();
    return stream_;
  }
  void ReportError(int error, const char* what) override {
    if (error == cudaSuccess) return;
    const absl::Status failed = Failure(static_cast<cudaError_t>(error), what);
    if (error_.ok()) error_ = failed;
  }
  void AddHostWork(std::function<void()> /*work*/) override {
    CHECK(false) << "only the emulator can run host code on a stream";
  }

 private:
  // Comes before all work that is put on the stream.
  void Enter() {
    ReportError(MakeCurrent(), "selecting the GPU");
    last_is_kernel_ = false;
  }
  // The status for `error`. Ends the process if it cannot use the GPU anymore.
  [[nodiscard]] static absl::Status Failure(cudaError_t error, const char* what) {
    const std::string text = absl::StrCat(what, " failed: ", Text(error));
    if (EndsContext(error)) {
      LOG(FATAL) << text << ". This process cannot use the GPU anymore; start it again";
    }
    return absl::InternalError(text);
  }
  // Returns false if all work is done or any work failed; then no flag can be raised anymore.
  [[nodiscard]] bool IsBusy();
  [[nodiscard]] absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

  const cudaStream_t stream_;
  const bool overlaps_;  // The device can start a kernel before the one before it is over.
  bool last_is_kernel_ = false;
  absl::Status error_;
  bool recording_ = false;
  std::vector<cudaEvent_t> events_;  // The first `marks_` events are in use.
  size_t marks_ = 0;
};

absl::StatusOr<std::unique_ptr<Graph>> CudaStream::EndRecording() {
  CHECK(recording_) << "nothing is being recorded";
  Enter();
  recording_ = false;
  cudaGraph_t graph = nullptr;
  ReportError(cudaStreamEndCapture(stream_, &graph), "ending a recording");
  auto recorded = std::make_unique<CudaGraph>();
  if (error_.ok()) {
    ReportError(cudaGraphInstantiate(&recorded->executable, graph, 0), "instantiating a graph");
  }
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  if (error_.ok()) ReportError(cudaGraphUpload(recorded->executable, stream_), "uploading a graph");
  RETURN_IF_ERROR(TakeError());
  return recorded;
}

bool CudaStream::IsBusy() {
  const cudaError_t state = cudaStreamQuery(stream_);
  if (state == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return true;
  }
  ReportError(state, "work on the GPU");
  return false;
}

absl::Status CudaStream::AwaitFlag(const uint64_t* flag, uint64_t value) {
  constexpr int kSpins = 4096;  // A few hundred microseconds between two queries of the stream.
  CHECK(!recording_) << "cannot wait for a stream that is being recorded";
  Enter();
  const auto raised = [&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) >= value; };
  for (;;) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (raised()) return TakeError();
      __builtin_ia32_pause();
    }
    if (IsBusy()) continue;
    RETURN_IF_ERROR(TakeError());
    if (raised()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("all work on the GPU is done, but the flag is ", *flag,
                                            " instead of ", value,
                                            ": no work on the stream raised it"));
  }
}

int CudaStream::Mark() {
  CHECK(!recording_) << "Mark must not be called while recording";
  Enter();
  if (marks_ == events_.size()) {
    cudaEvent_t event = nullptr;
    ReportError(cudaEventCreate(&event), "creating an event");
    events_.push_back(event);
  }
  ReportError(cudaEventRecord(events_[marks_], stream_), "recording an event");
  return static_cast<int>(marks_++);
}

absl::StatusOr<double> CudaStream::ElapsedSeconds(int from, int to) {
  CHECK(std::min(from, to) >= 0 && static_cast<size_t>(std::max(from, to)) < marks_)
      << "there are " << marks_ << " marks; got the indices " << from << " and " << to;
  Enter();
  float milliseconds = 0;
  cudaError_t error = cudaEventSynchronize(events_[std::max(from, to)]);
  if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, events_[from], events_[to]);
  if (error != cudaSuccess) return Failure(error, "work between two marks");
  return static_cast<double>(milliseconds) * 1e-3;
}

absl::Status AllocationError(size_t bytes, const char* what, size_t free, cudaError_t error) {
  const std::string wanted = absl::StrCat(MiB(bytes), " MiB needed for ", what);
  if (error != cudaErrorMemoryAllocation) {
    return absl::InternalError(
        absl::StrCat("memory allocation failed: ", Text(error), ", ", wanted));
  }
  static_cast<void>(cudaGetLastError());
  return absl::ResourceExhaustedError(
      absl::StrCat("not enough memory: ", MiB(free), " MiB free, ", wanted));
}

}  // namespace

int ProcessDevice() {
  const int device = process_device.load(std::memory_order_relaxed);
  CHECK_GE(device, 0) << "call OpenDevice first";
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
    return absl::UnavailableError(absl::StrCat("cannot use CUDA: ", Text(error),
                                               "; check with nvidia-smi that there is an NVIDIA GPU"
                                               " with a driver for CUDA ",
                                               CUDART_VERSION / 1000));
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(absl::StrCat("there is no GPU ", ordinal, ": ", count,
                                               " GPUs are visible, numbered from 0;"
                                               " CUDA_VISIBLE_DEVICES may hide some"));
  }
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) {
    return absl::UnavailableError(absl::StrCat("GPU ", ordinal, ": ", Text(error)));
  }
  DeviceInfo info;
  info.name = properties.name;
  info.uuid.assign(properties.uuid.bytes, sizeof properties.uuid.bytes);
  info.peers = FindPeers(ordinal);
  info.ordinal = ordinal;
  info.capability = 10 * properties.major + properties.minor;
  info.family = absl::StrCat("cuda-sm", info.capability);
  if (info.capability < kMinCapability) {
    return absl::FailedPreconditionError(
        absl::StrCat(info.name, " has compute capability ", properties.major, ".", properties.minor,
                     "; the kernels need ", kMinCapability / 10, ".0 (A100) or later"));
  }
  process_device.store(ordinal, std::memory_order_relaxed);
  error = MakeCurrent();
  if (error == cudaSuccess) error = cudaMemGetInfo(&info.free_bytes, &info.memory_bytes);
  if (error != cudaSuccess) {
    return absl::UnavailableError(absl::StrCat("cannot use ", info.name, ": ", Text(error),
                                               "; another process may occupy it"));
  }
  info.multiprocessors = properties.multiProcessorCount;
  info.cache_bytes = static_cast<size_t>(properties.l2CacheSize);
  info.shared_bytes = properties.sharedMemPerBlockOptin;
  info.bytes_per_second = BytesPerSecond(ordinal);
  return info;
}

// The program does not link libcuda, so it asks the runtime for the driver's function.
TensorMap MakeTensorMap(const TensorBox& box) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                               12000, cudaEnableDefault, &found);
    CHECK(error == cudaSuccess && found == cudaDriverEntryPointSuccess)
        << "the GPU driver has no cuTensorMapEncodeTiled; update it to one for CUDA 12 or later";
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  TensorMap map;
  static_assert(sizeof map == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
  cuuint64_t sizes[TensorBox::kMaxRank], strides[TensorBox::kMaxRank - 1];
  cuuint32_t tile[TensorBox::kMaxRank], steps[TensorBox::kMaxRank];
  for (int d = 0; d < box.rank; ++d) {
    sizes[d] = static_cast<cuuint64_t>(box.sizes[d]);
    tile[d] = static_cast<cuuint32_t>(box.box[d]);
    steps[d] = 1;
    if (d > 0) strides[d - 1] = static_cast<cuuint64_t>(box.strides[d]);
  }
  const CUresult result =
      encode(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, box.rank,
             const_cast<void*>(box.base), sizes, strides, tile, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK_EQ(result, CUDA_SUCCESS) << "cuTensorMapEncodeTiled refused a tensor of " << box.sizes[1]
                                 << " rows of " << box.sizes[0];
  return map;
}

// Ignores errors. Either a stream has already reported the error, or the process is exiting: the
// CUDA runtime may be destroyed before a static Memory object, and then the driver has already
// freed the memory.
Memory::~Memory() {
  if (data_ == nullptr || mapping_ != nullptr || MakeCurrent() != cudaSuccess) return;
  if ((on_host_ ? cudaFreeHost(data_) : cudaFree(data_)) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
}

absl::StatusOr<Memory> Memory::OnDevice(size_t bytes, const char* what) {
  void* data = nullptr;
  cudaError_t error = MakeCurrent();
  if (error == cudaSuccess) error = cudaMalloc(&data, std::max(bytes, kMinBytes));
  if (error != cudaSuccess) {
    size_t free = 0, all = 0;
    static_cast<void>(cudaMemGetInfo(&free, &all));
    return AllocationError(bytes, what, free, error);
  }
  Memory memory(data, bytes, /*on_host=*/false);
  // cudaMemset runs on the default stream, which our non-blocking streams do not wait for.
  error = cudaMemset(data, 0, std::max(bytes, kMinBytes));
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
  if (error != cudaSuccess) return AllocationError(bytes, what, 0, error);
  return memory;
}

absl::StatusOr<Memory> Memory::OnHost(size_t bytes, const char* what) {
  void* data = nullptr;
  cudaError_t error = MakeCurrent();
  if (error == cudaSuccess) {
    error = cudaHostAlloc(&data, std::max(bytes, kMinBytes),
                          cudaHostAllocMapped | cudaHostAllocPortable);
  }
  if (error != cudaSuccess) {
    const auto free = static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    return AllocationError(bytes, what, free, error);
  }
  std::memset(data, 0, std::max(bytes, kMinBytes));
  return Memory(data, bytes, /*on_host=*/true);
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create() {
  cudaStream_t stream = nullptr;
  cudaError_t error = MakeCurrent();
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) {
    return absl::InternalError(absl::StrCat("cannot create a CUDA stream: ", Text(error)));
  }
  const int64_t major = Attribute(cudaDevAttrComputeCapabilityMajor, ProcessDevice());
  return std::make_unique<CudaStream>(stream, /*overlaps=*/major >= 9);
}

}  // namespace bastion::kernels::cuda
