// Writes safetensors files. safetensors.h describes the format.
//
// Thread-safe: no state. The caller must not write the same path from two threads concurrently.
#ifndef BASTION_COMMON_HUB_SAFETENSORS_WRITER_H_
#define BASTION_COMMON_HUB_SAFETENSORS_WRITER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/dtype.h"
#include "common/hub/tensor_view.h"

namespace bastion::hub {

// Permissions of a new file: 0666 minus the umask, or 0600.
enum class FileAccess { kEveryone, kOwner };

struct NamedTensor {
  std::string name;
  TensorView view;  // Must stay valid until the file is written.
};

// A tensor [N] over `values`. `values` must outlive it.
template <typename T>
[[nodiscard]] NamedTensor TensorOf(std::string name, const std::vector<T>& values) {
  return {std::move(name),
          {DTypeOf<T>(),
           {static_cast<int64_t>(values.size())},
           values.data(),
           values.size() * sizeof(T)}};
}

// Writes PATH.tmp.PID, a new file, syncs it to disk and renames it. After an error (no folder, no
// permission, a full disk), the old file at `path` is unchanged; the status is the system's error
// and names the path, or that of CheckDataFile: only regular files are replaced. Tensors with the
// widest elements come first in the file, so that each tensor is aligned without gaps. The format
// forbids gaps. REQUIRES: names are unique, and every view has the bytes of its shape and type.
[[nodiscard]] absl::Status WriteSafetensors(absl::Span<const NamedTensor> tensors,
                                            const std::string& path,
                                            FileAccess access = FileAccess::kEveryone);

// Renames a regular file that cannot be used to PATH.bad, replacing an earlier one, and logs
// `reason`. Errors: CheckDataFile (data_file.h), the system's.
[[nodiscard]] absl::Status SetAside(const std::string& path, const absl::Status& reason);

// Logs an error of WriteSafetensors that may pass by itself, because the disk is full or fails, and
// returns OK. Returns other statuses.
[[nodiscard]] absl::Status LogDiskError(const absl::Status& written);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_SAFETENSORS_WRITER_H_
