// Rows: the rows of one forward, in memory that the kernels of a device can read. A CPU and a GPU
// have the same layout (engine/model/step_inputs.h fills it).
//
// Shape legend: common/base/ids.h.
#ifndef BASTION_KERNELS_OPS_ROWS_H_
#define BASTION_KERNELS_OPS_ROWS_H_

#include <cstdint>

#include "kernels/ops/ops.h"

namespace bastion::kernels {

// Span b has the rows [first_rows[b], first_rows[b + 1]), which follow `cached[b]` earlier tokens
// and the first `earlier[b]` rows of the same tree. Row i of span b is token cached[b] + earlier[b]
// + i of its sequence. Token j of the sequence lies at offset j % 16 of page pages[first_pages[b] +
// j / 16]. The rows from used[0] on are padding: token 0, position 0, and a slot that is never
// read.
struct Rows {
  const int32_t* used = nullptr;         // [2]: rows and spans in use
  const int32_t* tokens = nullptr;       // [R]
  const int32_t* positions = nullptr;    // [R]
  const int32_t* parents = nullptr;      // [R], row index within the span; -1: the span's first row
  const int64_t* slots = nullptr;        // [R]
  const int32_t* first_rows = nullptr;   // [B + 1]
  const int32_t* cached = nullptr;       // [B]
  const int32_t* earlier = nullptr;      // [B], 0 unless the mask is kAncestors
  const int32_t* first_pages = nullptr;  // [B]
  const int32_t* masks = nullptr;        // [B], a RowMask as a number
  const int32_t* pages = nullptr;        // The page tables of all spans, concatenated
  const uint64_t* ancestors = nullptr;   // [R, words], bit j of a row: it sees token cached + j
  int words = 0;                         // 64-bit words per row of `ancestors`
  int row_capacity = 0;                  // R
  int span_capacity = 0;                 // B
};

// Span `b` as an argument of the CPU's attention.
[[nodiscard]] inline AttentionSpan SpanOf(const Rows& rows, int b) {
  AttentionSpan span;
  span.first_row = rows.first_rows[b];
  span.rows = rows.first_rows[b + 1] - span.first_row;
  span.cached = rows.cached[b];
  span.earlier = rows.earlier[b];
  span.pages = rows.pages + rows.first_pages[b];
  span.mask = static_cast<RowMask>(rows.masks[b]);
  span.ancestors = rows.ancestors + static_cast<int64_t>(span.first_row) * rows.words;
  span.words = rows.words;
  return span;
}

// The effect of a request's bias, minimum length and penalties on one logit x. First x += bias.
// Then x is divided by `penalty` if x > 0, else multiplied by it. Then x −= frequency and x −=
// presence.
struct LogitEdit {
  int32_t row = 0;
  int32_t token = 0;
  float bias = 0;       // −inf excludes the token.
  float penalty = 1;    // Repetition penalty.
  float frequency = 0;  // Frequency penalty times the count.
  float presence = 0;   // Presence penalty.

  // Each operation rounds.
  [[nodiscard]] float Apply(float logit) const {
    const float biased = logit + bias;
    const float penalized = biased > 0 ? biased / penalty : biased * penalty;
    return penalized - frequency - presence;
  }
};

// A row of logits, and the set of tokens that may be chosen from it.
struct MaskedRow {
  int32_t row = 0;
  int32_t set = 0;
};

// The acceptance walk (DDTree §3.3) over the tree of one span. It starts at the root and follows
// the child whose token the target chose from the current row. The first choice that matches no
// child becomes the next root. So every committed token is the target's own choice given its true
// prefix.
struct WalkResult {
  int32_t path_length = 0;  // Number of accepted nodes; −1 if a choice of the span is −1.
  int32_t next = 0;         // The choice of the last accepted node, or of the root.
  int32_t first_kept = 0;   // Number of rows (roots and accepted nodes) that earlier spans keep.
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_ROWS_H_
