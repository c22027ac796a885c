// The text check: every policy must write, token for token, what plain decoding writes of the same
// prompts with the same settings and seed, alone and in a batch.
#ifndef BASTION_CLIENT_EXACTNESS_TEXT_CHECK_H_
#define BASTION_CLIENT_EXACTNESS_TEXT_CHECK_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/arm.h"
#include "client/exactness/token_opinion.h"

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
  std::vector<TextPolicy> policies;  // The first one is plain decoding, the reference.
  std::vector<TextSetting> settings;
  std::vector<BenchPrompt> prompts;
  std::vector<int> batch_sizes;  // The reference is written at the first.
  int max_prompts = 2;           // At each batch size; a larger batch is filled nevertheless.
  int max_new_tokens = 24;
  double rounding = 0;  // A difference with a smaller gap than this is rounding.
  TokenOpinion* opinion = nullptr;
  std::function<void(int done, int total)> progress;
};

// The first token of a text that is not the reference's. What follows it has another prefix, so it
// says nothing more.
struct TextDifference {
  std::string prompt, policy, setting;
  int batch_size = 0;
  int position = 0;             // In the output.
  TokenId expected = kNoToken;  // kNoToken: the text has ended there.
  TokenId actual = kNoToken;
  int tokens_after = 0;       // Of the two texts' tokens that follow, how many differ.
  std::optional<double> gap;  // ChoiceGap of the two tokens, where the target tells it.
  bool raw_gap = false;       // The setting edits logits, and the gap leaves that out.
  bool rounding = false;      // The gap is below the tolerance.
};

struct PolicyTexts {
  std::string policy;
  int batch_size = 0;
  int texts = 0, tokens = 0, cycles = 0;
  int different = 0;  // Texts; those within rounding are counted apart.
  int within_rounding = 0;

  [[nodiscard]] double tau() const { return cycles > 0 ? double(tokens) / cycles : 0; }
};

struct TextReport {
  std::vector<PolicyTexts> policies;
  std::vector<TextDifference> differences;

  [[nodiscard]] bool exact() const;
  // Whether any policy wrote more than a token a cycle: otherwise nothing was put to the test.
  [[nodiscard]] bool speculated() const;
};

// Errors are those of the arms and of the opinion; a difference is none.
// REQUIRES: policies, settings, prompts and batch sizes are not empty.
[[nodiscard]] absl::StatusOr<TextReport> CheckTexts(const TextCheck& check);

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_TEXT_CHECK_H_
