// How a request's tokens are picked. Plain data.
#ifndef BASTION_COMMON_STAGES_SAMPLING_PARAMS_H_
#define BASTION_COMMON_STAGES_SAMPLING_PARAMS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace bastion {

// The keyed choice: argmax_x (logit(x)/temperature + g(seed, position, x)) among the tokens that
// top-k, then top-p, then min-p leave in. Temperature 0 is plain argmax. All that a drafter needs
// to know to guess with the same noise.
struct ChoiceParams {
  float temperature = 0.0f;
  uint64_t seed = 0;
  int top_k = 0;       // 0: off.
  float top_p = 1.0f;  // 1: off.
  float min_p = 0.0f;  // 0: off; relative to the likeliest token.

  friend bool operator==(const ChoiceParams&, const ChoiceParams&) = default;
};

// And what is done to the logits before, in this order: logit_bias, min_tokens, repetition,
// frequency and presence penalty (Hugging Face's processors, and vLLM's where it has none). The
// penalties see the true path to each row: committed text and a tree node's own ancestors.
struct SamplingParams : ChoiceParams {
  float repetition_penalty = 1.0f;  // Of tokens in prompt or output: divides logits > 0, multiplies
                                    // others.
  float presence_penalty = 0.0f;    // Taken off for every token of the output ...
  float frequency_penalty = 0.0f;   // ... and this once for each time it is there.
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  int prompt_tokens = 0;                  // The output begins after so many tokens.
  int min_tokens = 0;                     // Of output, before
  std::vector<TokenId> stop_tokens = {};  // these can be chosen.
  std::optional<int> logprobs = {};  // How many of the likeliest tokens to tell for each choice.

  // Whether anything is done to the logits before the choice.
  [[nodiscard]] bool edits_logits() const {
    return penalizes() || !logit_bias.empty() || min_tokens > 0;
  }
  [[nodiscard]] bool penalizes() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }

  // INVALID_ARGUMENT naming the field that is out of range.
  [[nodiscard]] absl::Status Validate(int vocabulary) const;

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// What the target thought of one choice: log-probabilities of its own distribution, before any of
// the above.
struct TokenLogprobs {
  float chosen = 0;
  std::vector<std::pair<TokenId, float>> top = {};  // Falling.

  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_SAMPLING_PARAMS_H_
