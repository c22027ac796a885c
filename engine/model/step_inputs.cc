#include "engine/model/step_inputs.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::nn {

using kernels::AttentionSpan;

StepInputs::Sections StepInputs::On(const Buffer& block) const {
  constexpr size_t kAlignment = 64;
  Sections sections;
  char* const base = block.as<char>();  // Null if only `bytes` is wanted.
  size_t next = 0;
  const auto take = [&](auto*& section, size_t count) {
    section =
        reinterpret_cast<std::decay_t<decltype(section)>>(base == nullptr ? base : base + next);
    next = (next + count * sizeof(*section) + kAlignment - 1) / kAlignment * kAlignment;
  };
  const size_t rows = capacity_.rows, spans = capacity_.spans;
  take(sections.step, 1);
  take(sections.used, 5);
  take(sections.tokens, rows);
  take(sections.positions, rows);
  take(sections.parents, rows);
  take(sections.wanted, rows);
  take(sections.slots, rows);
  take(sections.rules, rows);
  take(sections.first_rows, spans + 1);
  take(sections.cached, spans);
  take(sections.earlier, spans);
  take(sections.first_pages, spans);
  take(sections.masks, spans);
  take(sections.ancestors, rows * words());
  sections.bytes = next;
  take(sections.pages, capacity_.table_entries());
  return sections;
}

absl::StatusOr<StepInputs> StepInputs::Create(Device& device, const StepCapacity& capacity) {
  CHECK(capacity.rows % 64 == 0 && capacity.tree_rows % 64 == 0);
  StepInputs inputs;
  inputs.device_ = &device;
  inputs.capacity_ = capacity;
  const size_t bytes = inputs.On(Buffer()).bytes + capacity.table_entries() * sizeof(int32_t);
  ASSIGN_OR_RETURN(inputs.block_, device.AllocateMirrored(bytes, "the inputs of a step"));
  return inputs;
}

void StepInputs::FillRows(const StepContents& contents, int rows, const Sections& to) const {
  const RowBatch& batch = contents.batch;
  const int used = batch.rows();
  std::copy(batch.tokens().begin(), batch.tokens().end(), to.tokens);
  std::copy(batch.positions().begin(), batch.positions().end(), to.positions);
  std::copy(batch.slots().begin(), batch.slots().end(), to.slots);
  std::copy(contents.parents.begin(), contents.parents.end(), to.parents);
  std::copy(contents.wanted.begin(), contents.wanted.end(), to.wanted);
  std::fill(to.wanted + contents.wanted.size(), to.wanted + capacity_.rows, 0);
  std::copy(contents.rules.begin(), contents.rules.end(), to.rules);
  const int64_t padding = int64_t{capacity_.pages} * kernels::kPageTokens;
  std::fill(to.tokens + used, to.tokens + rows, 0);
  std::fill(to.positions + used, to.positions + rows, 0);
  std::fill(to.slots + used, to.slots + rows, padding);
}

size_t StepInputs::FillSpans(const RowBatch& batch, const Sections& to) const {
  size_t pages = 0;
  int b = 0;
  for (const AttentionSpan& span : batch.spans()) {
    to.first_rows[b] = span.first_row;
    to.cached[b] = span.cached;
    to.earlier[b] = span.earlier;
    to.masks[b] = static_cast<int32_t>(span.mask);
    to.first_pages[b] = static_cast<int32_t>(pages);
    const int own = PagesFor(span.length());
    CHECK_LE(pages + own, capacity_.table_entries());
    CHECK_LE(span.words, words());
    std::copy_n(span.pages, own, to.pages + pages);
    pages += own;
    for (int i = 0; span.mask == kernels::RowMask::kAncestors && i < span.rows; ++i) {
      uint64_t* const bits = to.ancestors + size_t(span.first_row + i) * words();
      std::copy_n(span.ancestors + size_t(i) * span.words, span.words, bits);
      std::fill(bits + span.words, bits + words(), 0);
    }
    ++b;
  }
  std::fill(to.first_rows + b, to.first_rows + capacity_.spans + 1, batch.rows());
  return pages;
}

void StepInputs::Send(const StepContents& contents, int rows) {
  const auto spans = static_cast<int>(contents.batch.spans().size());
  CHECK(contents.batch.rows() <= rows && rows <= capacity_.rows && spans <= capacity_.spans)
      << contents.batch.rows() << " rows of " << spans << " spans in a step of " << rows;
  CHECK(contents.wanted_rows() <= capacity_.rows);
  const Sections to = On(block_.host);
  *to.step = ++step_;
  to.used[0] = contents.batch.rows();
  to.used[1] = spans;
  to.used[2] = static_cast<int32_t>(contents.parents.size());
  to.used[3] = 0;
  to.used[4] = contents.wanted_rows();
  for (const AttentionSpan& span : contents.batch.spans()) {
    if (span.first_row < to.used[2]) ++to.used[3];
  }
  FillRows(contents, rows, to);
  const size_t pages = FillSpans(contents.batch, to);
  device_->Copy(block_.device.data(), block_.host.data(), to.bytes + pages * sizeof(int32_t));
}

kernels::Rows StepInputs::Rows(int rows) const {
  const Sections from = On(block_.device);
  kernels::Rows result;
  result.used = from.used;
  result.tokens = from.tokens;
  result.positions = from.positions;
  result.parents = from.parents;
  result.slots = from.slots;
  result.first_rows = from.first_rows;
  result.cached = from.cached;
  result.earlier = from.earlier;
  result.first_pages = from.first_pages;
  result.masks = from.masks;
  result.pages = from.pages;
  result.ancestors = from.ancestors;
  result.words = words();
  result.row_capacity = rows;
  result.span_capacity = capacity_.spans;
  return result;
}

kernels::Rows StepInputs::WalkedRows(int rows) const {
  kernels::Rows result = Rows(rows);
  result.used += 2;
  return result;
}

}  // namespace bastion::nn
