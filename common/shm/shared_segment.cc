#include "common/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace bastion::wire {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

}  // namespace

Descriptor::~Descriptor() {
  if (valid()) close(descriptor_);
}

absl::StatusOr<SharedSegment> SharedSegment::Create(size_t bytes) {
  Descriptor descriptor(memfd_create("bastion", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid() || ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot create ", bytes, " bytes of shared memory"));
  }
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), /*offset=*/0);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map shared memory");
  SharedSegment segment(std::move(descriptor), static_cast<char*>(data), bytes);
  // Seal after mapping: the seal forbids later writable mappings only.
  if (fcntl(segment.descriptor(), F_ADD_SEALS, kSeals) != 0) {
    return absl::ErrnoToStatus(errno, "cannot seal shared memory");
  }
  return segment;
}

absl::StatusOr<SharedSegment> SharedSegment::Map(Descriptor descriptor, size_t bytes) {
  // Check the seals before the size: without them the size could still change.
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError("the peer's shared memory is not sealed");
  }
  struct stat info {};
  if (fstat(descriptor.get(), &info) != 0 || info.st_size != static_cast<off_t>(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer's shared memory has ", info.st_size, " bytes, expected ", bytes));
  }
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor.get(), /*offset=*/0);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map the peer's shared memory");
  return SharedSegment(std::move(descriptor), static_cast<char*>(data), bytes);
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace bastion::wire
