#include "drafter_service/draft/draft_vocabulary.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "common/prior/transition_file.h"

namespace bastion::drafter {

std::vector<TokenId> FrequentTokens(const TransitionTable& table, int count,
                                    absl::Span<const TokenId> always) {
  const std::vector<uint32_t>& occurrences = table.columns().occurrences;
  std::vector<bool> fixed(table.vocabulary());
  for (const TokenId token : always) fixed[token] = true;
  const auto number = static_cast<int>(std::count(fixed.begin(), fixed.end(), true));
  std::vector<TokenId> tokens(table.vocabulary());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto before = [&](TokenId a, TokenId b) {
    if (fixed[a] != fixed[b]) return static_cast<bool>(fixed[a]);
    return occurrences[a] != occurrences[b] ? occurrences[a] > occurrences[b] : a < b;
  };
  std::sort(tokens.begin(), tokens.end(), before);
  tokens.resize(std::clamp(count, number, table.vocabulary()));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

absl::StatusOr<std::shared_ptr<const std::vector<TokenId>>> ReadDraftVocabulary(
    const std::string& drafter_folder, const std::string& target_folder, int count) {
  if (count == 0) return nullptr;
  if (count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--draft_vocabulary is ", count,
                     "; it must be a number of tokens, or 0 to draft all tokens"));
  }
  ASSIGN_OR_RETURN(const hub::ModelConfig target, hub::ReadModelConfig(target_folder));
  if (count >= target.dims.vocabulary) return nullptr;
  ASSIGN_OR_RETURN(const auto table,
                   hub::FindTransitionTable(drafter_folder, target.dims.vocabulary));
  if (table == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "--draft_vocabulary ", count, " needs the token counts in ", drafter_folder, "/",
        hub::kTransitionFileName, ", which does not exist; create it with bastion-train prior"));
  }
  std::vector<TokenId> ends;
  for (const TokenId token : target.special.eos) {
    if (token >= 0 && token < target.dims.vocabulary) ends.push_back(token);
  }
  return std::make_shared<const std::vector<TokenId>>(FrequentTokens(*table, count, ends));
}

}  // namespace bastion::drafter
