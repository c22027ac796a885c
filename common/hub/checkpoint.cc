#include "common/hub/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "common/base/siphash.h"
#include "common/base/status.h"
#include "common/hub/json_file.h"

namespace bastion::hub {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kMedusa = "medusa_lm_head.safetensors";  // Instead of kSingle.
constexpr const char* kPickles[] = {"pytorch_model.bin", "medusa_lm_head.pt"};
constexpr const char* kIndex = "model.safetensors.index.json";

// Identity() hashes samples of this many bytes of every tensor, at this distance. A model of 16 GB
// has 16 MB of samples.
constexpr size_t kSampleBytes = 64;
constexpr size_t kSampleDistance = size_t{64} << 10;

void AppendSamples(absl::string_view bytes, std::string& out) {
  for (size_t at = 0; at < bytes.size(); at += kSampleDistance) {
    absl::StrAppend(&out, bytes.substr(at, kSampleBytes));
  }
  // The end, too.
  absl::StrAppend(&out, bytes.substr(bytes.size() - std::min(bytes.size(), kSampleBytes)));
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

const char* TypeText(const TensorView& view) {
  return view.blocks == BlockFormat::kNone ? SafetensorsName(view.dtype) : Name(view.blocks);
}

// `weight_map` of the index: tensor name to file name in the folder.
using WeightMap = std::map<std::string, std::string>;

absl::StatusOr<WeightMap> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const JsonObject index, JsonObject::Read(path));
  ASSIGN_OR_RETURN(const JsonObject listed, index.Child("weight_map"));
  if (listed.json().empty()) return index.KeyError("weight_map", "must map tensors to files");
  WeightMap map;
  for (const auto& [tensor, file] : listed.json().items()) {
    if (!file.is_string()) return listed.KeyError(tensor.c_str(), "must name a file");
    const std::string name = file.get<std::string>();
    if (name.empty() || absl::StrContains(name, "/")) {
      return listed.KeyError(tensor.c_str(),
                             absl::StrCat("names '", name, "', which is not a file name"));
    }
    map[tensor] = name;
  }
  return map;
}

absl::StatusOr<std::vector<SafetensorsFile>> OpenShards(const std::string& folder) {
  const std::string index_path = absl::StrCat(folder, "/", kIndex);
  ASSIGN_OR_RETURN(const WeightMap map, ReadIndex(index_path));
  std::map<std::string, size_t> opened;
  std::vector<SafetensorsFile> files;
  for (const auto& [tensor, name] : map) {
    const auto [entry, is_new] = opened.try_emplace(name, files.size());
    if (is_new) {
      absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(absl::StrCat(folder, "/", name));
      if (absl::IsNotFound(file.status())) {
        return absl::NotFoundError(
            absl::StrCat(index_path, ": shard ", name, " of tensor '", tensor, "' is missing"));
      }
      RETURN_IF_ERROR(file.status());
      files.push_back(*std::move(file));
    }
    if (!files[entry->second].Has(tensor)) {
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": shard ", name, " does not contain tensor '", tensor, "'"));
    }
  }
  return files;
}

