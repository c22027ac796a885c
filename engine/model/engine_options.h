// The options of an engine: device, formats and capacity. Main functions fill them in.
#ifndef BASTION_ENGINE_MODEL_ENGINE_OPTIONS_H_
#define BASTION_ENGINE_MODEL_ENGINE_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/ids.h"
#include "engine/model/formats.h"
#include "kernels/ops/backend.h"

namespace bastion::nn {

class Device;

// A table of the host's kernels and the threads that run them. Runs one forward at a time.
struct HostKernels {
  const kernels::Backend* backend = nullptr;
  kernels::ThreadPool* pool = nullptr;
};

// The tokens that a row attends to (StreamingLLM, Xiao et al., arXiv 2309.17453). Off without a
// window.
struct StreamingWindow {
  int sinks = 0;   // The first tokens of the text.
  int tokens = 0;  // The last tokens before the row, itself included. 0: all tokens of the text.

  [[nodiscard]] bool on() const { return tokens > 0; }
};

struct EngineOptions {
  Formats formats = {};
  std::shared_ptr<Device> device = nullptr;
  int kv_tokens = 65536;       // Tokens that the KV cache holds, all sequences together.
  bool show_progress = false;  // Show a progress bar on stderr while weights load.
  StreamingWindow streaming = {};
  // Limits of one forward. The engine allocates memory for them once.
  int max_rows = 512;
  int max_sequences = 64;
  // Bytes of device memory from which a drafter on the same device reads the target's features. 0:
  // off.
  int64_t share_bytes = 0;
  // The tokens that a drafter can draft, ascending: its LM head has rows for these only. Null: all
  // tokens. A target must have all.
  std::shared_ptr<const std::vector<TokenId>> head_tokens = nullptr;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_ENGINE_OPTIONS_H_
