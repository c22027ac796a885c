// GgufFile: a GGUF file, mapped for reading: metadata, then a table of tensors, then their data.
//
//   | "GGUF" | u32 version | u64 tensors | u64 entries | entries … | table … | padding | data … |
//
// Versions 2 and 3, little-endian. Open checks every length and offset against the file's size. It
// reads no data. gguf_model.h presents the contents as those of a Hugging Face folder.
//
// Thread-safe: immutable.
#ifndef BASTION_COMMON_HUB_GGUF_FILE_H_
#define BASTION_COMMON_HUB_GGUF_FILE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/hub/json_file.h"
#include "common/hub/mapped_file.h"
#include "common/hub/tensor_view.h"

namespace bastion::hub {

class GgufFile {
 public:
  // INVALID_ARGUMENT for a damaged file, and UNIMPLEMENTED for another version or a tensor whose
  // type is not supported. Errors name the file and the entry or tensor.
  [[nodiscard]] static absl::StatusOr<GgufFile> Open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_->path(); }
  // By key. Values have the JSON type of their GGUF type.
  [[nodiscard]] const JsonObject& metadata() const { return metadata_; }
  // By name. A shape begins with the rows, as in safetensors. The views are valid as long as this
  // object exists.
  [[nodiscard]] const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] size_t bytes() const { return file_->bytes().size(); }

 private:
  GgufFile(std::unique_ptr<const MappedFile> file, JsonObject metadata,
           std::map<std::string, TensorView> tensors)
      : file_(std::move(file)), metadata_(std::move(metadata)), tensors_(std::move(tensors)) {}

  std::unique_ptr<const MappedFile> file_;
  JsonObject metadata_;
  std::map<std::string, TensorView> tensors_;
};

// Whether `path` is a regular file that begins like a GGUF file.
[[nodiscard]] bool IsGguf(const std::string& path);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_GGUF_FILE_H_
