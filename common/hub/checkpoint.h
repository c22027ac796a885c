// Checkpoint: the weights of a model, in a Hugging Face folder or in a GGUF file. A folder has them
// in model.safetensors, or in the shards that model.safetensors.index.json lists. The files are
// mapped: the system reads a page when it is first accessed.
//
// Thread-safe. A TensorView borrows from the mapping, so the caller must keep the shared_ptr to the
// Checkpoint as long as the view.
#ifndef BASTION_COMMON_HUB_CHECKPOINT_H_
#define BASTION_COMMON_HUB_CHECKPOINT_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/hub/gguf_model.h"
#include "common/hub/safetensors.h"
#include "common/hub/tensor_view.h"

namespace bastion::hub {

class Checkpoint {
 public:
  // Opens and checks every file. If the folder has both a single file and shards, it uses the
  // single file, like `transformers`. `folder` may be a GGUF file, whose tensors then have the
  // names and the row order of `transformers`. Errors name the file and, if known, the tensor:
  //   NOT_FOUND         no folder, no weights in it, or a shard that the index lists is missing
  //   INVALID_ARGUMENT  a damaged file or index, or a shard without a tensor that the index lists
  //   UNIMPLEMENTED     a GGUF file with tensors of a type that is not supported
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(
      const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] bool Has(const std::string& name) const { return file_index_.count(name) > 0; }
  [[nodiscard]] int64_t bytes() const;                         // The size of all files.
  [[nodiscard]] std::vector<std::string> TensorNames() const;  // Ascending.

  // NOT_FOUND for an unknown name, INVALID_ARGUMENT if the tensor has another shape (the message
  // prints both shapes), UNIMPLEMENTED if its elements are neither F32, BF16 or F16 nor blocks.
  [[nodiscard]] absl::StatusOr<TensorView> Tensor(const std::string& name,
                                                  absl::Span<const int64_t> shape) const;

  // Like Tensor, for any shape and type. The tensor does not count as read.
  [[nodiscard]] absl::StatusOr<TensorView> Find(const std::string& name) const;

  // Hexadecimal digits that identify the model: a hash of config.json, of the names, shapes and
  // types of all tensors, and of samples of their data. Two checkpoints of one shape differ if a
  // sample does, which training makes all but certain. Errors: those of JsonObject::Read.
  [[nodiscard]] absl::StatusOr<std::string> Identity() const;

  // The tensors that Tensor has not been called for, in ascending order.
  [[nodiscard]] std::vector<std::string> UnreadTensors() const;

 private:
  Checkpoint(std::string folder, std::vector<SafetensorsFile> files,
             std::unique_ptr<const GgufModel> gguf);
  // The file that has the tensor, for errors.
  [[nodiscard]] const std::string& FileOf(const std::string& name) const;

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::unique_ptr<const GgufModel> gguf_;     // Null for a folder; then files_ is not empty.
  std::map<std::string, size_t> file_index_;  // Tensor name to index into files_.
  mutable Mutex mutex_;
  mutable std::set<std::string> read_ ABSL_GUARDED_BY(mutex_);  // Names passed to Tensor.
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_CHECKPOINT_H_
