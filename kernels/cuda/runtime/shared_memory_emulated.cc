// The emulator's version of device memory that two processes share: a file in memory (memfd),
// sealed like the segments of common/shm/shared_segment.h.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

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

absl::StatusOr<Memory> Memory::OnDeviceShareable(size_t bytes, const char* what) {
  auto mapping = std::make_shared<Mapping>();
  mapping->bytes = std::max<size_t>(bytes, 1);
  mapping->descriptor = memfd_create("bastion_device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
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

absl::StatusOr<Memory> Memory::Import(int descriptor, size_t bytes) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  struct stat info {};
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(descriptor, &info) != 0 ||
      info.st_size != static_cast<off_t>(std::max<size_t>(bytes, 1))) {
    return absl::UnavailableError("the descriptor is not emulator memory of the expected size");
  }
  auto mapping = std::make_shared<Mapping>();
  mapping->bytes = static_cast<size_t>(info.st_size);
  mapping->data = mmap(nullptr, mapping->bytes, PROT_READ, MAP_SHARED, descriptor, /*offset=*/0);
  if (mapping->data == MAP_FAILED) {
    return absl::UnavailableError("cannot map emulator memory");
  }
  return Memory(mapping, bytes);
}

}  // namespace bastion::kernels::cuda
