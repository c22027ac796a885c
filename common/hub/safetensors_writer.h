// Writes a safetensors file; the form is drawn in safetensors.h.
//
// Thread-safe: no state. Two writers of one path at a time are for the caller to keep apart.
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

// Who may read a new file.
enum class FileAccess { kEveryone, kOwner };

struct NamedTensor {
  std::string name;
  TensorView view;  // Borrowed until the file is written.
};

// The tensor [N] of `values`, which must outlive it.
template <typename T>
[[nodiscard]] NamedTensor TensorOf(std::string name, const std::vector<T>& values) {
  return {std::move(name),
          {DTypeOf<T>(),
           {static_cast<int64_t>(values.size())},
           values.data(),
           values.size() * sizeof(T)}};
}

// Writes PATH.tmp, brings it to the disk and renames it: whatever goes wrong (no folder, no right,
// a full disk), `path` keeps what it held before, and the status is that of the system's error with
// the path in it. In the file the tensors with the widest elements come first, so that each is
// aligned without gaps, which the format forbids.
// REQUIRES: names are unique, and every view has the bytes of its shape and type.
[[nodiscard]] absl::Status WriteSafetensors(absl::Span<const NamedTensor> tensors,
                                            const std::string& path,
                                            FileAccess access = FileAccess::kEveryone);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_SAFETENSORS_WRITER_H_
