// The emulator's version of device memory that two processes share: a file in memory (memfd),
// sealed like the segments of common/shm/shared_segment.h. The file's name says which GPU has it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/runtime/emulated_gpus.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

std::string FileName(int ordinal) { return absl::StrCat("bastion_gpu", ordinal); }

// Whether the memory behind `descriptor` is that of GPU `ordinal`, whatever its exporter says.
bool IsOn(int ordinal, int descriptor) {
  std::array<char, 64> name{};
  const std::string link = absl::StrCat("/proc/self/fd/", descriptor);
  const ssize_t length = readlink(link.c_str(), name.data(), name.size());
  return std::string(name.data(), std::max<ssize_t>(length, 0)) ==
         absl::StrCat("/memfd:", FileName(ordinal), " (deleted)");
}

// UNAVAILABLE unless `device` can read the memory of `exported`.
absl::Status CheckReadable(const Memory::Exported& exported, const DeviceInfo& device) {
  const bool is_own = exported.uuid == device.uuid;
  if (!is_own &&
      std::find(device.peers.begin(), device.peers.end(), exported.uuid) == device.peers.end()) {
    return absl::UnavailableError("the memory is not that of a peer of this emulated GPU");
  }
  if (!is_own && emulator::GetPeerAccess() != emulator::PeerAccess::kWorks) {
    return absl::UnavailableError("the emulated GPUs cannot read each other's memory");
  }
  if (IsOn(is_own ? device.ordinal : 1 - device.ordinal, exported.descriptor)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("the memory is not on the emulated GPU that its exporter names");
}

}  // namespace

struct Memory::Mapping {
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data != MAP_FAILED) munmap(data, bytes);
    if (descriptor >= 0) close(descriptor);
  }

  int descriptor = -1;
  size_t bytes = 0;
  void* data = MAP_FAILED;
};

Memory::Memory(std::shared_ptr<const Mapping> mapping, size_t bytes)
    : data_(mapping->data), bytes_(bytes), mapping_(std::move(mapping)) {}

absl::StatusOr<Memory> Memory::OnDeviceShareable(const DeviceInfo& device, size_t bytes,
                                                 const char* what) {
  auto mapping = std::make_shared<Mapping>();
  mapping->bytes = std::max<size_t>(bytes, 1);
  const std::string name = FileName(device.ordinal);
  mapping->descriptor = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const auto length = static_cast<off_t>(mapping->bytes);
  if (mapping->descriptor >= 0 && ftruncate(mapping->descriptor, length) == 0) {
    mapping->data = mmap(nullptr, mapping->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                         mapping->descriptor, /*offset=*/0);
  }
  // Seal after mapping: F_SEAL_FUTURE_WRITE allows existing writable mappings only.
  if (mapping->data == MAP_FAILED || fcntl(mapping->descriptor, F_ADD_SEALS, kSeals) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat(bytes >> 20, " MiB of shareable memory for ", what));
  }
  return Memory(mapping, bytes);
}

absl::StatusOr<int> Memory::ExportDescriptor() const {
  CHECK(mapping_ != nullptr) << "only memory from OnDeviceShareable can be exported";
  const int descriptor = fcntl(mapping_->descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "exporting emulator memory");
  return descriptor;
}

absl::StatusOr<Memory> Memory::Import(const Exported& exported, const DeviceInfo& device) {
  const auto [descriptor, bytes, uuid] = exported;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  struct stat info {};
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(descriptor, &info) != 0 ||
      info.st_size != static_cast<off_t>(std::max<size_t>(bytes, 1))) {
    return absl::UnavailableError("the descriptor is not emulator memory of the expected size");
  }
  RETURN_IF_ERROR(CheckReadable(exported, device));
  auto mapping = std::make_shared<Mapping>();
  mapping->bytes = static_cast<size_t>(info.st_size);
  mapping->data = mmap(nullptr, mapping->bytes, PROT_READ, MAP_SHARED, descriptor, /*offset=*/0);
  if (mapping->data == MAP_FAILED) {
    return absl::UnavailableError("cannot map emulator memory");
  }
  return Memory(mapping, bytes);
}

}  // namespace bastion::kernels::cuda
