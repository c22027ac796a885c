#include "tools/exactness/text_check.h"

#include <algorithm>

#include "common/base/status.h"

namespace bastion {
namespace {

using Texts = std::vector<PromptMeasurement>;

class TextChecker {
 public:
  explicit TextChecker(const TextCheck& check) : check_(check) {
    for (const int size : check_.batch_sizes) {
      for (const TextPolicy& policy : check_.policies) {
        PolicyTexts& texts = report_.policies.emplace_back();
        texts.policy = policy.name;
        texts.batch_size = size;
      }
    }
  }

  absl::StatusOr<TextReport> Run() {
    for (const TextSetting& setting : check_.settings) {
      ASSIGN_OR_RETURN(const Texts reference, RunPrompts(*check_.policies[0].arm, setting,
                                                         MaxPromptCount(), check_.batch_sizes[0]));
      size_t index = 0;
      for (const int size : check_.batch_sizes) {
        for (const TextPolicy& policy : check_.policies) {
          ASSIGN_OR_RETURN(const Texts texts,
                           RunPrompts(*policy.arm, setting, PromptCount(size), size));
          RETURN_IF_ERROR(Compare(setting, reference, texts, report_.policies[index++]));
          if (check_.progress) check_.progress(++done_, Total());
        }
      }
    }
    return std::move(report_);
  }

 private:
  [[nodiscard]] int Total() const {
    return static_cast<int>(check_.settings.size() * report_.policies.size());
  }
  // Number of prompts that run at this batch size.
  [[nodiscard]] size_t PromptCount(int batch_size) const {
    return std::min<size_t>(check_.prompts.size(), std::max(check_.max_prompts, batch_size));
  }
  [[nodiscard]] size_t MaxPromptCount() const {
    return PromptCount(*std::max_element(check_.batch_sizes.begin(), check_.batch_sizes.end()));
  }

  // Runs the first `count` prompts, `size` at the same time.
  absl::StatusOr<Texts> RunPrompts(Arm& arm, const TextSetting& setting, size_t count,
                                   int size) const {
    LoadPlan plan = {{.concurrency = size}, {}, size};
    for (size_t i = 0; i < count; ++i) {
      plan.requests.push_back({&check_.prompts[i], check_.max_new_tokens, absl::ZeroDuration()});
    }
    BenchSettings settings = {setting.sampling, check_.max_new_tokens};
    settings.reuse_prefixes = true;
    ASSIGN_OR_RETURN(LoadRun run, arm.Run(plan, settings));
    return std::move(run.requests);
  }

  absl::Status Compare(const TextSetting& setting, const Texts& reference, const Texts& texts,
                       PolicyTexts& results) {
    for (size_t i = 0; i < texts.size(); ++i) {
      ++results.texts;
      results.tokens += static_cast<int>(texts[i].output.size());
      results.cycles += static_cast<int>(texts[i].cycles.size());
      if (texts[i].output == reference[i].output) continue;
      TextDifference difference = FirstDifference(reference[i].output, texts[i].output);
      difference.prompt = texts[i].id;
      difference.policy = results.policy;
      difference.setting = setting.name;
      difference.batch_size = results.batch_size;
      std::vector<TokenId> prefix = check_.prompts[i].tokens;
      prefix.insert(prefix.end(), texts[i].output.begin(),
                    texts[i].output.begin() + difference.position);
      RETURN_IF_ERROR(MeasureGap(setting.sampling, prefix, difference));
      ++(difference.rounding ? results.within_rounding : results.different);
      report_.differences.push_back(std::move(difference));
    }
    return absl::OkStatus();
  }

  static TextDifference FirstDifference(const std::vector<TokenId>& expected,
                                        const std::vector<TokenId>& actual) {
    TextDifference difference;
    const auto at = [](const std::vector<TokenId>& text, size_t i) {
      return i < text.size() ? text[i] : kNoToken;
    };
    size_t i = 0;
    while (at(expected, i) == at(actual, i)) ++i;
    difference.position = static_cast<int>(i);
    difference.expected = at(expected, i);
    difference.actual = at(actual, i);
    for (++i; i < std::max(expected.size(), actual.size()); ++i) {
      if (at(expected, i) != at(actual, i)) ++difference.tokens_after;
    }
    return difference;
  }

  // Sets the gap of `difference` if the target reports both tokens.
  absl::Status MeasureGap(const SamplingParams& sampling, const std::vector<TokenId>& prefix,
                          TextDifference& difference) const {
    const std::pair<TokenId, TokenId> tokens(difference.expected, difference.actual);
    if (tokens.first == kNoToken || tokens.second == kNoToken) return absl::OkStatus();
    ASSIGN_OR_RETURN(const auto log_probs, check_.log_probs->LogProbs(prefix, tokens));
    if (!log_probs) return absl::OkStatus();
    difference.gap = ChoiceGap(*log_probs, tokens, static_cast<Position>(prefix.size()), sampling);
    difference.raw_gap = sampling.edits_logits();
    difference.rounding = *difference.gap < check_.rounding;
    return absl::OkStatus();
  }

  const TextCheck& check_;
  TextReport report_;
  int done_ = 0;
};

}  // namespace

bool TextReport::exact() const {
  return std::all_of(differences.begin(), differences.end(),
                     [](const TextDifference& difference) { return difference.rounding; });
}

bool TextReport::speculated() const {
  return std::any_of(policies.begin(), policies.end(),
                     [](const PolicyTexts& policy) { return policy.tau() > 1; });
}

absl::StatusOr<TextReport> CheckTexts(const TextCheck& check) { return TextChecker(check).Run(); }

}  // namespace bastion