absl::StatusOr<std::vector<SafetensorsFile>> OpenFiles(const std::string& folder) {
  if (!Exists(folder)) return absl::NotFoundError(absl::StrCat(folder, ": no such folder"));
  for (const char* name : {kSingle, kMedusa}) {
    const std::string single = absl::StrCat(folder, "/", name);
    if (!Exists(single)) continue;
    ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(single));
    std::vector<SafetensorsFile> files;
    files.push_back(std::move(file));
    return files;
  }
  if (Exists(absl::StrCat(folder, "/", kIndex))) return OpenShards(folder);
  for (const char* pickle : kPickles) {
    if (!Exists(absl::StrCat(folder, "/", pickle))) continue;
    return absl::NotFoundError(absl::StrCat(
        folder, ": ", pickle, " is a pickle, which can run code when it is read; convert it: ",
        "python3 -c \"import torch, safetensors.torch as s; s.save_file({k: v.clone().contiguous() "
        "for k, v in torch.load('",
        folder, "/", pickle, "', weights_only=True).items()}, '", folder, "/", kSingle, "')\""));
  }
  return absl::NotFoundError(
      absl::StrCat(folder, ": contains neither ", kSingle, " nor ", kIndex,
                   "; convert weights in other formats to safetensors first"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& folder) {
  if (IsGguf(folder)) {
    ASSIGN_OR_RETURN(auto gguf, GgufModel::Open(folder));
    return std::shared_ptr<const Checkpoint>(new Checkpoint(folder, {}, std::move(gguf)));
  }
  ASSIGN_OR_RETURN(std::vector<SafetensorsFile> files, OpenFiles(folder));
  return std::shared_ptr<const Checkpoint>(new Checkpoint(folder, std::move(files), nullptr));
}

Checkpoint::Checkpoint(std::string folder, std::vector<SafetensorsFile> files,
                       std::unique_ptr<const GgufModel> gguf)
    : folder_(std::move(folder)), files_(std::move(files)), gguf_(std::move(gguf)) {
  if (gguf_ != nullptr) {
    for (const std::string& name : gguf_->TensorNames()) file_index_.emplace(name, 0);
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    for (const std::string& name : files_[i].TensorNames()) file_index_.emplace(name, i);
  }
}

std::vector<std::string> Checkpoint::TensorNames() const {
  std::vector<std::string> names;
  names.reserve(file_index_.size());
  for (const auto& [name, file] : file_index_) names.push_back(name);
  return names;
}

int64_t Checkpoint::bytes() const {
  int64_t total = gguf_ == nullptr ? 0 : gguf_->bytes();
  for (const SafetensorsFile& file : files_) total += static_cast<int64_t>(file.bytes());
  return total;
}

absl::StatusOr<TensorView> Checkpoint::Find(const std::string& name) const {
  const auto found = file_index_.find(name);
  if (found == file_index_.end()) {
    return absl::NotFoundError(absl::StrCat(folder_, ": no tensor '", name, "'"));
  }
  return gguf_ != nullptr ? gguf_->Tensor(name) : files_[found->second].Tensor(name);
}

const std::string& Checkpoint::FileOf(const std::string& name) const {
  return gguf_ != nullptr ? folder_ : files_[file_index_.at(name)].path();
}

absl::StatusOr<std::string> Checkpoint::Identity() const {
  ASSIGN_OR_RETURN(const JsonObject config, JsonObject::Read(folder_ + "/config.json"));
  std::string hashed = config.json().dump();
  for (const auto& [name, file] : file_index_) {
    absl::StrAppend(&hashed, "\n", name);
    const absl::StatusOr<TensorView> view = Find(name);
    if (!view.ok()) continue;  // Its elements are of a type that no model uses.
    absl::StrAppend(&hashed, " ", TypeText(*view), " ", ShapeText(view->shape), "\n");
    AppendSamples({static_cast<const char*>(view->data), view->bytes}, hashed);
  }
  const Bits128 hash = SipHash128({}, hashed);
  return absl::StrCat(absl::Hex(hash.high, absl::kZeroPad16),
                      absl::Hex(hash.low, absl::kZeroPad16));
}

std::vector<std::string> Checkpoint::UnreadTensors() const {
  std::vector<std::string> names = TensorNames();
  MutexLock lock(&mutex_);
  std::erase_if(names, [&](const std::string& name) {
    mutex_.AssertHeld();
    return read_.count(name) > 0;
  });
  return names;
}

absl::StatusOr<TensorView> Checkpoint::Tensor(const std::string& name,
                                              absl::Span<const int64_t> shape) const {
  {
    MutexLock lock(&mutex_);
    read_.insert(name);
  }
  ASSIGN_OR_RETURN(TensorView view, Find(name));
  if (!IsFloat(view.dtype)) {
    return absl::UnimplementedError(absl::StrCat(FileOf(name), ": tensor '", name, "' has dtype ",
                                                 SafetensorsName(view.dtype),
                                                 "; weights must be F32, BF16 or F16"));
  }
  if (view.shape != std::vector<int64_t>(shape.begin(), shape.end())) {
    return absl::InvalidArgumentError(absl::StrCat(FileOf(name), ": tensor '", name, "' has shape ",
                                                   ShapeText(view.shape), ", expected ",
                                                   ShapeText(shape)));
  }
  return view;
}

}  // namespace bastion::hub
