// Which models can run with attention sinks and a window (StreamingWindow).
#ifndef BASTION_ENGINE_MODEL_STREAMING_WINDOW_H_
#define BASTION_ENGINE_MODEL_STREAMING_WINDOW_H_

#include "absl/status/status.h"
#include "common/hub/model_config.h"
#include "engine/model/engine_options.h"

namespace bastion::nn {

// INVALID_ARGUMENT or UNIMPLEMENTED if a model of `config` cannot run with `window`.
[[nodiscard]] absl::Status CheckStreaming(const hub::ModelConfig& config,
                                          const StreamingWindow& window);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_STREAMING_WINDOW_H_
