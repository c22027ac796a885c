#include "verifier_service/model/cuda_logit_edits.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "verifier_service/verify/logit_edits.h"

namespace bastion::verifier {
namespace {

using kernels::cuda::LogitEdit;
using kernels::cuda::MaskedRow;

// The edits of a row for biases and the minimum length. Their number does not grow with the text.
absl::flat_hash_map<TokenId, LogitEdit> GivenEdits(const SamplingParams& sampling,
                                                   const TokenHistory& history) {
  absl::flat_hash_map<TokenId, LogitEdit> edits;
  for (const auto& [token, bias] : sampling.logit_bias) edits[token].bias += bias;
  if (history.output_tokens() < sampling.min_tokens) {
    for (const TokenId token : sampling.stop_tokens) {
      edits[token].bias = -std::numeric_limits<float>::infinity();
    }
  }
  return edits;
}

void AddPenalties(const SamplingParams& sampling, const TokenHistory::Count& count,
                  LogitEdit& edit) {
  edit.penalty = sampling.repetition_penalty;
  if (count.output == 0) return;
  edit.frequency = sampling.frequency_penalty * static_cast<float>(count.output);
  edit.presence = sampling.presence_penalty;
}

void AddRow(const TreeRows& rows, NodeIndex node, std::vector<LogitEdit>& list) {
  const SamplingParams& sampling = *rows.sampling;
  const TokenHistory& history = *rows.history;
  const auto add = [&](TokenId token, LogitEdit edit) {
    edit.row = rows.first_row + node;
    edit.token = token;
    list.push_back(edit);
  };
  absl::flat_hash_map<TokenId, LogitEdit> given = GivenEdits(sampling, history);
  if (sampling.penalizes()) {
    for (const auto& [token, count] : history.counts()) {
      if (count.prompt + count.output == 0) continue;
      LogitEdit edit;
      if (const auto found = given.find(token); found != given.end()) {
        edit = found->second;
        given.erase(found);
      }
      AddPenalties(sampling, count, edit);
      add(token, edit);
    }
  }
  for (const auto& [token, edit] : given) add(token, edit);
}

// At most one edit per token of a row.
std::vector<LogitEdit> ListEdits(absl::Span<const TreeRows> trees) {
  std::vector<LogitEdit> list;
  for (const TreeRows& rows : trees) {
    if (!rows.sampling->edits_logits()) continue;
    ForEachNodeHistory(*rows.tree, *rows.history,
                       [&](NodeIndex node) { AddRow(rows, node, list); });
  }
  return list;
}

// The sets of all trees, and the rows to which they apply, as in MaskArgs.
struct Masks {
  std::vector<uint32_t> sets;
  std::vector<MaskedRow> rows;
};
Masks ListMasks(absl::Span<const TreeRows> trees) {
  Masks masks;
  int sets = 0;
  for (const TreeRows& rows : trees) {
    if (rows.masks == nullptr) continue;
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      const TokenSet* const allowed = rows.Allowed(node);
      if (allowed == nullptr) continue;
      const auto index = static_cast<int>(allowed - rows.masks->sets.data());
      masks.rows.push_back({rows.first_row + node, sets + index});
    }
    for (const TokenSet& set : rows.masks->sets) {
      masks.sets.insert(masks.sets.end(), set.words().begin(), set.words().end());
    }
    sets += static_cast<int>(rows.masks->sets.size());
  }
  return masks;
}

}  // namespace

absl::Status CudaLogitEdits::Apply(absl::Span<const TreeRows> trees) {
  RETURN_IF_ERROR(Edit(trees));
  return Mask(trees);
}

absl::Status CudaLogitEdits::Edit(absl::Span<const TreeRows> trees) {
  const std::vector<LogitEdit> edits = ListEdits(trees);
  edit_count_ = static_cast<int>(edits.size());
  if (edits.empty()) return absl::OkStatus();
  const size_t bytes = edits.size() * sizeof(LogitEdit);
  RETURN_IF_ERROR(Reserve(bytes, edits_));
  RETURN_IF_ERROR(Reserve(edits.size() * sizeof(float), before_));
  stream_->Copy(edits_.as<void>(), edits.data(), bytes);
  kernels::cuda::EditLogits(edit_args(), *stream_);
  return absl::OkStatus();
}

absl::Status CudaLogitEdits::Mask(absl::Span<const TreeRows> trees) {
  kept_rows_.clear();
  const Masks masks = ListMasks(trees);
  if (masks.rows.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Keep(trees));
  const size_t set_bytes = masks.sets.size() * sizeof(uint32_t);
  const size_t row_bytes = masks.rows.size() * sizeof(MaskedRow);
  RETURN_IF_ERROR(Reserve(set_bytes, sets_));
  RETURN_IF_ERROR(Reserve(row_bytes, masked_rows_));
  stream_->Copy(sets_.as<void>(), masks.sets.data(), set_bytes);
  stream_->Copy(masked_rows_.as<void>(), masks.rows.data(), row_bytes);
  kernels::cuda::MaskLogits({logits_, sets_.as<uint32_t>(), masked_rows_.as<MaskedRow>(),
                             static_cast<int>(masks.rows.size()), vocabulary_},
                            *stream_);
  return absl::OkStatus();
}

absl::Status CudaLogitEdits::Keep(absl::Span<const TreeRows> trees) {
  for (const TreeRows& rows : trees) {
    if (!rows.sampling->logprobs) continue;
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      if (rows.Allowed(node) != nullptr) kept_rows_.push_back(rows.first_row + node);
    }
  }
  const size_t bytes = vocabulary_ * sizeof(float);
  RETURN_IF_ERROR(Reserve(kept_rows_.size() * bytes, kept_));
  for (size_t i = 0; i < kept_rows_.size(); ++i) {
    stream_->Copy(kept_.as<char>() + i * bytes, row(kept_rows_[i]), bytes);
  }
  return absl::OkStatus();
}

void CudaLogitEdits::Undo() {
  const size_t bytes = vocabulary_ * sizeof(float);
  for (size_t i = 0; i < kept_rows_.size(); ++i) {
    stream_->Copy(row(kept_rows_[i]), kept_.as<char>() + i * bytes, bytes);
  }
  kept_rows_.clear();
  if (edit_count_ > 0) kernels::cuda::UndoEdits(edit_args(), *stream_);
  edit_count_ = 0;
}

absl::Status CudaLogitEdits::Reserve(size_t bytes, Memory& memory) {
  if (memory.bytes() >= bytes) return absl::OkStatus();
  // The device may still read what the last step put there.
  RETURN_IF_ERROR(stream_->Synchronize());
  ASSIGN_OR_RETURN(memory, Memory::OnDevice(2 * bytes, "edits of logits"));
  return absl::OkStatus();
}

kernels::cuda::EditArgs CudaLogitEdits::edit_args() const {
  return {logits_, edits_.as<LogitEdit>(), before_.as<float>(), edit_count_, vocabulary_};
}

}  // namespace bastion::verifier
