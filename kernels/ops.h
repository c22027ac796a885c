// The contract of every kernel: what goes in, what comes out, in which order the work is done.
//
// Row invariance: what a kernel computes for one row is bit for bit the same whatever other rows
// are in the call, however many threads run it, and wherever in the cache a key lies. So a token
// costs the same bits in a plain decode step, in a prefill chunk and in a tree: speculation is
// lossless to the last bit, in fp32 and in bf16. Every implementation must keep this (tests/kernels
// checks it), except for the portable one, which promises less (kernels/torch/torch_backend.h).
//
// Activations are fp32; weights are fp32, bf16 or int8, cached keys and values fp32 or bf16. Sums
// are fp32.
// Shape legend: common/base/ids.h.
#ifndef BASTION_KERNELS_OPS_H_
#define BASTION_KERNELS_OPS_H_

#include <cstdint>

#include "kernels/types.h"

namespace bastion::kernels {

// y = x Wᵀ, or y += x Wᵀ when `accumulate`. Each output is one chain of fused multiply-adds over k.
// With int8 weights each row of x is rounded to int8 too (x = max|x|/127 · int8), and the sum is
// one of integers. With bf16 weights on a CPU with matrix instructions x is rounded to bf16, and
// the sum is that of its tiles. In any case a row's y does not depend on the other rows.
struct LinearArgs {
  const float* x = nullptr;  // [R, K]
  PackedMatrix weight;       // [N, K]
  float* y = nullptr;        // [R, N], rows `y_stride` apart
  int rows = 0;              // R
  int y_stride = 0;
  bool accumulate = false;
};

// y = x / sqrt(mean(x²) + eps) * weight, row by row.
struct RmsNormArgs {
  const float* x = nullptr;       // [R, C]
  const float* weight = nullptr;  // [C]
  float* y = nullptr;             // [R, C]
  int rows = 0;                   // R
  int width = 0;                  // C
  float epsilon = 1e-6f;
};

// Rows of the embedding table for `tokens`.
struct EmbedArgs {
  const int32_t* tokens = nullptr;  // [R]
  const void* table = nullptr;      // [V, C], row-major
  DType dtype = DType::kF32;
  float* y = nullptr;  // [R, C]
  int rows = 0;        // R
  int width = 0;       // C
};

// Per head: RMS norm over D with its weight, then rotary embedding by the row's position (halves
// rotated, as Qwen and Llama do). Keys and values then go to their cache slots.
// `query` rows are normed and rotated in place; a null `query` means keys and values only.
struct QkvArgs {
  float* query = nullptr;              // [R, H, D], rows `query_stride` apart, in place
  const float* key = nullptr;          // [R, G, D], rows `kv_stride` apart
  const float* value = nullptr;        // [R, G, D], rows `kv_stride` apart
  const float* query_norm = nullptr;   // [D]
  const float* key_norm = nullptr;     // [D]
  const float* cosine_sine = nullptr;  // [positions, D]: D/2 cosines, then D/2 sines
  const int32_t* positions = nullptr;  // [R]
  const int64_t* slots = nullptr;      // [R]
  KvLayer cache;
  int rows = 0;  // R
  int query_heads = 0;
  int query_stride = 0;
  int kv_stride = 0;
  float epsilon = 1e-6f;
};

// Which of the rows added in this call a row sees, besides the cached prefix.
enum class RowMask {
  kCausal,     // Rows up to itself: a prefill chunk, a chain. No mask is read.
  kAncestors,  // Rows whose bit is set: a tree.
  kFull,       // All rows: the block of a block-diffusion drafter.
};

// The rows of one sequence in a flattened forward: rows [first_row, first_row + rows), whose keys
// and values lie after `cached` earlier tokens. Token j of the sequence lies at offset j % 16 of
// page pages[j / 16]; row i of the call is token cached + i.
struct AttentionSpan {
  int first_row = 0;
  int rows = 0;
  int cached = 0;
  const int32_t* pages = nullptr;
  RowMask mask = RowMask::kCausal;
  const uint64_t* ancestors = nullptr;  // [rows, words], bit j of row i: i sees row j
  int words = 0;
};

// Attention of each row over its cached prefix (no mask) and the rows it sees (mask), under one
// softmax. A row's keys are taken in the order of their positions, wherever they are stored, so a
// tree row gets the bits of the same path run as a chain.
// `window` > 0: only keys whose position is above row position - window.
struct AttentionArgs {
  const float* query = nullptr;  // [R, H, D], rows `query_stride` apart
  float* output = nullptr;       // [R, H, D], contiguous
  KvLayer cache;
  const AttentionSpan* spans = nullptr;  // [B]
  int span_count = 0;                    // B
  const int32_t* positions = nullptr;    // [R]
  int query_heads = 0;
  int query_stride = 0;
  int window = 0;
  float scale = 1.0f;
};

// y = silu(gate) * up.
struct SiluMulArgs {
  const float* gate_up = nullptr;  // [R, 2, I]
  float* y = nullptr;              // [R, I]
  int rows = 0;                    // R
  int width = 0;                   // I
};

// How the token after one row is picked: the keyed Gumbel choice argmax_x (logit(x)/T + g(seed,
// position, x)) among the tokens that top-k, then top-p, then min-p leave in, each seeing
// softmax(logit/T) over what the one before left (Hugging Face's order and meaning). Of tokens that
// tie for the last place top-k keeps all, top-p the lower ids.
struct ChoiceRule {
  float temperature = 0;  // 0: argmax, whatever the rest says.
  uint64_t seed = 0;
  int32_t position = 0;  // Of the token being chosen.
  int top_k = 0;         // 0: off.
  float top_p = 1;       // 1: off.
  float min_p = 0;       // 0: off.

  [[nodiscard]] bool truncates() const { return top_k > 0 || top_p < 1 || min_p > 0; }
};

// Ties go to the lowest id; a row of NaNs, or one that rules every token out, gives -1.
struct ChooseArgs {
  const float* logits = nullptr;      // [R, V]
  const ChoiceRule* rules = nullptr;  // [R]
  int32_t* tokens = nullptr;          // [R]
  int rows = 0;                       // R
  int vocabulary = 0;                 // V
};

// The K most probable tokens of each row with their log-probabilities under the row's full softmax,
// sorted by falling log-probability, ties by rising id; a row with NaNs may give ids of -1.
// With `coupling`, what is ranked are the values that the keyed choice compares, logit/T + g, and
// the log-probabilities are those of their softmax; g is exact to float precision only. Tokens that
// a rule's top-k, top-p or min-p rules out come last, with log-probability -inf. REQUIRES: 0 <
// candidates <= vocabulary.
struct TopKArgs {
  const float* logits = nullptr;         // [R, V]
  const ChoiceRule* coupling = nullptr;  // [R], or null
  int32_t* tokens = nullptr;             // [R, K]
  float* log_probs = nullptr;            // [R, K]
  int rows = 0;                          // R
  int vocabulary = 0;                    // V
  int candidates = 0;                    // K
};

// Moves cached tokens: slot sources[i] -> destinations[i], as if all were read before any is
// written.
struct KvMoveArgs {
  KvLayer cache;
  const int64_t* sources = nullptr;       // [n]
  const int64_t* destinations = nullptr;  // [n]
  int count = 0;                          // n
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_H_
