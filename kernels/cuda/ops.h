// The contract of every GPU kernel. Each function enqueues the op that kernels/ops/ops.h specifies
// under the same name, on data in device memory. Recording a CUDA graph fixes the shapes and the
// pointers. The data that changes from step to step lies in StepRows, which every replay of the
// graph reads.
//
// The residual stream and the outputs of matrix products are fp32. The inputs of matrix products,
// the queries and the KV cache have the type of the weights: bf16 or fp32. (fp32 is for comparisons
// with the CPU and is not optimized.) Sums are fp32 and have a fixed order, so the same step always
// gives the same bits. As on the CPU, the bits of a row do not depend on the other rows of its
// step.
//
// Shape legend: common/base/ids.h. R is the row capacity of a step; StepRows::used says how many
// rows are in use.
#ifndef BASTION_KERNELS_CUDA_OPS_H_
#define BASTION_KERNELS_CUDA_OPS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/product/expert_product.h"
#include "kernels/cuda/product/sums.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/rows.h"
#include "kernels/ops/types.h"

namespace bastion::kernels::cuda {

// The rows of a step. Those from used[0] on are padding.
using StepRows = kernels::Rows;

// One layer of the paged KV cache in device memory. A page holds kPageTokens tokens of all G kv
// heads:
//   keys, values  [pages, G, 16, D]     one row per token
// A slot is page * 16 + offset.
using DeviceKvLayer = KvLayer;

// y = the rows of the embedding table for the step's tokens.
struct EmbedArgs {
  StepRows rows;
  const void* table = nullptr;  // [V, C]
  DType dtype = DType::kF32;
  float* y = nullptr;  // [R, C]
  int width = 0;       // C
};
void Embed(const EmbedArgs& args, Stream& stream);

// y = rms_norm(x), rounded to `dtype`, the input type of matrix products. If there is something to
// add, x += added comes first. If `tap` is not null, also stores x there, rounded to the same type:
// this layer's columns of the feature rows.
struct RmsNormArgs {
  float* x = nullptr;             // [R, C]
  const float* weight = nullptr;  // [C]
  void* y = nullptr;              // [R, C] of dtype
  void* tap = nullptr;            // [R, C] of dtype, rows `tap_stride` elements apart, or null
  int tap_stride = 0;
  DType dtype = DType::kF32;
  int rows = 0;   // R
  int width = 0;  // C
  float epsilon = 1e-6f;
  Sums added = {};
};
void RmsNorm(const RmsNormArgs& args, Stream& stream);

// y = layer_norm(x), rounded to `dtype`. `added` and `tap` as in RmsNormArgs.
struct LayerNormArgs {
  float* x = nullptr;             // [R, C]
  const float* weight = nullptr;  // [C]
  const float* bias = nullptr;    // [C]
  void* y = nullptr;              // [R, C] of dtype
  void* tap = nullptr;            // [R, C] of dtype, rows `tap_stride` elements apart, or null
  int tap_stride = 0;
  DType dtype = DType::kF32;
  int rows = 0;   // R
  int width = 0;  // C
  float epsilon = 1e-5f;
  Sums added = {};
};
void LayerNorm(const LayerNormArgs& args, Stream& stream);

// Per head: RMS norm over D, if there are weights for it, then rotary embedding of its first
// `rotary_dims` elements, for queries and keys. Writes the queries to `query_out` and the keys and
// values to the cache.
struct QkvArgs {
  StepRows rows;
  // The rows of these three are `stride` floats apart. If `query` is null, only keys and values are
  // processed. With several ranges, they point into the first one (Sums).
  const float* query = nullptr;        // [R, H, D]
  const float* key = nullptr;          // [R, G, D]
  const float* value = nullptr;        // [R, G, D]
  void* query_out = nullptr;           // [R, H, D] of the cache's dtype
  const float* query_norm = nullptr;   // [D]; both norms or none
  const float* key_norm = nullptr;     // [D]
  const float* cosine_sine = nullptr;  // [positions, rotary_dims]: cosines, then sines
  DeviceKvLayer cache;
  int query_heads = 0;
  int stride = 0;
  float epsilon = 1e-6f;
  int rotary_dims = 0;  // An even number up to D. 0: D.
  int ranges = 1;
  int64_t range_stride = 0;
  // For attention with sinks (AttentionArgs): the queries once more, at positions up to
  // last_place. Null: none.
  void* sink_query_out = nullptr;  // [R, H, D] of the cache's dtype
  int last_place = 0;
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

// y += silu(x), rounded to `dtype`.
struct SiluAddArgs {
  const float* x = nullptr;  // [R, C]
  void* y = nullptr;         // [R, C] of dtype
  DType dtype = DType::kF32;
  int rows = 0;   // R
  int width = 0;  // C
};
void SiluAdd(const SiluAddArgs& args, Stream& stream);

// y = gelu(x), the exact form, rounded to `dtype`.
struct GeluArgs {
  const float* x = nullptr;  // [R, I]
  void* y = nullptr;         // [R, I] of dtype
  DType dtype = DType::kF32;
  int rows = 0;   // R
  int width = 0;  // I
};
void Gelu(const GeluArgs& args, Stream& stream);

// As in kernels/ops/ops.h.
using kernels::ScaleArgs;
void Scale(const ScaleArgs& args, Stream& stream);

// The same, with x and y of `dtype`.
struct ConvolveArgs {
  const void* x = nullptr;              // [R, C] of dtype
  const float* base = nullptr;          // [T, C]
  const float* coefficients = nullptr;  // [R, T, C / group], rows `stride` floats apart
  void* y = nullptr;                    // [R, C] of dtype
  DType dtype = DType::kF32;
  int rows = 0;   // R
  int width = 0;  // C
  int taps = 0;   // T
  int group = 0;
  int block_rows = 0;
  int stride = 0;
  bool accumulate = false;  // With kF32 only.
};
void Convolve(const ConvolveArgs& args, Stream& stream);

// y += bias, for each row. Follows a matrix product that has a bias.
struct AddBiasArgs {
  float* y = nullptr;           // [R, N]
  const float* bias = nullptr;  // [N]
  int rows = 0;                 // R
  int width = 0;                // N
};
void AddBias(const AddBiasArgs& args, Stream& stream);

// The experts of each row and their weights. Then groups the choices of the rows in use by expert:
// expert e gets the places [begins[e], begins[e + 1]), in the order of the rows. The choices of
// padding rows get place −1. REQUIRES: experts_total <= kMaxExperts.
inline constexpr int kMaxExperts = 512;
struct GroupedRouteArgs {
  kernels::RouteArgs route;
  StepRows rows;
  int32_t* begins = nullptr;      // [E + 1]
  int32_t* sources = nullptr;     // [R k]: the row of each place
  int32_t* places = nullptr;      // [R, k]: the place of each choice
  int32_t* touched = nullptr;     // [1], may be host memory: how many experts have places
  ExpertRows* tiles = nullptr;    // [MaxExpertTiles(…)]: the places, for ExpertProduct
  int32_t* tile_count = nullptr;  // [1]
  uint32_t* arrived = nullptr;    // [1]; the caller zeroes it once
};
void Route(const GroupedRouteArgs& args, Stream& stream);

// y[place] = x[sources[place]] Wᵀ for every place of a group, with the matrix of the group's
// expert, in fp32; expert_product.h has the products in bf16. Each output is one sum in a fixed
// order. REQUIRES: K is a multiple of 4, and x and the weights are aligned to 16 bytes.
struct ExpertProductF32Args {
  const float* x = nullptr;          // [R, K]; [R k, K] without sources
  const int32_t* sources = nullptr;  // [R k], or null: place p has row p of x.
  const float* weight = nullptr;     // [E, N, K]
  const int32_t* begins = nullptr;   // [E + 1]
  float* y = nullptr;                // [R k, N]
  int experts_total = 0;             // E
  int columns = 0;                   // N
  int depth = 0;                     // K
};
void ExpertProductF32(const ExpertProductF32Args& args, Stream& stream);

// As in kernels/ops/ops.h. Places below 0 are skipped.
using kernels::CombineArgs;
void Combine(const CombineArgs& args, Stream& stream);

// y[i] = x[sources[i]], rows of `width` elements of dtype. REQUIRES: a row has a multiple of 16
// bytes.
struct GatherRowsArgs {
  const void* x = nullptr;           // Rows of C elements.
  const int32_t* sources = nullptr;  // [n]
  void* y = nullptr;                 // [n, C]
  DType dtype = DType::kF32;
  int rows = 0;   // n
  int width = 0;  // C
};
void GatherRows(const GatherRowsArgs& args, Stream& stream);

// Attention of each row over its cached prefix and the rows that it sees. A row's bits depend on
// its own keys and on nothing else in the step (attention_plan.h).
//
// With sinks (StreamingLLM, arXiv 2309.17453), a row sees the first `sinks` keys of its text and
// those of the window. Positions are then those within the keys that the row sees: no gap lies
// between sinks and window. A rotary embedding depends on the distance from the query to the key
// only, and within the window that is the distance in the text. So the cache holds keys that are
// rotated by their positions in the text, for every row. Only the distance to the sinks is another
// one: their scores take a second query, rotated by the row's place, at most sinks + window − 1.
struct AttentionArgs {
  StepRows rows;
  const void* query = nullptr;  // [R, H, D] of the cache's dtype
  void* output = nullptr;       // [R, H, D] of the cache's dtype; padding rows are not written
  DeviceKvLayer cache;
  int query_heads = 0;  // H
  int window = 0;       // As in kernels/ops/ops.h
  bool causal = false;  // Treat spans with mask kFull as causal in this layer
  float scale = 1.0f;
  int sinks = 0;                     // With a window only.
  const void* sink_query = nullptr;  // [R, H, D] of the cache's dtype, if there are sinks
  // AttentionScratchBytes(…) bytes of device memory, for contexts of up to max_chunks chunks. All
  // layers may share it.
  void* scratch = nullptr;
  int max_chunks = 0;
  int multiprocessors = 1;
  int capability = 0;  // DeviceInfo's. The bits do not depend on it on one GPU.
  // Cached tokens may be read while kernels in front of this one still run: none of these writes
  // their keys and values.
  bool reads_ahead = false;
};
// REQUIRES: AttentionSupports returns true for the shape; with sinks, no row sees later ones.
void Attention(const AttentionArgs& args, Stream& stream);
// Whether Attention supports the shape: head_dim is a multiple of 8 and at most 256 (fastest: 64,
// 128, 256), and query_heads is a multiple of kv_heads.
[[nodiscard]] bool AttentionSupports(int query_heads, int kv_heads, int head_dim);
// Chunks of keys in a context of `tokens` tokens.
[[nodiscard]] int AttentionChunks(int tokens);
// 104 MiB for 512 rows, 32 query heads, head_dim 128 and 40,960 tokens.
[[nodiscard]] size_t AttentionScratchBytes(int row_capacity, int query_heads, int head_dim,
                                           int max_chunks);

using kernels::LogitEdit;

// EditLogits applies the edits in place; UndoEdits restores the logits. REQUIRES: at most one edit
// per (row, token). The engine launches these kernels only in steps with edits, outside of graphs.
struct EditArgs {
  float* logits = nullptr;           // [R, V]
  const LogitEdit* edits = nullptr;  // [n]
  float* before = nullptr;           // [n], the original logits
  int count = 0;                     // n
  int vocabulary = 0;
};
void EditLogits(const EditArgs& args, Stream& stream);
void UndoEdits(const EditArgs& args, Stream& stream);

using kernels::MaskedRow;

// Excludes from each masked row the tokens that are not in its set: their logits become −inf.
// REQUIRES: each row occurs at most once.
struct MaskArgs {
  float* logits = nullptr;          // [R, V]
  const uint32_t* sets = nullptr;   // [S, ceil(V / 32)]: bit i of word w is token 32 w + i
  const MaskedRow* rows = nullptr;  // [n]
  int count = 0;                    // n
  int vocabulary = 0;               // V
};
void MaskLogits(const MaskArgs& args, Stream& stream);

// The tokens of one row that survive top-k, top-p and min-p: all with a logit above `min_logit`,
// and those with a logit equal to `min_logit` whose id is at most `last_tied`.
struct Survivors {
  float min_logit;
  int32_t last_tied;
};

// The keyed choice of a token for every row (kernels/ops/ops.h). Probability masses are summed as
// integers, so that the order of the sum does not matter. Ties go to the lowest id. The token is −1
// if all logits of the row are NaN or −inf, or if no token survives.
struct ChooseArgs {
  const int32_t* rows_used = nullptr;  // [1]; rows from *rows_used on are skipped
  const float* logits = nullptr;       // [R, V]
  const ChoiceRule* rules = nullptr;   // [R]
  int32_t* tokens = nullptr;           // [R]
  void* scratch = nullptr;  // ChooseScratchBytes(rows) bytes; the caller zeroes them once
  int rows = 0;             // R
  int vocabulary = 0;       // V
};
void Choose(const ChooseArgs& args, Stream& stream);
[[nodiscard]] size_t ChooseScratchBytes(int rows);

// A row of logits, and one of its tokens.
struct ScoredToken {
  int32_t row;
  int32_t token;
};

// The drafter's candidates, or the log-probabilities of a text (TopKArgs in kernels/ops/ops.h).
// With `scored`, row r of the results is that of row scored[r].row of the logits, and the
// log-probability of its token is computed too. REQUIRES: candidates <= kMaxCandidates; with
// `scored`, neither `coupling` nor `ids`. A row with NaNs gives NaNs and ids of −1.
inline constexpr int kMaxCandidates = 1024;
struct TopKArgs {
  const int32_t* rows_used = nullptr;    // [1], or null: all rows are used
  const float* logits = nullptr;         // [R, V]
  const ChoiceRule* coupling = nullptr;  // [R] or null; rows with temperature 0 are not coupled
  int32_t* tokens = nullptr;             // [R, K]; may be host memory
  float* log_probs = nullptr;            // [R, K]; may be host memory
  void* scratch = nullptr;               // TopKScratchBytes(…) bytes; the caller zeroes them once
  int rows = 0;                          // R
  int vocabulary = 0;                    // V
  int candidates = 0;                    // K
  const int32_t* ids = nullptr;          // [V] or null
  const ScoredToken* scored = nullptr;   // [R] or null; may be host memory
  float* chosen = nullptr;               // [R], with `scored`; may be host memory
};
void TopK(const TopKArgs& args, Stream& stream);
[[nodiscard]] size_t TopKScratchBytes(int rows, int vocabulary);

// Walks the tree of each span (WalkResult in kernels/ops/rows.h).
using kernels::WalkResult;
struct WalkArgs {
  StepRows rows;
  const int32_t* choices = nullptr;  // [R]
  WalkResult* results = nullptr;     // [B]
  // [R]: paths[first_rows[b] + k] is the k-th accepted node of span b, as a row index within the
  // span.
  int32_t* paths = nullptr;
  // Copies of `results` and `paths` in host memory, or null.
  WalkResult* results_for_host = nullptr;
  int32_t* paths_for_host = nullptr;
};
void Walk(const WalkArgs& args, Stream& stream);

// Commits the walked paths. In every layer, moves the key and the value of the k-th accepted node
// to the slot of row k + 1 of its span. Copies the features of the roots and the accepted nodes of
// all spans into consecutive rows. Spans with path length −1 keep nothing.
struct CommitArgs {
  StepRows rows;
  const WalkResult* results = nullptr;    // [B]
  const int32_t* paths = nullptr;         // [R]
  const DeviceKvLayer* layers = nullptr;  // [L], in device memory
  int layer_count = 0;                    // L
  int kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kF32;       // The type of the cache and the features
  const void* features = nullptr;  // [R, F] of dtype
  void* kept_features = nullptr;   // [rows kept, F] of dtype; may be host memory
  int feature_width = 0;           // F, a multiple of 8; 0: no features
};
void Commit(const CommitArgs& args, Stream& stream);

// Stores *value to *flag after all earlier work on the stream. Stream::AwaitFlag waits for it.
struct RaiseFlagArgs {
  const uint64_t* value = nullptr;  // Device memory
  uint64_t* flag = nullptr;         // Host memory
};
void RaiseFlag(const RaiseFlagArgs& args, Stream& stream);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_OPS_H_
