#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/runtime/emulated_gpus.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/cuda/runtime/tensor_map.h"

namespace bastion::kernels::cuda {
namespace {

std::atomic<emulator::PeerAccess> peer_access{emulator::PeerAccess::kWorks};
std::atomic<int64_t> synchronizations{0};

struct RecordedWork final : Graph {
  std::vector<std::function<void()>> work;
};

class EmulatedStream final : public Stream {
 public:
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;  // Either pointer may then be null, which memmove does not allow.
    AddHostWork([=] { std::memmove(to, from, bytes); });
  }
  void Fill(void* to, uint8_t value, size_t bytes) override {
    if (bytes == 0) return;
    AddHostWork([=] { std::memset(to, value, bytes); });
  }

  void BeginRecording() override {
    CHECK(recording_ == nullptr) << "end the current recording before you begin another";
    recording_ = std::make_unique<RecordedWork>();
  }
  absl::StatusOr<std::unique_ptr<Graph>> EndRecording() override { return std::move(recording_); }
  void Run(const Graph& graph) override {
    for (const auto& work : static_cast<const RecordedWork&>(graph).work) AddHostWork(work);
  }

  absl::Status Synchronize() override {
    ++synchronizations;
    return TakeError();
  }
  absl::Status AwaitFlag(const uint64_t* flag, uint64_t value) override {
    RETURN_IF_ERROR(TakeError());
    if (*flag >= value) return absl::OkStatus();
    return absl::InternalError("all work on the stream is done, but none of it raised the flag");
  }

  int Mark() override {
    CHECK(recording_ == nullptr) << "Mark must not be called while recording";
    marks_.push_back(std::chrono::steady_clock::now());
    return static_cast<int>(marks_.size()) - 1;
  }
  absl::StatusOr<double> ElapsedSeconds(int from, int to) override {
    return std::chrono::duration<double>(marks_[to] - marks_[from]).count();
  }
  void ForgetMarks() override { marks_.clear(); }

  bool follows_kernel() const override { return false; }
  void NoteKernel() override {}

  void* native() override { return nullptr; }
  void ReportError(int error, const char* what) override {
    if (error == 0 || !error_.ok()) return;
    error_ = absl::InternalError(absl::StrCat(what, " failed: error ", error));
  }
  void AddHostWork(std::function<void()> work) override {
    if (recording_ != nullptr) {
      recording_->work.push_back(std::move(work));
    } else {
      work();
    }
  }

 private:
  [[nodiscard]] absl::Status TakeError() {
    CHECK(recording_ == nullptr) << "cannot wait for a stream that is being recorded";
    return std::exchange(error_, absl::OkStatus());
  }

  absl::Status error_;
  std::unique_ptr<RecordedWork> recording_;
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

constexpr size_t kMemoryBytes = size_t{4} << 30;
constexpr int kGpus = 2;

std::string Uuid(int ordinal) { return absl::StrCat("emulated GPU   ", ordinal); }

absl::StatusOr<void*> Allocate(size_t bytes, const char* what) {
  constexpr size_t kAlignment = 256;
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const data =
      bytes > kMemoryBytes ? nullptr : std::aligned_alloc(kAlignment, std::max(whole, kAlignment));
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("not enough memory in the emulator: it has ",
                                                     kMemoryBytes >> 20, " MiB, ", bytes >> 20,
                                                     " MiB needed for ", what));
  }
  std::memset(data, 0, whole);
  return data;
}

}  // namespace

namespace emulator {

void SetPeerAccess(PeerAccess access) { peer_access = access; }
PeerAccess GetPeerAccess() { return peer_access; }
int64_t Synchronizations() { return synchronizations; }

}  // namespace emulator

absl::StatusOr<DeviceInfo> OpenDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= kGpus) {
    return absl::UnavailableError(absl::StrCat("the emulator has no device ", ordinal, ", only ",
                                               kGpus, ", numbered from 0"));
  }
  DeviceInfo info;
  info.name = "emulator";
  info.uuid = Uuid(ordinal);
  info.ordinal = ordinal;
  if (emulator::GetPeerAccess() != emulator::PeerAccess::kNone) {
    info.peers.push_back(Uuid(1 - ordinal));
  }
  info.capability = 90;
  info.family = "emulated";
  info.multiprocessors = 4;
  info.memory_bytes = info.free_bytes = kMemoryBytes;
  info.cache_bytes = size_t{1} << 20;
  info.shared_bytes = size_t{227} << 10;  // As on sm_90.
  info.bytes_per_second = 1e10;
  return info;
}

TensorMap MakeTensorMap(const TensorBox& box) {
  TensorMap map = {};
  static_assert(sizeof box <= sizeof map.bytes);
  std::memcpy(map.bytes, &box, sizeof box);
  return map;
}

Memory::~Memory() {
  if (mapping_ == nullptr) std::free(data_);
}

absl::StatusOr<Memory> Memory::OnDevice(size_t bytes, const char* what) {
  ASSIGN_OR_RETURN(void* data, Allocate(bytes, what));
  return Memory(data, bytes, /*on_host=*/false);
}

absl::StatusOr<Memory> Memory::OnHost(size_t bytes, const char* what) {
  return OnDevice(bytes, what);
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create() {
  return std::make_unique<EmulatedStream>();
}

}  // namespace bastion::kernels::cuda
