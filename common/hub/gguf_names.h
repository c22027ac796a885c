// How GGUF files name and order the tensors of the families in model_family.h. Internal to
// common/hub. Thread-safe: immutable.
#ifndef BASTION_COMMON_HUB_GGUF_NAMES_H_
#define BASTION_COMMON_HUB_GGUF_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/tensor_names.h"
#include "common/hub/tensor_view.h"

namespace bastion::hub {

// The order of rows in a GGUF file, for a matrix whose heads have D rows each in `transformers`.
enum class RowOrder {
  kSame,
  // Rows i and i + D / 2 of a head, which rotate together, are next to each other.
  kInterleaved,
  // The queries of all heads, then their keys, then their values. In `transformers`, each head has
  // its query, key and value.
  kStackedQkv,
};

struct GgufArchitecture {
  const char* name;          // general.architecture
  const char* architecture;  // The name in config.json.
  RowOrder query_key = RowOrder::kSame;
  RowOrder fused_qkv = RowOrder::kSame;
};

// UNIMPLEMENTED, with the names of all architectures, for an unknown name.
[[nodiscard]] absl::StatusOr<const GgufArchitecture*> FindGgufArchitecture(const std::string& name);

// A tensor with its name in `transformers`.
struct GgufTensor {
  std::string name;
  TensorView view;
  RowOrder order = RowOrder::kSame;
  int head_rows = 0;  // D, unless the order is kSame.
};

// The tensors of `transformers` that `view`, called `name` in the file, contains: one, or one for
// each expert. A
// tensor that the architecture does not have keeps its name. INVALID_ARGUMENT if the rows cannot be
// reordered.
[[nodiscard]] absl::StatusOr<std::vector<GgufTensor>> NameTensor(
    const GgufArchitecture& architecture, int head_rows, const std::string& name,
    const TensorView& view);

// For each row of `tensor` in `transformers`, its row in the file.
[[nodiscard]] std::vector<int64_t> FileRows(const GgufTensor& tensor);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_GGUF_NAMES_H_
