#include "engine/cuda/cuda_device.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "engine/cuda/cuda_activations.h"
#include "engine/cuda/cuda_logits.h"
#include "engine/cuda/products.h"
#include "engine/model/streaming_window.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::nn {
namespace {

using kernels::cuda::Graph;
using kernels::cuda::Memory;

Buffer BufferOf(Memory memory) {
  const auto owner = std::make_shared<const Memory>(std::move(memory));
  return Buffer::Borrow(owner->as<void>(), owner);
}

class CudaDevice final : public Device {
 public:
  CudaDevice(Gpu gpu, const HostKernels& host) : Device(host), gpu_(std::move(gpu)) {}

  std::string Describe() const override { return gpu_.info.name; }
  std::string DescribeSums(const Formats& formats) const override {
    const bool exact = gpu_.products->AreExact(formats);
    return absl::StrCat(gpu_.info.family, "-", exact ? "exact" : "cublaslt");
  }
  bool on_host() const override { return false; }
  absl::Status Supports(const hub::ModelConfig& config,
                        const EngineOptions& options) const override;
  DType input_type(DType activations) const override { return activations; }
  DevicePeaks MeasurePeaks(const Matrix& matrix) override;

  absl::StatusOr<Buffer> Allocate(size_t bytes, const char* what, Paging) override {
    ASSIGN_OR_RETURN(Memory memory, Memory::OnDevice(bytes, what));
    return BufferOf(std::move(memory));
  }
  absl::StatusOr<Buffer> AllocateOnHost(size_t bytes, const char* what) override {
    ASSIGN_OR_RETURN(Memory memory, Memory::OnHost(bytes, what));
    return BufferOf(std::move(memory));
  }
  absl::StatusOr<SharedMemory> AllocateShared(size_t bytes, const char* what) override;
  std::unique_ptr<DeviceReader> MakeReader(DType type) const override;
  void Copy(void* to, const void* from, size_t bytes) override {
    gpu_.stream->Copy(to, from, bytes);
  }

  size_t MatrixBytes(WeightFormat format, int rows, int columns) const override {
    return Products::MatrixBytes(format, rows, columns);
  }
  bool IsTable(const Formats& formats) const override {
    return formats.weights == UnquantizedFormat(formats) && Products::Support(formats).ok();
  }
  absl::Status Pack(absl::Span<const kernels::SourceMatrix> parts, const Matrix& to,
                    int index) override {
    return gpu_.products->Pack(parts, to, index);
  }
  absl::Status Convert(const kernels::SourceMatrix& from, Elements elements, DType type,
                       void* to) override {
    return gpu_.products->Convert(from, elements, type, to);
  }
  int64_t available_bytes() const override { return 0; }  // An allocation that fails says it.

  absl::StatusOr<std::unique_ptr<Activations>> CreateActivations(
      const hub::ModelConfig& config, const EngineOptions& options,
      const StepCapacity& capacity) override {
    return CudaActivations::Create(config, options, capacity, gpu_);
  }
  absl::StatusOr<std::unique_ptr<Logits>> CreateLogits(int rows, int vocabulary) override {
    return CudaLogits::Create(rows, vocabulary, *gpu_.stream);
  }
  void Walk(const kernels::Rows& rows, const WalkArgs& args) override {
    kernels::cuda::Walk(
        {rows, args.choices, args.results, args.paths, args.host_results, args.host_paths},
        *gpu_.stream);
  }
  void Commit(const kernels::Rows& rows, const CommitArgs& args) override;

  bool records() const override { return true; }
  absl::Status Run(const Key& key, absl::FunctionRef<void()> put) override;
  void Forget(const void* owner) override {
    std::erase_if(graphs_, [&](const auto& graph) { return graph.first.owner == owner; });
  }
  absl::Status Finish() override { return gpu_.stream->Synchronize(); }
  void Raise(const uint64_t* value, uint64_t* flag) override {
    kernels::cuda::RaiseFlag({value, flag}, *gpu_.stream);
  }
  absl::Status Await(const uint64_t* flag, uint64_t value) override {
    return gpu_.stream->AwaitFlag(flag, value);
  }
  int Mark() override { return gpu_.stream->Mark(); }
  absl::StatusOr<double> Seconds(int from, int to) override {
    return gpu_.stream->ElapsedSeconds(from, to);
  }
  void ForgetMarks() override { gpu_.stream->ForgetMarks(); }

