// The weights in a Hugging Face folder: model.safetensors, or the shards that
// model.safetensors.index.json lists. Mapped, not read: pages come in as they are touched.
//
// Thread-safe: immutable. Views borrow from the mapping, which lives as long as the Checkpoint; who
// keeps a view keeps the shared_ptr.
#ifndef BASTION_COMMON_HUB_CHECKPOINT_H_
#define BASTION_COMMON_HUB_CHECKPOINT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/hub/safetensors.h"
#include "common/hub/tensor_view.h"

namespace bastion::hub {

class Checkpoint {
 public:
  // Opens and checks every file. A folder that holds both forms is read as the single file, as
  // `transformers` does. Errors name the file, and the tensor where one is to blame:
  //   NOT_FOUND         no folder, no weights in it, or a shard that the index lists is missing
  //   INVALID_ARGUMENT  a damaged file or index, or an index that promises what a shard lacks
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(
      const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] bool Has(const std::string& name) const { return home_.count(name) > 0; }
  [[nodiscard]] std::vector<std::string> TensorNames() const;  // Ascending.

  // NOT_FOUND where there is no such tensor, INVALID_ARGUMENT where its shape is another one (the
  // message prints both), UNIMPLEMENTED where its elements are no floats of DType.
  [[nodiscard]] absl::StatusOr<TensorView> Tensor(const std::string& name,
                                                  absl::Span<const int64_t> shape) const;

 private:
  Checkpoint(std::string folder, std::vector<SafetensorsFile> files);

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> home_;  // Tensor name -> index into files_.
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_CHECKPOINT_H_
