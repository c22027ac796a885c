// Attention with sinks and a window (StreamingLLM, Xiao et al., arXiv 2309.17453).
//
// A row sees the first tokens of its text, the sinks, and the last ones, the window. Positions are
// those within the keys that the row sees: the sinks have 0, 1, …, and the window follows them
// without a gap, however many tokens of the text lie between. So the position of a cached key
// depends on the row that reads it: the cache holds unrotated keys, and each row rotates the keys
// that it sees. (A GPU rotates the queries instead: kernels/cuda/ops.h.)
//
// Every row is computed alone, in the same way in a plain decode step, a prompt and a tree. What it
// sees follows from its own position in the text. So speculation changes no bit of it.
//
// Not thread-safe: passes share scratch memory.
#ifndef BASTION_ENGINE_HOST_STREAMING_ATTENTION_H_
#define BASTION_ENGINE_HOST_STREAMING_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "engine/model/buffer.h"
#include "engine/model/device.h"

namespace bastion::nn {

struct StreamingScratch {
  Scratch gathered_keys, gathered_values;  // [n, G, D]: the n tokens that a row sees.
  Scratch keys, values;                    // The pages of the same tokens, keys rotated.
  std::vector<int32_t> tokens;             // [n]: their indices in the sequence.
  std::vector<int32_t> positions, pages;
  std::vector<int64_t> slots;
};

// Like Backend::qkv, but stores the keys unrotated, and rotates each query by its position within
// the keys that its row sees. `args` has queries.
void StreamingQkv(const HostKernels& host, const StreamingWindow& window, kernels::QkvArgs args,
                  StreamingScratch& scratch);

// Like Backend::attention, over a cache of unrotated keys. `qkv` names the rotary table. REQUIRES:
// no span is kFull or has earlier rows; `args` has no window of its own.
void StreamingAttention(const HostKernels& host, const StreamingWindow& window,
                        const kernels::QkvArgs& qkv, kernels::AttentionArgs args,
                        StreamingScratch& scratch);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_HOST_STREAMING_ATTENTION_H_
