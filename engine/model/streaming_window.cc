#include "engine/model/streaming_window.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace bastion::nn {

absl::Status CheckStreaming(const hub::ModelConfig& config, const StreamingWindow& window) {
  if (window.sinks < 0 || window.tokens < 0 || (window.sinks > 0 && window.tokens == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attention_sinks is ", window.sinks, " and attention_window is ", window.tokens,
        "; sinks must not be negative, and they need a window of at least 1 token"));
  }
  if (!window.on()) return absl::OkStatus();
  if (int64_t{window.sinks} + window.tokens > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attention_sinks + attention_window is ", int64_t{window.sinks} + window.tokens,
        ", but the model has ", config.max_positions, " positions; lower attention_window"));
  }
  const std::vector<int>& own = config.sliding_windows;
  if (std::any_of(own.begin(), own.end(), [](int layer) { return layer > 0; })) {
    return absl::UnimplementedError(
        "layers of this model have sliding windows of their own; run it without attention_window");
  }
  const std::vector<bool>& rotary = config.blocks.rope.layers;
  if (std::find(rotary.begin(), rotary.end(), false) != rotary.end()) {
    return absl::UnimplementedError(
        "layers of this model have no rotary embedding; run it without attention_window");
  }
  return absl::OkStatus();
}

}  // namespace bastion::nn
