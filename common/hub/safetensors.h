// SafetensorsFile: a safetensors file, mapped for reading. The file has an 8-byte length n, a JSON
// header of n bytes, and the bytes of the tensors.
//
//   | u64 n | header: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, …} | data … |
//            8                                                                     8 + n    size
//
// The tensors fill the data without gaps or overlaps. Open checks this against the file's size with
// Hugging Face's crate. It reads only the header.
//
// Thread-safe: immutable.
#ifndef BASTION_COMMON_HUB_SAFETENSORS_H_
#define BASTION_COMMON_HUB_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/hub/mapped_file.h"
#include "common/hub/tensor_view.h"

namespace bastion::hub {

class SafetensorsFile {
 public:
  // INVALID_ARGUMENT for a damaged file. The message names the file and, if the header could be
  // read, the tensor.
  [[nodiscard]] static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_->path(); }
  [[nodiscard]] size_t bytes() const { return file_->bytes().size(); }
  [[nodiscard]] std::vector<std::string> TensorNames() const;
  [[nodiscard]] bool Has(const std::string& name) const { return entries_.count(name) > 0; }

  // NOT_FOUND for an unknown name, UNIMPLEMENTED for an element type that is not in
  // kSafetensorsDTypes, INVALID_ARGUMENT if the data is not aligned to its element size. The view
  // is valid as long as this object exists.
  [[nodiscard]] absl::StatusOr<TensorView> Tensor(const std::string& name) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    size_t begin = 0;  // Byte offsets in the file.
    size_t end = 0;
  };
  SafetensorsFile(std::unique_ptr<const MappedFile> file, std::map<std::string, Entry> entries)
      : file_(std::move(file)), entries_(std::move(entries)) {}

  std::unique_ptr<const MappedFile> file_;
  std::map<std::string, Entry> entries_;
};

// Returns a copy of the tensor `name` [N]. INVALID_ARGUMENT if it is missing, its elements are not
// of type T, or it does not have exactly one dimension.
template <typename T>
[[nodiscard]] absl::StatusOr<std::vector<T>> ReadVector(const SafetensorsFile& file,
                                                        const std::string& name) {
  const absl::StatusOr<TensorView> view = file.Tensor(name);
  // A file without the tensor is damaged. NOT_FOUND would mean that the file is missing.
  if (!view.ok()) return absl::InvalidArgumentError(view.status().message());
  if (view->dtype != DTypeOf<T>() || view->shape.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": tensor '", name, "' has dtype ", SafetensorsName(view->dtype), " and ",
        view->shape.size(), " dimensions, expected ", SafetensorsName(DTypeOf<T>()), " and 1"));
  }
  const T* const first = static_cast<const T*>(view->data);
  return std::vector<T>(first, first + view->shape[0]);
}

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_SAFETENSORS_H_
