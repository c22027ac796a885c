// The contract of every kernel on the device. They do what kernels/ops.h says of the ops of the
// same name, on the device's memory, put on a stream; shapes and slots are fixed when the work is
// recorded, and what changes from step to step lies in StepRows, which a recorded graph reads anew.
//
// The residual stream and what matrices give are fp32; what they take, queries and the cache are of
// the matrices' type, bf16 or fp32 (the latter to compare with the CPU, not to be fast). Sums are
// fp32 and in a fixed order: the same step gives the same bits again. Other than on the CPU a row's
// bits do depend on how many rows its step has, as its matrix products' tiles do.
//
// Shape legend: common/base/ids.h; R here is the step's capacity, of which `counts` says how much
// is in use.
#ifndef BASTION_KERNELS_CUDA_OPS_H_
#define BASTION_KERNELS_CUDA_OPS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/runtime.h"
#include "kernels/ops.h"
#include "kernels/types.h"

namespace bastion::kernels::cuda {

// The rows of one step. Span b has rows [first_rows[b], first_rows[b + 1]) after `cached[b]`
// earlier tokens; token j of its sequence lies at offset j % 16 of page pages[first_pages[b] + j /
// 16], and row i of the span is token cached + i. Rows from rows_used on are padding: token 0,
// position 0, a slot that nobody reads.
struct StepRows {
  const int32_t* used = nullptr;         // [2]: rows and spans in use
  const int32_t* tokens = nullptr;       // [R]
  const int32_t* positions = nullptr;    // [R]
  const int32_t* parents = nullptr;      // [R], as rows of the span; -1 for its first
  const int64_t* slots = nullptr;        // [R]
  const int32_t* first_rows = nullptr;   // [B + 1]
  const int32_t* cached = nullptr;       // [B]
  const int32_t* first_pages = nullptr;  // [B]
  const int32_t* masks = nullptr;        // [B], RowMask as a number
  const int32_t* pages = nullptr;        // All spans' page tables, one after the other
  const uint64_t* ancestors = nullptr;   // [R, words], bit j of row i of a span: i sees row j
  int words = 0;
  int row_capacity = 0;   // R
  int span_capacity = 0;  // B
};

// One layer of the paged cache on the device. A page holds kPageTokens tokens of all G kv heads:
//   keys, values  [pages, G, 16, D]     one row a token
// A slot is page * 16 + offset.
using DeviceKvLayer = KvLayer;

// Rows of the embedding for the step's tokens: y [R, C] of float.
struct EmbedArgs {
  StepRows rows;
  const void* table = nullptr;  // [V, C]
  DType dtype = DType::kF32;
  float* y = nullptr;  // [R, C]
  int width = 0;       // C
};
void Embed(const EmbedArgs& args, Stream& stream);

// y = rms_norm(x), rounded to `dtype` for a matrix to take. With `tap`, x itself is also kept there
// as features, rounded to the same type: the tap of one layer is a piece of a row of features.
struct RmsNormArgs {
  const float* x = nullptr;       // [R, C]
  const float* weight = nullptr;  // [C]
  void* y = nullptr;              // [R, C] of dtype
  void* tap = nullptr;            // [R, C] of dtype, rows `tap_stride` elements apart, or null
  int tap_stride = 0;
  DType dtype = DType::kF32;
  int rows = 0;   // R
  int width = 0;  // C
  float epsilon = 1e-6f;
};
void RmsNorm(const RmsNormArgs& args, Stream& stream);

// Per head: RMS norm over D, rotary embedding; queries to `query_out`, keys and values to the
// cache.
struct QkvArgs {
  StepRows rows;
  const float* query = nullptr;        // [R, H, D], rows `stride` apart; null: keys and values only
  const float* key = nullptr;          // [R, G, D], rows `stride` apart
  const float* value = nullptr;        // [R, G, D], rows `stride` apart
  void* query_out = nullptr;           // [R, H, D] of the cache's type
  const float* query_norm = nullptr;   // [D]
  const float* key_norm = nullptr;     // [D]
  const float* cosine_sine = nullptr;  // [positions, D]: D/2 cosines, then D/2 sines
  DeviceKvLayer cache;
  int query_heads = 0;
  int stride = 0;
  float epsilon = 1e-6f;
};
void Qkv(const QkvArgs& args, Stream& stream);

// y = silu(gate) * up, rounded to `dtype`.
struct SiluMulArgs {
  const float* gate_up = nullptr;  // [R, 2, I]
  void* y = nullptr;               // [R, I] of dtype
  DType dtype = DType::kF32;
  int rows = 0;   // R
  int width = 0;  // I
};
void SiluMul(const SiluMulArgs& args, Stream& stream);

// Attention of each row over its cached prefix and the rows it sees, in one launch: work is cut
// into (span, kv head, tile of rows, chunk of keys), and whoever finishes the last chunk of a tile
// merges them, in the chunks' order. How a span is cut depends on its own rows and length alone.
struct AttentionArgs {
  StepRows rows;
  const void* query = nullptr;  // [R, H, D] of the cache's type
  void* output = nullptr;       // [R, H, D] of the cache's type; padding rows are left alone
  DeviceKvLayer cache;
  int query_heads = 0;  // H
  int window = 0;       // As kernels/ops.h
  bool causal = false;  // Spans of mask kFull are causal in this layer
  float scale = 1.0f;
  // AttentionScratchBytes of memory that all layers share, zeroed once: each launch leaves its
  // counters at zero.
  void* scratch = nullptr;
  int multiprocessors = 1;
};
// REQUIRES: AttentionTakes the shape. Where there is a window, no row's position is below that of
// its span's first row.
void Attention(const AttentionArgs& args, Stream& stream);
// Heads of up to 256 elements, in multiples of 8; they are fastest at 64, 128 and 256.
[[nodiscard]] bool AttentionTakes(int query_heads, int kv_heads, int head_dim);
// Enough for any spans within the capacities, however long: at most 192 partial rows, of head_dim +
// 4 floats, for each row and each of a kv head's query heads, and at most 16384 for each span.
// 512 rows, 64 spans, 32 query heads, 8 kv heads of 128: 198 MiB; one span alone: 8.5 MiB.
[[nodiscard]] size_t AttentionScratchBytes(int row_capacity, int span_capacity, int query_heads,
                                           int kv_heads, int head_dim);

// What a request's bias, minimum length and penalties do to one logit: x + bias, then if it is
// among the tokens of the text x / penalty or x · penalty by its sign, then − frequency − presence.
struct LogitEdit {
  int32_t row = 0;
  int32_t token = 0;
  float bias = 0;       // −inf rules the token out.
  float penalty = 1;    // Repetition penalty.
  float frequency = 0;  // Frequency penalty times the count.
  float presence = 0;
};

// At most one edit for a (row, token). Launched only for steps that have any, outside of graphs.
struct EditArgs {
  float* logits = nullptr;           // [R, V]
  const LogitEdit* edits = nullptr;  // [n]
  float* before = nullptr;           // [n]: the logits as they were
  int count = 0;                     // n
  int vocabulary = 0;
};
void EditLogits(const EditArgs& args, Stream& stream);
void UndoEdits(const EditArgs& args, Stream& stream);

// What top-k, top-p and min-p leave of one row: tokens whose logit is above `least`, and of those
// that have just that, those up to `last_tied`.
struct Survivors {
  float least;
  int32_t last_tied;
};

// The keyed choice after every row (kernels/ops.h). Masses are summed as integers, so that their
// order does not matter. Ties go to the lowest id; −1 for a row of NaNs or with nothing left.
struct ChooseArgs {
  const int32_t* rows_used = nullptr;  // [1]: rows from there on are not looked at
  const float* logits = nullptr;       // [R, V]
  const ChoiceRule* rules = nullptr;   // [R]
  int32_t* tokens = nullptr;           // [R]
  void* scratch = nullptr;             // ChooseScratchBytes, zeroed once
  int rows = 0;                        // R
  int vocabulary = 0;                  // V
};
void Choose(const ChooseArgs& args, Stream& stream);
[[nodiscard]] size_t ChooseScratchBytes(int rows);

// The drafter's candidates (kernels/ops.h: TopKArgs). `candidates` <= kMostCandidates.
inline constexpr int kMostCandidates = 1024;
struct TopKArgs {
  const int32_t* rows_used = nullptr;
  const float* logits = nullptr;         // [R, V]
  const ChoiceRule* coupling = nullptr;  // [R]; of temperature 0: not coupled
  int32_t* tokens = nullptr;             // [R, K]; may be the host's
  float* log_probs = nullptr;            // [R, K]; may be the host's
  void* scratch = nullptr;               // TopKScratchBytes, zeroed once
  int rows = 0;                          // R
  int vocabulary = 0;                    // V
  int candidates = 0;                    // K
};
void TopK(const TopKArgs& args, Stream& stream);
[[nodiscard]] size_t TopKScratchBytes(int rows, int vocabulary);

// Walks each span's tree along the choices (verifier_service/verify/accept.h).
struct WalkResult {
  int32_t path_length = 0;  // Accepted nodes; −1 where a choice of the span is −1.
  int32_t next = 0;         // The choice after the last of them.
  int32_t first_kept = 0;   // Rows that spans before this one keep, roots and accepted nodes.
};
struct WalkArgs {
  StepRows rows;
  const int32_t* choices = nullptr;  // [R]
  WalkResult* results = nullptr;     // [B]
  // [R]: the k-th accepted node of span b, as a row of the span, is paths[first_rows[b] + k].
  int32_t* paths = nullptr;
  // The same for the host, or null.
  WalkResult* results_for_host = nullptr;
  int32_t* paths_for_host = nullptr;
};
void Walk(const WalkArgs& args, Stream& stream);

// Commits what was walked: in all layers the k-th accepted node's key and value move to the slot of
// row k + 1 of its span, and the features of the root and the accepted nodes of all spans are put
// side by side. Spans of path length −1 keep nothing.
struct CommitArgs {
  StepRows rows;
  const WalkResult* results = nullptr;    // [B]
  const int32_t* paths = nullptr;         // [R]
  const DeviceKvLayer* layers = nullptr;  // [L], in device memory
  int layer_count = 0;                    // L
  int kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kF32;       // Of the cache and the features
  const void* features = nullptr;  // [R, F] of dtype
  void* kept_features = nullptr;   // [rows kept, F] of dtype; may be the host's
  int feature_width = 0;           // F, a multiple of 8; 0: none
};
void Commit(const CommitArgs& args, Stream& stream);

// Puts *value at *flag after all that was put on the stream before, for Stream::AwaitFlag.
struct RaiseFlagArgs {
  const uint64_t* value = nullptr;  // Of the device
  uint64_t* flag = nullptr;         // Of the host
};
void RaiseFlag(const RaiseFlagArgs& args, Stream& stream);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_OPS_H_
