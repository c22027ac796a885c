#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion::testing {

MemoryFile::MemoryFile(const std::string& content)
    : descriptor_(memfd_create("fuzz", 0)), path_(absl::StrCat("/proc/self/fd/", descriptor_)) {
  CHECK_GE(descriptor_, 0);
  CHECK_EQ(write(descriptor_, content.data(), content.size()),
           static_cast<ssize_t>(content.size()));
}

MemoryFile::~MemoryFile() { close(descriptor_); }

}  // namespace bastion::testing
