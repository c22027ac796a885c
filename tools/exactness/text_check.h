// The text check: for the same prompts, settings and seed, every policy must generate exactly the
// tokens of plain decoding, alone and in a batch.
#ifndef BASTION_TOOLS_EXACTNESS_TEXT_CHECK_H_
#define BASTION_TOOLS_EXACTNESS_TEXT_CHECK_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/arm.h"
#include "tools/exactness/log_prob_source.h"

namespace bastion {

struct TextPolicy {
  std::string name;
  Arm* arm = nullptr;
};

struct TextSetting {
  std::string name;
  SamplingParams sampling;
};

struct TextCheck {
  std::vector<TextPolicy> policies;  // The first policy is plain decoding, the reference.
  std::vector<TextSetting> settings;
  std::vector<BenchPrompt> prompts;
  std::vector<int> batch_sizes;  // The reference runs with the first one.
  int max_prompts = 2;           // Prompts per batch size, or the batch size if that is larger.
  int max_new_tokens = 24;
  double rounding = 0;  // A difference with a gap below this counts as a rounding error.
  LogProbSource* log_probs = nullptr;
  std::function<void(int done, int total)> progress;
};

// The first token of a text that differs from the reference. Later tokens follow another prefix, so
// their differences prove nothing.
struct TextDifference {
  std::string prompt, policy, setting;
  int batch_size = 0;
  int position = 0;             // Index in the output.
  TokenId expected = kNoToken;  // kNoToken: the text ends there.
  TokenId actual = kNoToken;
  int tokens_after = 0;       // Number of later positions at which the texts differ.
  std::optional<double> gap;  // ChoiceGap of the two tokens, if the target reports both.
  bool raw_gap = false;       // True: the setting edits logits, and the gap ignores the edits.
  bool rounding = false;      // The gap is below the tolerance.
};

struct PolicyTexts {
  std::string policy;
  int batch_size = 0;
  int texts = 0, tokens = 0, cycles = 0;
  int different = 0;        // Texts that differ by more than rounding.
  int within_rounding = 0;  // Texts that differ within rounding.

  [[nodiscard]] double tau() const { return cycles > 0 ? double(tokens) / cycles : 0; }
};

struct TextReport {
  std::vector<PolicyTexts> policies;
  std::vector<TextDifference> differences;

  // True if no text differs by more than rounding.
  [[nodiscard]] bool exact() const;
  // True if a policy generated more than one token per cycle. Otherwise the check did not test
  // speculation.
  [[nodiscard]] bool speculated() const;
};

// A difference is not an error. Errors: those of the arms and of check.log_probs.
// REQUIRES: policies, settings, prompts and batch sizes are not empty.
[[nodiscard]] absl::StatusOr<TextReport> CheckTexts(const TextCheck& check);

}  // namespace bastion

#endif  // BASTION_TOOLS_EXACTNESS_TEXT_CHECK_H_
