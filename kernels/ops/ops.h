// The contract of every kernel: its inputs, its outputs, and the order of its arithmetic.
//
// Row invariance: the result for a row is bit for bit the same regardless of the other rows in the
// call, the number of threads, and where keys are stored in the cache. A token therefore gets the
// same bits in a plain decode step, in a prefill chunk and in a tree, so speculation is lossless to
// the last bit, in fp32 and in bf16. Every CPU implementation must guarantee this (tests/kernels
// checks it), except for the portable one, which guarantees less (kernels/torch/torch_backend.h).
// kernels/cuda/ops.h says what the GPU kernels guarantee.
//
// Activations are fp32. Weights are fp32, bf16 or int8. Cached keys and values are fp32 or bf16.
// Sums are fp32. Shape legend: common/base/ids.h.
#ifndef BASTION_KERNELS_OPS_OPS_H_
#define BASTION_KERNELS_OPS_OPS_H_

#include <cstdint>

#include "kernels/ops/types.h"

namespace bastion::kernels {

// y = x Wᵀ, or y += x Wᵀ if `accumulate`, with K inputs and N outputs per row. Then y += bias, if
// there is one. Each output is one chain of fused multiply-adds over k, with two exceptions. With
// int8 weights, each row of x is also rounded to int8 (x = max|x|/127 · int8), and the products are
// summed as integers. With bf16 weights on a CPU with matrix instructions, x is rounded to bf16,
// and the matrix instructions define the order of the sum. In all cases, a row of y does not depend
// on the other rows.
struct LinearArgs {
  const float* x = nullptr;  // [R, K]
  PackedMatrix weight;       // [N, K]
  float* y = nullptr;        // [R, N], rows `y_stride` floats apart
  int rows = 0;              // R
  int y_stride = 0;
  bool accumulate = false;
  const float* bias = nullptr;  // [N], or null
};

// y = x / sqrt(mean(x²) + epsilon) * weight, for each row.
struct RmsNormArgs {
  const float* x = nullptr;       // [R, C]
  const float* weight = nullptr;  // [C]
  float* y = nullptr;             // [R, C]
  int rows = 0;                   // R
  int width = 0;                  // C
  float epsilon = 1e-6f;
};

// y = (x − mean(x)) / sqrt(mean((x − mean(x))²) + epsilon) * weight + bias, for each row.
struct LayerNormArgs {
  const float* x = nullptr;       // [R, C]
  const float* weight = nullptr;  // [C]
  const float* bias = nullptr;    // [C]
  float* y = nullptr;             // [R, C]
  int rows = 0;                   // R
  int width = 0;                  // C
  float epsilon = 1e-5f;
};

// y = the rows of the embedding table for `tokens`.
struct EmbedArgs {
  const int32_t* tokens = nullptr;  // [R]
  const void* table = nullptr;      // [V, C], row-major
  DType dtype = DType::kF32;
  float* y = nullptr;  // [R, C]
  int rows = 0;        // R
  int width = 0;       // C
};

// Per head of queries and keys: RMS norm over D with its weight, if there is one, then rotary
// embedding by the row's position. The first `rotary_dims` elements of a head rotate: element i of
// their first half with element i of their second half. Queries are changed in place. Keys and
// values are stored in their cache slots. If `query` is null, only keys and values are processed.
struct QkvArgs {
  float* query = nullptr;              // [R, H, D], rows `query_stride` floats apart, in place
  const float* key = nullptr;          // [R, G, D], rows `kv_stride` floats apart
  const float* value = nullptr;        // [R, G, D], rows `kv_stride` floats apart
  const float* query_norm = nullptr;   // [D], or null
  const float* key_norm = nullptr;     // [D], or null
  const float* cosine_sine = nullptr;  // [positions, rotary_dims]: cosines, then sines
  const int32_t* positions = nullptr;  // [R]
  const int64_t* slots = nullptr;      // [R]
  KvLayer cache;
  int rows = 0;  // R
  int query_heads = 0;
  int query_stride = 0;
  int kv_stride = 0;
  float epsilon = 1e-6f;
  int rotary_dims = 0;  // An even number up to D. 0: D.

  [[nodiscard]] int rotated() const { return rotary_dims > 0 ? rotary_dims : cache.head_dim; }
};

// The rows of its span that a row sees. Every row also sees the cached prefix.
enum class RowMask {
  kCausal,     // The rows up to itself: a prefill chunk or a chain. `ancestors` is not read.
  kAncestors,  // The rows whose ancestor bit is set: a tree.
  kFull,       // All rows: a block of a block-diffusion drafter.
};

// The rows of one sequence in a flattened forward: rows [first_row, first_row + rows) of the call,
// which follow `cached` earlier tokens. A tree may be computed in several forwards: its first
// `earlier` rows are then already in the cache. Row i of the span is token cached + earlier + i of
// the sequence. Token j of the sequence lies at offset j % 16 of page pages[j / 16].
struct AttentionSpan {
  int first_row = 0;
  int rows = 0;
  int cached = 0;
  const int32_t* pages = nullptr;
  RowMask mask = RowMask::kCausal;
  // [rows, words], bit j of row i: i sees token cached + j. The tokens that a row sees have
  // consecutive positions, from `cached` up to the row's own.
  const uint64_t* ancestors = nullptr;
  int words = 0;    // 64-bit words per row of `ancestors`.
  int earlier = 0;  // 0 unless the mask is kAncestors.

