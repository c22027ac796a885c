#include "engine/host/host_device.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/machine_memory.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "engine/host/accept.h"
#include "engine/host/host_activations.h"
#include "engine/host/host_logits.h"
#include "engine/host/kv_compaction.h"
#include "engine/host/streaming_attention.h"
#include "engine/model/streaming_window.h"
#include "kernels/ops/probe.h"

namespace bastion::nn {
namespace {

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown CPU";
}

// Measures once for all engines of a process with this many threads: they share one machine.
DevicePeaks PeaksOfMachine(const HostKernels& host, WeightFormat format) {
  using Key = std::tuple<const kernels::Backend*, WeightFormat, int>;
  static Mutex mutex;
  static auto* const measured = new std::map<Key, DevicePeaks>();
  const MutexLock lock(&mutex);
  const auto [entry, is_new] =
      measured->try_emplace(Key(host.backend, format, host.pool->threads()));
  if (is_new) {
    entry->second = {kernels::ReadBandwidth(*host.pool),
                     kernels::LinearRate(*host.backend, format, *host.pool)};
  }
  return entry->second;
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostKernels& host) : Device(host) {}

  std::string Describe() const override {
    return absl::StrCat(ProcessorName(), ", ", host().pool->threads(), " threads, ",
                        host().backend->describe());
  }
  std::string DescribeSums(const Formats& /*formats*/) const override { return ""; }
  bool on_host() const override { return true; }
  absl::Status Supports(const hub::ModelConfig& config,
                        const EngineOptions& options) const override;
  DType input_type(DType) const override { return DType::kF32; }
  DevicePeaks MeasurePeaks(const Matrix& matrix) override {
    return PeaksOfMachine(host(), matrix.format);
  }

  absl::StatusOr<Buffer> Allocate(size_t bytes, const char* what, Paging paging) override;
  absl::StatusOr<Buffer> AllocateOnHost(size_t bytes, const char* what) override {
    return Allocate(bytes, what, Paging::kSmall);
  }
  absl::StatusOr<SharedMemory> AllocateShared(size_t, const char*) override {
    return absl::UnimplementedError("a CPU shares no memory with drafters in this way");
  }
  std::unique_ptr<DeviceReader> MakeReader(DType) const override { return nullptr; }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (to != from && bytes > 0) std::memcpy(to, from, bytes);
  }

  size_t MatrixBytes(WeightFormat format, int rows, int columns) const override {
    return kernels::PackedMatrix{format, rows, columns}.bytes();
  }
  bool IsTable(const Formats&) const override { return false; }
  absl::Status Pack(absl::Span<const kernels::SourceMatrix> parts, const Matrix& to,
                    int index) override {
    kernels::PackMatrix(parts, {to.format, to.rows, to.columns, to.data(index)}, *host().pool);
    return absl::OkStatus();
  }
  absl::Status Convert(const kernels::SourceMatrix& from, Elements elements, DType type,
                       void* to) override {
    kernels::ConvertElements(from, elements.first, elements.count, type, to);
    return absl::OkStatus();
  }
  int64_t available_bytes() const override { return AvailableMemory(); }

  absl::StatusOr<std::unique_ptr<Activations>> CreateActivations(const hub::ModelConfig& config,
                                                                 const EngineOptions& options,
                                                                 const StepCapacity&) override {
    return std::make_unique<HostActivations>(host(), config, options.streaming);
  }
  absl::StatusOr<std::unique_ptr<Logits>> CreateLogits(int, int vocabulary) override {
    return std::make_unique<HostLogits>(host(), vocabulary);
  }
  void Walk(const kernels::Rows& rows, const WalkArgs& args) override { AcceptTrees(rows, args); }
  void Commit(const kernels::Rows& rows, const CommitArgs& args) override {
    CommitRows(host(), rows, args);
  }

  bool records() const override { return false; }
  absl::Status Run(const Key&, absl::FunctionRef<void()> put) override {
    put();
    return absl::OkStatus();
  }
  void Forget(const void*) override {}
  absl::Status Finish() override { return absl::OkStatus(); }
  void Raise(const uint64_t*, uint64_t*) override {}
  absl::Status Await(const uint64_t*, uint64_t) override { return absl::OkStatus(); }
  int Mark() override {
    marks_.push_back(absl::Now());
    return static_cast<int>(marks_.size()) - 1;
  }
  absl::StatusOr<double> Seconds(int from, int to) override {
    return absl::ToDoubleSeconds(marks_[to] - marks_[from]);
  }
  void ForgetMarks() override { marks_.clear(); }
  void Wake() override { host().pool->Wake(); }
  void Rest() override { host().pool->Rest(); }

 private:
  std::vector<absl::Time> marks_;
};

absl::Status HostDevice::Supports(const hub::ModelConfig& config,
                                  const EngineOptions& options) const {
  if (config.dims.head_dim % kernels::kWidest != 0 || config.dims.head_dim > 512) {
    return absl::UnimplementedError(
        absl::StrCat("head_dim is ", config.dims.head_dim,
                     "; this engine supports only multiples of 16 up to 512"));
  }
  return CheckStreaming(config, options.streaming);
}

absl::StatusOr<Buffer> HostDevice::Allocate(size_t bytes, const char* what, Paging paging) {
  constexpr size_t kSmall = 4096;  // Bytes that are not worth pages of their own.
  try {
    if (bytes >= kSmall) return Buffer::Pages(bytes, paging);
    Buffer buffer = Buffer::Allocate(bytes);
    if (bytes > 0) std::memset(buffer.data(), 0, bytes);
    return buffer;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes >> 20, " MB of memory for ", what));
  }
}

}  // namespace

std::shared_ptr<Device> MakeHostDevice(const kernels::Backend& backend, kernels::ThreadPool& pool) {
  return std::make_shared<HostDevice>(HostKernels{&backend, &pool});
}

}  // namespace bastion::nn
