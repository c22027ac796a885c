#include "engine/cuda/cuda_logits.h"

#include "common/base/status.h"

namespace bastion::nn {

absl::StatusOr<std::unique_ptr<CudaLogits>> CudaLogits::Create(int rows, int vocabulary,
                                                               kernels::cuda::Stream& stream) {
  auto logits = std::unique_ptr<CudaLogits>(new CudaLogits(vocabulary, stream));
  RETURN_IF_ERROR(logits->Allocate(rows));
  return logits;
}

absl::Status CudaLogits::Allocate(int rows) {
  constexpr char kWhat[] = "logits; lower --max_rows or --max_sequences";
  ASSIGN_OR_RETURN(values_, Memory::OnDevice(rows * row_bytes(), kWhat));
  ASSIGN_OR_RETURN(host_row_, Memory::OnHost(row_bytes(), kWhat));
  ASSIGN_OR_RETURN(choose_scratch_,
                   Memory::OnDevice(kernels::cuda::ChooseScratchBytes(rows), kWhat));
  ASSIGN_OR_RETURN(rank_scratch_,
                   Memory::OnDevice(kernels::cuda::TopKScratchBytes(rows, vocabulary_), kWhat));
  return absl::OkStatus();
}

absl::Status CudaLogits::Edit(const LogitEdits& edits) {
  edit_count_ = static_cast<int>(edits.edits.size());
  kept_rows_.clear();
  if (edit_count_ > 0) {
    RETURN_IF_ERROR(Send(edits.edits, edits_));
    RETURN_IF_ERROR(Reserve(edits.edits.size() * sizeof(float), before_));
    kernels::cuda::EditLogits(edit_args(), stream_);
  }
  return edits.masked.empty() ? absl::OkStatus() : Mask(edits);
}

absl::Status CudaLogits::Mask(const LogitEdits& edits) {
  kept_rows_ = edits.kept;
  RETURN_IF_ERROR(Reserve(kept_rows_.size() * row_bytes(), kept_));
  for (size_t i = 0; i < kept_rows_.size(); ++i) {
    stream_.Copy(kept_.as<char>() + i * row_bytes(), At(kept_rows_[i]), row_bytes());
  }
  RETURN_IF_ERROR(Send(edits.sets, sets_));
  RETURN_IF_ERROR(Send(edits.masked, masked_));
  kernels::cuda::MaskLogits(
      {values_.as<float>(), sets_.as<uint32_t>(), masked_.as<kernels::MaskedRow>(),
       static_cast<int>(edits.masked.size()), vocabulary_},
      stream_);
  return absl::OkStatus();
}

void CudaLogits::Restore() {
  for (size_t i = 0; i < kept_rows_.size(); ++i) {
    stream_.Copy(At(kept_rows_[i]), kept_.as<char>() + i * row_bytes(), row_bytes());
  }
  kept_rows_.clear();
  if (edit_count_ > 0) kernels::cuda::UndoEdits(edit_args(), stream_);
  edit_count_ = 0;
}

absl::Status CudaLogits::Reserve(size_t bytes, Memory& memory) {
  if (memory.bytes() >= bytes) return absl::OkStatus();
  // The device may still read what the last step put there.
  RETURN_IF_ERROR(stream_.Synchronize());
  ASSIGN_OR_RETURN(memory, Memory::OnDevice(2 * bytes, "edits of logits"));
  return absl::OkStatus();
}

template <typename T>
absl::Status CudaLogits::Send(const std::vector<T>& values, Memory& memory) {
  const size_t bytes = values.size() * sizeof(T);
  RETURN_IF_ERROR(Reserve(bytes, memory));
  stream_.Copy(memory.as<void>(), values.data(), bytes);
  return absl::OkStatus();
}

kernels::cuda::EditArgs CudaLogits::edit_args() const {
  return {values_.as<float>(), edits_.as<kernels::LogitEdit>(), before_.as<float>(), edit_count_,
          vocabulary_};
}

void CudaLogits::Choose(const Choice& choice) {
  kernels::cuda::Choose({choice.used, values_.as<float>(), choice.rules, choice.tokens,
                         choose_scratch_.as<void>(), choice.rows, vocabulary_},
                        stream_);
}

void CudaLogits::Rank(const Ranking& ranking) {
  kernels::cuda::TopK(
      {ranking.used, values_.as<float>(), ranking.coupling, ranking.tokens, ranking.log_probs,
       rank_scratch_.as<void>(), ranking.rows, vocabulary_, ranking.candidates, ranking.ids},
      stream_);
}

absl::Status CudaLogits::ReserveScores(size_t rows, size_t candidates) {
  const auto reserve = [](size_t bytes, Memory& memory) -> absl::Status {
    if (memory.bytes() >= bytes) return absl::OkStatus();
    ASSIGN_OR_RETURN(memory, Memory::OnHost(2 * bytes, "log-probabilities"));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(reserve(rows * sizeof(kernels::cuda::ScoredToken), scored_));
  RETURN_IF_ERROR(reserve(rows * sizeof(float), chosen_));
  RETURN_IF_ERROR(reserve(rows * candidates * sizeof(int32_t), top_tokens_));
  return reserve(rows * candidates * sizeof(float), top_log_probs_);
}

absl::StatusOr<std::vector<TokenLogprobs>> CudaLogits::Score(absl::Span<const Scored> scored) {
  int candidates = 1;
  for (const Scored& entry : scored) candidates = std::max(candidates, entry.top);
  candidates = std::min(candidates, max_candidates());
  RETURN_IF_ERROR(ReserveScores(scored.size(), candidates));
  for (size_t i = 0; i < scored.size(); ++i) {
    scored_.as<kernels::cuda::ScoredToken>()[i] = {scored[i].row, scored[i].token};
  }
  kernels::cuda::TopKArgs args;
  args.logits = values_.as<float>();
  args.tokens = top_tokens_.as<int32_t>();
  args.log_probs = top_log_probs_.as<float>();
  args.scratch = rank_scratch_.as<void>();
  args.rows = static_cast<int>(scored.size());
  args.vocabulary = vocabulary_;
  args.candidates = candidates;
  args.scored = scored_.as<kernels::cuda::ScoredToken>();
  args.chosen = chosen_.as<float>();
  if (args.rows > 0) kernels::cuda::TopK(args, stream_);
  RETURN_IF_ERROR(stream_.Synchronize());
  std::vector<TokenLogprobs> results(scored.size());
  for (size_t i = 0; i < scored.size(); ++i) {
    results[i].chosen = args.chosen[i];
    const int32_t* const tokens = args.tokens + i * candidates;
    const float* const log_probs = args.log_probs + i * candidates;
    for (int k = 0; k < std::min(scored[i].top, candidates) && tokens[k] >= 0; ++k) {
      results[i].top.emplace_back(tokens[k], log_probs[k]);
    }
  }
  return results;
}

void CudaLogits::Scale(int rows, float factor, float cap) {
  kernels::cuda::Scale({values_.as<float>(), rows, vocabulary_, factor, cap}, stream_);
}

void CudaLogits::CopyRows(int rows, float* to) {
  stream_.Copy(to, values_.as<void>(), rows * row_bytes());
}

absl::StatusOr<float*> CudaLogits::Row(int row) {
  stream_.Copy(host_row_.as<void>(), At(row), row_bytes());
  RETURN_IF_ERROR(stream_.Synchronize());
  return host_row_.as<float>();
}

}  // namespace bastion::nn