 private:
  Gpu gpu_;
  std::map<Key, std::unique_ptr<Graph>> graphs_;
};

absl::Status CudaDevice::Supports(const hub::ModelConfig& config,
                                  const EngineOptions& options) const {
  RETURN_IF_ERROR(Products::Support(options.formats));
  RETURN_IF_ERROR(CheckStreaming(config, options.streaming));
  return CheckKernelsSupport(config);
}

absl::StatusOr<SharedMemory> CudaDevice::AllocateShared(size_t bytes, const char* what) {
  ASSIGN_OR_RETURN(Memory memory, Memory::OnDeviceShareable(gpu_.info, bytes, what));
  ASSIGN_OR_RETURN(const int descriptor, memory.ExportDescriptor());
  return SharedMemory{BufferOf(std::move(memory)), descriptor};
}

std::unique_ptr<DeviceReader> CudaDevice::MakeReader(DType type) const {
  const auto import =
      [device =
           gpu_.info](const ExportedMemory& from) -> absl::StatusOr<std::shared_ptr<const char>> {
    ASSIGN_OR_RETURN(Memory memory,
                     Memory::Import({from.descriptor, from.bytes, from.uuid}, device));
    const auto shared = std::make_shared<const Memory>(std::move(memory));
    return std::shared_ptr<const char>(shared, shared->as<char>());
  };
  return std::make_unique<DeviceReader>(
      DeviceReader{gpu_.info.uuid, type, import, gpu_.info.peers});
}

void CudaDevice::Commit(const kernels::Rows& rows, const CommitArgs& args) {
  kernels::cuda::CommitArgs commit;
  commit.rows = rows;
  commit.results = args.walk.results;
  commit.paths = args.walk.paths;
  commit.dtype = args.type;
  commit.features = args.features;
  commit.kept_features = args.kept;
  commit.feature_width = args.feature_width;
  if (args.cache != nullptr) {
    commit.layers = args.cache->table();
    commit.layer_count = args.cache->shape().layers;
    commit.kv_heads = args.cache->shape().kv_heads;
    commit.head_dim = args.cache->shape().head_dim;
  }
  kernels::cuda::Commit(commit, *gpu_.stream);
}

// Steps prepare all their keys at startup, so the first call for a key only records it.
absl::Status CudaDevice::Run(const Key& key, absl::FunctionRef<void()> put) {
  const auto known = graphs_.find(key);
  if (known != graphs_.end()) {
    gpu_.stream->Run(*known->second);
    return absl::OkStatus();
  }
  const auto next = graphs_.lower_bound({key.owner, key.kind, 0});
  const bool first =
      next == graphs_.end() || next->first.owner != key.owner || next->first.kind != key.kind;
  // The first pass notes the products. It runs for the first key of a kind, because CUDA loads the
  // code of a kernel at its first launch; else it is recorded and forgotten.
  gpu_.products->Collect();
  if (!first) gpu_.stream->BeginRecording();
  put();
  if (!first) {
    RETURN_IF_ERROR(gpu_.stream->EndRecording().status());
  }
  RETURN_IF_ERROR(gpu_.products->Tune());
  RETURN_IF_ERROR(gpu_.stream->Synchronize());
  gpu_.stream->BeginRecording();
  put();
  ASSIGN_OR_RETURN(graphs_[key], gpu_.stream->EndRecording());
  return absl::OkStatus();
}

DevicePeaks CudaDevice::MeasurePeaks(const Matrix& matrix) {
  constexpr int kTimes = 10, kRows = 512;
  const double none = 0;
  const auto x = Memory::OnDevice(size_t{kRows} * matrix.columns * sizeof(float), "a measurement");
  const auto y = Memory::OnDevice(size_t{kRows} * matrix.rows * sizeof(float), "a measurement");
  if (!x.ok() || !y.ok()) return {gpu_.info.bytes_per_second, none};
  const Products::Rows rows = {x->as<void>(), y->as<float>(), kRows};
  gpu_.products->Collect();
  gpu_.products->Multiply(matrix, rows);
  if (!gpu_.products->Tune().ok()) return {gpu_.info.bytes_per_second, none};
  double seconds = 0;
  for (int round = 0; round < 2; ++round) {  // The first is a warm-up.
    gpu_.stream->ForgetMarks();
    const int begin = gpu_.stream->Mark();
    for (int i = 0; i < kTimes; ++i) gpu_.products->Multiply(matrix, rows);
    const auto elapsed = gpu_.stream->ElapsedSeconds(begin, gpu_.stream->Mark());
    seconds = elapsed.ok() ? *elapsed / kTimes : 0;
  }
  const double flops = 2.0 * kRows * matrix.rows * matrix.columns;
  return {gpu_.info.bytes_per_second, seconds > 0 ? flops / seconds : none};
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(const GpuOptions& options,
                                                       const HostKernels& host) {
  Gpu gpu;
  ASSIGN_OR_RETURN(gpu.info, kernels::cuda::OpenDevice(options.ordinal));
  ASSIGN_OR_RETURN(gpu.stream, kernels::cuda::Stream::Create());
  ASSIGN_OR_RETURN(gpu.products, Products::Create(options, gpu.info, *gpu.stream));
  return std::make_shared<CudaDevice>(std::move(gpu), host);
}

}  // namespace bastion::nn
