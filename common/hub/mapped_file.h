// A file mapped read-only into memory.
//
// The size is read once, at Open. A file that somebody shortens while it is mapped ends the process
// with SIGBUS when the lost part is read: replace checkpoints by renaming, never in place.
//
// Thread-safe: immutable.
#ifndef BASTION_COMMON_HUB_MAPPED_FILE_H_
#define BASTION_COMMON_HUB_MAPPED_FILE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace bastion::hub {

class MappedFile {
 public:
  // NOT_FOUND for a missing file; every error names `path`. An empty file maps to no bytes.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<const MappedFile>> Open(
      const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(std::string path, const char* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const char* data_;
  size_t size_;
};

// Asks the system to bring `bytes` of a mapping in from the disk, without waiting for it.
void Prefetch(std::string_view bytes);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_MAPPED_FILE_H_
