#include "common/hub/safetensors.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/hub/rust_boundary.h"

namespace bastion::hub {

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<const MappedFile> file, MappedFile::Open(path));
  BastionHubText text;
  RETURN_IF_ERROR(
      Annotate(Take(bastion_hub_safetensors_contents(Borrow(file->bytes()), &text)), path));
  std::map<std::string, Entry> entries;
  const nlohmann::json contents = nlohmann::json::parse(Take(text));
  for (const auto& [name, entry] : contents.items()) {
    entries[name] = {entry["dtype"], entry["shape"], entry["begin"], entry["end"]};
  }
  return SafetensorsFile(std::move(file), std::move(entries));
}

std::vector<std::string> SafetensorsFile::TensorNames() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

absl::StatusOr<TensorView> SafetensorsFile::Tensor(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return absl::NotFoundError(absl::StrCat(path(), ": no tensor '", name, "'"));
  }
  const Entry& entry = found->second;
  const std::optional<DType> dtype = DTypeFromSafetensors(entry.dtype);
  if (!dtype.has_value()) {
    const auto name_of = [](std::string* out, DType known) { *out += SafetensorsName(known); };
    return absl::UnimplementedError(
        absl::StrCat(path(), ": tensor '", name, "' has dtype ", entry.dtype,
                     "; supported: ", absl::StrJoin(kSafetensorsDTypes, ", ", name_of)));
  }
  const char* data = file_->bytes().data() + entry.begin;
  if (reinterpret_cast<uintptr_t>(data) % Bytes(*dtype, 1) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": tensor '", name, "' begins at byte ", entry.begin,
                     ", which is not aligned to its dtype ", entry.dtype,
                     "; save the file again with aligned tensors"));
  }
  return TensorView{*dtype, entry.shape, data, entry.end - entry.begin};
}

}  // namespace bastion::hub
