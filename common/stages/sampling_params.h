// How the target chooses the tokens of a request. Plain data.
#ifndef BASTION_COMMON_STAGES_SAMPLING_PARAMS_H_
#define BASTION_COMMON_STAGES_SAMPLING_PARAMS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace bastion {

// Parameters of the keyed choice: argmax_x (logit(x)/temperature + g(seed, position, x)) over the
// tokens that remain after top-k, then top-p, then min-p. Temperature 0 is plain argmax. A drafter
// with these parameters can draw the same noise g as the target.
struct ChoiceParams {
  float temperature = 0.0f;
  uint64_t seed = 0;
  int top_k = 0;       // 0: off.
  float top_p = 1.0f;  // 1: off.
  float min_p = 0.0f;  // 0: off. Fraction of the most likely token's probability.

  friend bool operator==(const ChoiceParams&, const ChoiceParams&) = default;
};

// Adds the edits that are applied to the logits before the choice, in this order: logit_bias,
// min_tokens, repetition, frequency and presence penalty. They follow Hugging Face's processors, or
// vLLM's where Hugging Face has none. For a row, the penalties count the tokens of its own path:
// the committed text and the ancestors of the tree node.
struct SamplingParams : ChoiceParams {
  // For each token in the prompt or the output: a positive logit is divided by it, any other logit
  // is multiplied by it. 1: off.
  float repetition_penalty = 1.0f;
  // Subtracted from the logit of each token in the output. 0: off.
  float presence_penalty = 0.0f;
  // Subtracted from a token's logit once per occurrence in the output. 0: off.
  float frequency_penalty = 0.0f;
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // Added to the logits of these tokens.
  int prompt_tokens = 0;                                   // Number of tokens before the output.
  // The output has at least this many tokens before any of `stop_tokens` can be chosen.
  int min_tokens = 0;
  std::vector<TokenId> stop_tokens = {};
  // How many of the most likely tokens to report for each choice. Null: no log-probabilities.
  std::optional<int> logprobs = {};

  // True if the logits are edited before the choice.
  [[nodiscard]] bool edits_logits() const {
    return penalizes() || !logit_bias.empty() || min_tokens > 0;
  }
  [[nodiscard]] bool penalizes() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }

  // INVALID_ARGUMENT naming the field that is out of range and its limits.
  [[nodiscard]] absl::Status Validate(int vocabulary) const;

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// Log-probabilities of one choice under the target's own distribution: before temperature,
// truncation and logit edits.
struct TokenLogprobs {
  float chosen = 0;
  std::vector<std::pair<TokenId, float>> top = {};  // By decreasing log-probability.

  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_SAMPLING_PARAMS_H_
