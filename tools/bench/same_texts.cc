#include "tools/bench/same_texts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

// The outputs seen so far.
class TextComparison {
 public:
  // Compares the outputs of `arm` with the first ones. `counted` is false for outputs that are
  // added again under another name.
  void Add(const std::string& arm, const std::vector<PromptMeasurement>& prompts, bool counted) {
    for (const PromptMeasurement& prompt : prompts) {
      const auto [first, added] =
          first_.try_emplace({prompt.id, prompt.max_new_tokens}, Output{arm, &prompt.output});
      const std::vector<TokenId>& expected = *first->second.tokens;
      const std::vector<TokenId>& actual = prompt.output;
      found_.outputs += counted ? 1 : 0;
      if (added || actual == expected) continue;
      found_.different += counted ? 1 : 0;
      if (!found_.first.ok()) continue;
      const auto [at, other] =
          std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
      found_.first = absl::DataLossError(
          absl::StrCat("prompt ", prompt.id, ": ", arm, " and ", first->second.arm,
                       " first differ at output token ", at - actual.begin(), " (", actual.size(),
                       " and ", expected.size(), " tokens)"));
    }
  }
  [[nodiscard]] const TextDifferences& found() const { return found_; }

 private:
  struct Output {
    std::string arm;
    const std::vector<TokenId>* tokens;
  };
  std::map<std::pair<std::string, int>, Output> first_;  // By prompt and limit.
  TextDifferences found_;
};

size_t RequestsOf(const ArmResults& arm) {
  size_t requests = 0;
  for (const LoadRun& run : arm.rounds) requests += run.requests.size();
  return requests;
}

}  // namespace

std::string TextDifferences::ToString() const {
  return absl::StrCat(different, " of ", outputs, " outputs differ: ", first.message());
}

TextDifferences FindDifferentTexts(const std::vector<LevelResults>& levels) {
  TextComparison comparison;
  // A difference at the first level is named without the level.
  for (const ArmResults& arm : levels.front().arms) {
    for (const LoadRun& run : arm.rounds) comparison.Add(arm.policy, run.requests, false);
  }
  for (const LevelResults& level : levels) {
    for (const ArmResults& arm : level.arms) {
      const std::string where = absl::StrCat(arm.policy, " at ", level.level.ToString());
      for (const LoadRun& run : arm.rounds) comparison.Add(where, run.requests, true);
    }
  }
  return comparison.found();
}

absl::Status CheckSameTexts(const std::vector<LevelResults>& levels, bool counts_differ) {
  const ArmResults& reference = levels.front().arms.front();
  for (const ArmResults& arm : levels.front().arms) {
    if (RequestsOf(arm) != RequestsOf(reference) && !counts_differ) {
      return absl::InternalError(absl::StrCat(arm.policy, " ran ", RequestsOf(arm),
                                              " prompts, but ", reference.policy, " ran ",
                                              RequestsOf(reference)));
    }
  }
  const TextDifferences found = FindDifferentTexts(levels);
  return found.first.ok() ? absl::OkStatus() : absl::DataLossError(found.ToString());
}

}  // namespace bastion
