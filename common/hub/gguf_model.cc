#include "common/hub/gguf_model.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/hub/gguf_config.h"
#include "common/hub/gguf_tokenizer.h"

namespace bastion::hub {
namespace {

constexpr int kMaxParts = 1000;

// The paths of all parts, if `path` is called like the first part of a split file, or else `path`.
// The size is that of `split.count`.
absl::StatusOr<std::vector<std::string>> PartPaths(const std::string& path,
                                                   const JsonObject& metadata) {
  ASSIGN_OR_RETURN(const int count, metadata.Get<int>("split.count", 1));
  if (count <= 1) return std::vector<std::string>{path};
  ASSIGN_OR_RETURN(const int number, metadata.Get<int>("split.no", 0));
  if (number != 0) {
    return metadata.KeyError(
        "split.no", absl::StrCat("is ", number, ": this is part ", number + 1, " of ", count,
                                 "; pass the first part, whose name ends with -00001-of-",
                                 absl::StrFormat("%05d", count), ".gguf"));
  }
  const std::string end = absl::StrFormat("-00001-of-%05d.gguf", count);
  if (count > kMaxParts || path.size() < end.size() ||
      path.compare(path.size() - end.size(), end.size(), end) != 0) {
    return metadata.KeyError("split.count",
                             absl::StrCat("is ", count, ", but the file is not called …", end));
  }
  std::vector<std::string> paths;
  paths.reserve(count);
  for (int i = 1; i <= count; ++i) {
    paths.push_back(path.substr(0, path.size() - end.size()) +
                    absl::StrFormat("-%05d-of-%05d.gguf", i, count));
  }
  return paths;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const GgufModel>> GgufModel::Open(const std::string& path) {
  std::vector<GgufFile> files;
  ASSIGN_OR_RETURN(GgufFile first, GgufFile::Open(path));
  files.push_back(std::move(first));
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, PartPaths(path, files[0].metadata()));
  for (size_t i = 1; i < paths.size(); ++i) {
    ASSIGN_OR_RETURN(GgufFile part, GgufFile::Open(paths[i]));
    files.push_back(std::move(part));
  }
  ASSIGN_OR_RETURN(const std::string name,
                   files[0].metadata().Get<std::string>("general.architecture"));
  const auto architecture = FindGgufArchitecture(name);
  if (!architecture.ok()) return Annotate(architecture.status(), path);
  auto model = std::unique_ptr<GgufModel>(new GgufModel(std::move(files), *architecture));
  RETURN_IF_ERROR(model->NameTensors());
  return model;
}

absl::Status GgufModel::NameTensors() {
  ASSIGN_OR_RETURN(const int head_rows, GgufHeadDim(*this));
  for (const GgufFile& file : files_) {
    for (const auto& [stored, view] : file.tensors()) {
      if (stored == kRopeFactors) continue;  // A part of the config.
      auto named = NameTensor(*architecture_, head_rows, stored, view);
      if (!named.ok()) return Annotate(named.status(), file.path());
      for (GgufTensor& tensor : *named) {
        const std::string name = tensor.name;
        if (tensors_.emplace(name, std::move(tensor)).second) continue;
        return absl::InvalidArgumentError(
            absl::StrCat(file.path(), ": tensor '", stored, "' occurs twice"));
      }
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> GgufModel::TensorNames() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const TensorView* GgufModel::Stored(const std::string& name) const {
  for (const GgufFile& file : files_) {
    const auto found = file.tensors().find(name);
    if (found != file.tensors().end()) return &found->second;
  }
  return nullptr;
}

absl::StatusOr<TensorView> GgufModel::Tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return absl::NotFoundError(absl::StrCat(files_[0].path(), ": no tensor '", name, "'"));
  }
  const GgufTensor& tensor = found->second;
  TensorView view = tensor.view;
  if (tensor.order == RowOrder::kSame) return view;
  MutexLock lock(&mutex_);
  std::vector<char>& copy = reordered_[name];
  if (copy.empty()) {
    copy.resize(view.bytes);
    const size_t row_bytes = view.bytes / view.shape[0];
    const char* const from = static_cast<const char*>(view.data);
    char* to = copy.data();
    for (const int64_t row : FileRows(tensor)) {
      std::memcpy(to, from + row_bytes * row, row_bytes);
      to += row_bytes;
    }
  }
  view.data = copy.data();
  return view;
}

int64_t GgufModel::bytes() const {
  int64_t total = 0;
  for (const GgufFile& file : files_) total += static_cast<int64_t>(file.bytes());
  return total;
}

absl::StatusOr<std::string> ReadMember(const std::string& path, const std::string& name) {
  using Writer = absl::StatusOr<nlohmann::json> (*)(const GgufModel&);
  constexpr std::pair<const char*, Writer> kMembers[] = {
      {"config.json", GgufConfig},
      {"tokenizer.json", GgufTokenizer},
      {"tokenizer_config.json", GgufTokenizerConfig}};
  for (const auto& [member, write] : kMembers) {
    if (name != member) continue;
    ASSIGN_OR_RETURN(const auto model, GgufModel::Open(path));
    ASSIGN_OR_RETURN(const nlohmann::json text, write(*model));
    return text.dump();
  }
  return absl::NotFoundError(absl::StrCat(path, "/", name, ": a GGUF file has no such part"));
}

}  // namespace bastion::hub
