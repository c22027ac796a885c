#include "common/hub/specblock_config.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/eagle_config.h"

namespace bastion::hub {
namespace {

constexpr const char* kPositions = "diffspec_draft_token_num";
constexpr const char* kRankClasses = "rank_classes";
constexpr const char* kBlockPositions = "block_positions";
constexpr const char* kPrefixBroadcast = "prefix_broadcast";
constexpr int kMaxPositions = 64;
constexpr int kImplementedClasses = 4;

absl::StatusOr<int> ReadPositions(const JsonObject& json) {
  ASSIGN_OR_RETURN(const int positions, json.GetPositive<int>(kPositions));
  if (positions <= kMaxPositions) return positions;
  return json.KeyError(kPositions,
                       absl::StrCat("is ", positions, "; it must be at most ", kMaxPositions));
}

absl::StatusOr<int> ReadRankClasses(const JsonObject& json) {
  ASSIGN_OR_RETURN(const int classes, json.Get<int>(kRankClasses, kImplementedClasses));
  if (classes == 0 || classes == kImplementedClasses) return classes;
  return absl::UnimplementedError(absl::StrCat(json.origin(), ": '", kRankClasses, "' is ", classes,
                                               "; the engines implement only ", kImplementedClasses,
                                               " classes, or 0 for no rank head"));
}

absl::StatusOr<bool> ReadPathPositions(const JsonObject& json) {
  const absl::StatusOr<std::string> value = json.Get<std::string>(kBlockPositions, "same");
  RETURN_IF_ERROR(value.status());
  if (*value == "same" || *value == "path") return *value == "path";
  return json.KeyError(kBlockPositions,
                       absl::StrCat("is '", *value, "'; it must be 'same' or 'path'"));
}

}  // namespace

std::vector<std::string> SpecBlockFields() {
  std::vector<std::string> fields = DraftHeadFields();
  // num_ttt_blocks is the number of blocks in training. The policy chooses how many are drafted.
  for (const char* field :
       {kPositions, kRankClasses, kBlockPositions, kPrefixBroadcast, "num_ttt_blocks"}) {
    fields.emplace_back(field);
  }
  return fields;
}

absl::Status ReadSpecBlock(const JsonObject& json, ModelConfig& config) {
  SpecBlockConfig& specblock = config.drafter.specblock;
  ASSIGN_OR_RETURN(specblock.positions, ReadPositions(json));
  RETURN_IF_ERROR(ReadDraftHead(json, config));
  ASSIGN_OR_RETURN(specblock.rank_classes, ReadRankClasses(json));
  ASSIGN_OR_RETURN(specblock.path_positions, ReadPathPositions(json));
  ASSIGN_OR_RETURN(specblock.prefix_broadcast, json.Get<bool>(kPrefixBroadcast, true));
  return absl::OkStatus();
}

}  // namespace bastion::hub
