// MappedFile: a file mapped read-only into memory.
//
// The size is read once, in Open. If another process truncates the file later, reading the missing
// part kills this process with SIGBUS. So replace checkpoints by renaming, never in place.
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
  // NOT_FOUND for a missing file. Every error names `path`. bytes() of an empty file is empty.
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

// Asks the system to read `bytes` of a mapping from disk. Does not wait.
void Prefetch(std::string_view bytes);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_MAPPED_FILE_H_
