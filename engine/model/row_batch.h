// RowBatch: the rows of one forward, sequence by sequence. A batch of one sequence is not a special
// case.
#ifndef BASTION_ENGINE_MODEL_ROW_BATCH_H_
#define BASTION_ENGINE_MODEL_ROW_BATCH_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "engine/model/page_pool.h"
#include "kernels/ops/ops.h"

namespace bastion::nn {

// The sequence whose rows AddRun or AddTree adds. Its page table must cover cached + earlier +
// tokens.size() tokens and outlive the forward.
struct RowSpan {
  const PageTable* table = nullptr;
  Position cached = 0;
  kernels::RowMask mask = kernels::RowMask::kCausal;
  int earlier = 0;  // Rows of the tree that earlier forwards added.
  // The position of the first row. Not set: `cached`.
  std::optional<Position> position = std::nullopt;
  // Rows of a token. Its rows take slots of their own. They have consecutive positions, which begin
  // one after those of the token before.
  int rows_per_token = 1;

  [[nodiscard]] Position first_position() const { return position.value_or(cached); }
};

class RowBatch {
 public:
  // Adds rows at positions first_position(), first_position() + 1, …: a prefill chunk (kCausal) or
  // a draft block (kFull).
  void AddRun(const RowSpan& span, const std::vector<TokenId>& tokens);
  // Adds rows of a tree. Row i has position first_position() + depths[i] and sees the rows of the
  // tree whose bits are set in row i of `ancestors` [rows, words]. Bit j is row j of the tree; the
  // first row that is added here is row span.earlier of the tree.
  void AddTree(const RowSpan& span, const std::vector<TokenId>& tokens,
               const std::vector<int>& depths, std::vector<uint64_t> ancestors);

  [[nodiscard]] int rows() const { return static_cast<int>(tokens_.size()); }
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }               // [R]
  [[nodiscard]] const std::vector<Position>& positions() const { return positions_; }        // [R]
  [[nodiscard]] const std::vector<int64_t>& slots() const { return slots_; }                 // [R]
  [[nodiscard]] const std::vector<kernels::AttentionSpan>& spans() const { return spans_; }  // [B]

 private:
  kernels::AttentionSpan& AddSpan(const RowSpan& span, const std::vector<TokenId>& tokens);

  std::vector<TokenId> tokens_;
  std::vector<Position> positions_;
  std::vector<int64_t> slots_;
  std::vector<kernels::AttentionSpan> spans_;
  std::deque<std::vector<uint64_t>> ancestors_;  // Spans point into these.
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_ROW_BATCH_H_