  [[nodiscard]] int length() const { return cached + earlier + rows; }
};

// Attention of each row over its cached prefix (no mask) and the rows that it sees (mask), in one
// softmax. The keys of a row are processed in the order of their positions, wherever they are
// stored, so a tree row gets the same bits as the same path run as a chain. If `window` > 0, a row
// sees only keys whose position is greater than its own position minus `window`.
struct AttentionArgs {
  const float* query = nullptr;  // [R, H, D], rows `query_stride` floats apart
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

// y = silu(gate) * up. I is the width of the MLP.
struct SiluMulArgs {
  const float* gate_up = nullptr;  // [R, 2, I]
  float* y = nullptr;              // [R, I]
  int rows = 0;                    // R
  int width = 0;                   // I
};

// y = gelu(x) = x Φ(x), with the distribution function Φ of the normal distribution (the exact form
// with erf, not its approximation with tanh). y may be x. I is the width of the MLP.
struct GeluArgs {
  const float* x = nullptr;  // [R, I]
  float* y = nullptr;        // [R, I]
  int rows = 0;              // R
  int width = 0;             // I
};

// x = factor x. Then, if cap > 0, x = cap tanh(x / cap). In place.
struct ScaleArgs {
  float* x = nullptr;  // [R, C]
  int rows = 0;        // R
  int width = 0;       // C
  float factor = 1;
  float cap = 0;  // 0: none.
};

// y[r][c] = Σ_t (base[t][c] + coefficients[r][t][c / group]) x[r − t][c], added in the order t = 0,
// 1, …, over the rows of the same block: row r is row r % block_rows of its block. If `accumulate`,
// the sum is added to y[r][c] instead. REQUIRES: group divides C; y is not x; x begins with the
// first row of a block.
struct ConvolveArgs {
  const float* x = nullptr;             // [R, C]
  const float* base = nullptr;          // [T, C]
  const float* coefficients = nullptr;  // [R, T, C / group], rows `stride` floats apart
  float* y = nullptr;                   // [R, C]
  int rows = 0;                         // R
  int width = 0;                        // C
  int taps = 0;                         // T
  int group = 0;
  int block_rows = 0;
  int stride = 0;
  bool accumulate = false;
};

// Chooses experts for each row: those with the largest router logits; ties go to the lowest id. A
// row's experts are in ascending order. Their weights are the softmax over all logits or, if
// `normalize`, over the chosen ones. REQUIRES: 1 <= chosen <= experts_total.
struct RouteArgs {
  const float* logits = nullptr;  // [R, E]
  int32_t* experts = nullptr;     // [R, k]
  float* weights = nullptr;       // [R, k]
  int rows = 0;                   // R
  int experts_total = 0;          // E
  int chosen = 0;                 // k
  bool normalize = false;
};

// y[i] = x[sources[i]].
struct GatherRowsArgs {
  const float* x = nullptr;          // Rows of C elements.
  const int32_t* sources = nullptr;  // [n]
  float* y = nullptr;                // [n, C]
  int rows = 0;                      // n
  int width = 0;                     // C
};

// x[r] += weights[r][j] * y[places[r][j]] for j = 0, 1, … k − 1, in this order.
struct CombineArgs {
  const float* y = nullptr;         // Rows of C elements.
  const int32_t* places = nullptr;  // [R, k]
  const float* weights = nullptr;   // [R, k]
  float* x = nullptr;               // [R, C]
  int rows = 0;                     // R
  int chosen = 0;                   // k
  int width = 0;                    // C
};

// How the token after a row is chosen: argmax_x (logit(x)/T + g(seed, position, x)), the keyed
// Gumbel choice with the noise g of common/base/random.h, among the tokens that survive top-k, then
// top-p, then min-p. Each of the three uses softmax(logit/T) over the survivors of the previous
// one, as in Hugging Face Transformers. If several tokens tie for the last place, top-k keeps all
// of them and top-p keeps those with the lower ids.
struct ChoiceRule {
  float temperature = 0;  // 0: argmax; the other fields have no effect.
  uint64_t seed = 0;
  int32_t position = 0;  // Position of the chosen token.
  int top_k = 0;         // 0: off.
  float top_p = 1;       // 1: off.
  float min_p = 0;       // 0: off.

  [[nodiscard]] bool truncates() const { return top_k > 0 || top_p < 1 || min_p > 0; }
};

// Chooses a token for each row. Ties go to the lowest id. The token is -1 if no token survives, for
// example because all logits of the row are NaN or -inf.
struct ChooseArgs {
  const float* logits = nullptr;      // [R, V]
  const ChoiceRule* rules = nullptr;  // [R]
  int32_t* tokens = nullptr;          // [R]
  int rows = 0;                       // R
  int vocabulary = 0;                 // V
};

// The K most probable tokens of each row with their log-probabilities under the softmax of the
// whole row, sorted by descending log-probability, then by ascending id. A row with NaNs may give
// ids of -1.
//
// With `coupling`, the kernel ranks the values that the keyed choice compares, logit/T + g, and
// returns the log-probabilities of their softmax; g has only float precision. Tokens that the
// rule's top-k, top-p or min-p excludes come last, with log-probability -inf.
//
// With `ids`, column i of the logits is token ids[i], and the keyed choice draws g for that token.
//
// REQUIRES: 0 < candidates <= vocabulary; ids ascend.
struct TopKArgs {
  const float* logits = nullptr;         // [R, V]
  const ChoiceRule* coupling = nullptr;  // [R], or null
  int32_t* tokens = nullptr;             // [R, K]
  float* log_probs = nullptr;            // [R, K]
  int rows = 0;                          // R
  int vocabulary = 0;                    // V
  int candidates = 0;                    // K
  const int32_t* ids = nullptr;          // [V], or null: column i is token i
};

// Moves cached tokens from slot sources[i] to slot destinations[i], as if all were read before any
// is written.
struct KvMoveArgs {
  KvLayer cache;
  const int64_t* sources = nullptr;       // [n]
  const int64_t* destinations = nullptr;  // [n]
  int count = 0;                          // n
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_OPS_H_
