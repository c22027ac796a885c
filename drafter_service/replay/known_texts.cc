#include "drafter_service/replay/known_texts.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/json_file.h"

namespace bastion::drafter {

absl::StatusOr<KnownTexts> KnownTexts::Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot read the file"));
  KnownTexts known;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string origin = absl::StrCat(path, ": line ", number);
    nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(origin, " must be a JSON object"));
    }
    ASSIGN_OR_RETURN(std::vector<TokenId> text,
                     hub::JsonObject(std::move(json), origin).Integers("token_ids"));
    known.Add(std::move(text));
  }
  return known;
}

const std::vector<TokenId>* KnownTexts::Find(const std::vector<TokenId>& prefix) const {
  // The texts that begin with `prefix` come right after it.
  const auto found = texts_.upper_bound(prefix);
  if (found == texts_.end() || found->size() < prefix.size()) return nullptr;
  return std::equal(prefix.begin(), prefix.end(), found->begin()) ? &*found : nullptr;
}

}  // namespace bastion::drafter
