// GgufModel: a GGUF file, or all parts of a split one, as the folder of a Hugging Face model: its
// tensors have the names and the row order of `transformers`, and ReadMember writes the folder's
// files from the metadata.
//
// Thread-safe. A TensorView is valid as long as the model.
#ifndef BASTION_COMMON_HUB_GGUF_MODEL_H_
#define BASTION_COMMON_HUB_GGUF_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/hub/gguf_file.h"
#include "common/hub/gguf_names.h"

namespace bastion::hub {

class GgufModel {
 public:
  // Opens `path` and, if it is the first part of a split file ("-00001-of-00003.gguf"), the other
  // parts. The errors are those of GgufFile::Open, UNIMPLEMENTED for an architecture that is not in
  // gguf_names.h, and INVALID_ARGUMENT for another part than the first.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<const GgufModel>> Open(
      const std::string& path);

  [[nodiscard]] const JsonObject& metadata() const { return files_[0].metadata(); }
  [[nodiscard]] const GgufArchitecture& architecture() const { return *architecture_; }
  [[nodiscard]] std::vector<std::string> TensorNames() const;  // Ascending.
  // Whether the file has a tensor with this name of GGUF.
  [[nodiscard]] bool HasStored(const std::string& name) const { return Stored(name) != nullptr; }
  // The tensor with this name of GGUF, or null.
  [[nodiscard]] const TensorView* Stored(const std::string& name) const;
  // The tensor with a name of `transformers`. Copies it if its rows have another order in the file.
  // NOT_FOUND for an unknown name.
  [[nodiscard]] absl::StatusOr<TensorView> Tensor(const std::string& name) const;
  // The size of all files.
  [[nodiscard]] int64_t bytes() const;

 private:
  GgufModel(std::vector<GgufFile> files, const GgufArchitecture* architecture)
      : files_(std::move(files)), architecture_(architecture) {}
  // Fills in tensors_.
  [[nodiscard]] absl::Status NameTensors();

  std::vector<GgufFile> files_;  // At least one.
  const GgufArchitecture* architecture_;
  std::map<std::string, GgufTensor> tensors_;  // By their names in `transformers`.
  mutable Mutex mutex_;
  // Copies with reordered rows, by name.
  mutable std::map<std::string, std::vector<char>> reordered_ ABSL_GUARDED_BY(mutex_);
};

// The text of a file of the model's folder: config.json, tokenizer.json or tokenizer_config.json.
// NOT_FOUND for another name. `path` is the GGUF file.
[[nodiscard]] absl::StatusOr<std::string> ReadMember(const std::string& path,
                                                     const std::string& name);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_GGUF_MODEL_H_
