// WatchedFile: a small file that is read again when it changes, for example a token that is
// renewed. Thread-compatible.
#ifndef BASTION_COMMON_ACCESS_WATCHED_FILE_H_
#define BASTION_COMMON_ACCESS_WATCHED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace bastion {

class WatchedFile {
 public:
  // The file is looked at no more often than this.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  explicit WatchedFile(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  // The content. HasChanged() is false until the file changes again. NOT_FOUND if it cannot be
  // opened, INVALID_ARGUMENT if it has more than `max_bytes`. DATA_LOSS if it cannot be read to its
  // end; HasChanged() then asks to try again.
  [[nodiscard]] absl::StatusOr<std::string> Read(size_t max_bytes);
  // True if the file differs from the one that Read() has seen last.
  [[nodiscard]] bool HasChanged();

 private:
  struct Stamp {
    uint64_t device = 0, inode = 0, bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;  // Time of the last modification.
    bool operator==(const Stamp&) const = default;
  };
  [[nodiscard]] Stamp Look() const;

  std::string path_;
  Stamp seen_;
  absl::Duration next_look_ = -absl::InfiniteDuration();  // On Clock::Real().
};

}  // namespace bastion

#endif  // BASTION_COMMON_ACCESS_WATCHED_FILE_H_
