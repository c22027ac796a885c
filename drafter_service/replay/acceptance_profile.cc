#include "drafter_service/replay/acceptance_profile.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/json_file.h"

namespace bastion::drafter {
namespace {

absl::Status Check(const ProfiledBlock& block, size_t positions) {
  if (positions == 0 || block.top.size() != positions || block.ranks.size() != positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", block.top.size(), " probabilities (\"top\") and ", block.ranks.size(),
        " ranks; all blocks must have as many as the first block has probabilities, at least 1"));
  }
  for (const float top : block.top) {
    if (top > 0 && top < 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("has the probability ", top, "; it must lie between 0 and 1"));
  }
  for (const int rank : block.ranks) {
    if (rank >= ProfiledBlock::kAbsent) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("has the rank ", rank, "; the lowest is -1: not among the candidates"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProfiledBlock> ReadBlock(const nlohmann::json& json, const std::string& origin) {
  const hub::JsonObject object(json, origin);
  ProfiledBlock block;
  ASSIGN_OR_RETURN(block.ranks, object.Integers("ranks"));
  const nlohmann::json* const top = object.Find("top");
  for (const nlohmann::json& value : top == nullptr ? nlohmann::json::array() : *top) {
    if (!value.is_number()) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": 'top' must be a list of numbers"));
    }
    block.top.push_back(value.get<float>());
  }
  return block;
}

}  // namespace

int RankOf(TokenId token, const Marginals& marginals, int position) {
  for (int r = 0; r < marginals.candidates; ++r) {
    if (marginals.token(position, r) == token) return r;
  }
  return ProfiledBlock::kAbsent;
}

absl::Status AcceptanceProfile::Validate() const {
  if (blocks.empty()) return absl::InvalidArgumentError("has no blocks");
  for (size_t b = 0; b < blocks.size(); ++b) {
    RETURN_IF_ERROR(
        Annotate(Check(blocks[b], blocks.front().top.size()), absl::StrCat("block ", b)));
  }
  return absl::OkStatus();
}

absl::StatusOr<AcceptanceProfile> AcceptanceProfile::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const hub::JsonObject object, hub::JsonObject::Read(path));
  AcceptanceProfile profile;
  ASSIGN_OR_RETURN(profile.name, object.Get<std::string>("name"));
  ASSIGN_OR_RETURN(profile.source, object.Get<std::string>("source", ""));
  const nlohmann::json* const blocks = object.Find("blocks");
  if (blocks == nullptr || !blocks->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": 'blocks' must be a list"));
  }
  for (const nlohmann::json& json : *blocks) {
    const std::string origin = absl::StrCat(path, ": block ", profile.blocks.size());
    if (!json.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(origin, " must be an object"));
    }
    ASSIGN_OR_RETURN(ProfiledBlock block, ReadBlock(json, origin));
    profile.blocks.push_back(std::move(block));
  }
  RETURN_IF_ERROR(Annotate(profile.Validate(), path));
  return profile;
}

absl::Status AcceptanceProfile::Write(const std::string& path) const {
  nlohmann::json json = {{"name", name}, {"source", source}, {"blocks", nlohmann::json::array()}};
  for (const ProfiledBlock& block : blocks) {
    json["blocks"].push_back({{"top", block.top}, {"ranks", block.ranks}});
  }
  std::ofstream file(path);
  file << json.dump() << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path, "; is the disk full?"));
}

}  // namespace bastion::drafter
