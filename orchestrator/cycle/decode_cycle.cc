#include "orchestrator/cycle/decode_cycle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// INTERNAL unless there is one entry for each token if `wanted`, else none, with tokens of the
// vocabulary.
absl::Status CheckLogprobs(const Acceptance& acceptance, bool wanted, int vocabulary) {
  const size_t expected = wanted ? acceptance.committed_length() : 0;
  if (acceptance.logprobs.size() != expected) {
    return absl::InternalError(absl::StrCat("the verifier returned log-probabilities for ",
                                            acceptance.logprobs.size(), " instead of ", expected,
                                            " tokens"));
  }
  for (const TokenLogprobs& logprobs : acceptance.logprobs) {
    for (const auto& [token, logprob] : logprobs.top) {
      if (token >= 0 && token < vocabulary) continue;
      return absl::InternalError(absl::StrCat("the verifier returned the log-probability of token ",
                                              token, ", which is outside the vocabulary of ",
                                              vocabulary));
    }
  }
  return absl::OkStatus();
}

// INTERNAL unless `acceptance` holds a path in `tree` and a token of the vocabulary. The verifier
// may be another process, so its reply is not trusted.
absl::Status CheckAcceptance(const DraftTree& tree, const Acceptance& acceptance, int vocabulary) {
  NodeIndex at = 0;
  for (const NodeIndex node : acceptance.path) {
    if (node <= at || node >= tree.rows() || tree.parent(node) != at) {
      return absl::InternalError(
          absl::StrCat("the verifier accepted node ", node.value(), " after node ", at.value(),
                       ", which is not a path in the tree of ", tree.rows(), " rows"));
    }
    at = node;
  }
  if (acceptance.next >= 0 && acceptance.next < vocabulary) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the verifier chose token ", acceptance.next,
                                          ", which is outside the vocabulary of ", vocabulary));
}

// Records an error of one sequence. For want of memory, the sequence may be tried again.
void RecordError(DecodeSequence& sequence, const absl::Status& error) {
  if (absl::IsResourceExhausted(error)) {
    sequence.RecordStarvation(error);
  } else {
    sequence.Fail(error);
  }
}

}  // namespace

DecodeCycle::Prompts DecodeCycle::TakePrompts(absl::Span<const PromptChunk> chunks, int max_rows) {
  Prompts prompts;
  for (const PromptChunk& chunk : chunks) {
    PrefillItem item =
        chunk.sequence->NextPrefill(std::min(chunk.tokens, max_rows - prompts.size.rows));
    if (item.tokens.empty()) continue;
    prompts.size.AddChunk(item.cached, static_cast<int>(item.tokens.size()));
    prompts.sequences.push_back(chunk.sequence);
    prompts.items.push_back(std::move(item));
  }
  return prompts;
}

absl::Status DecodeCycle::Step(const Batch& batch, absl::Span<const PromptChunk> prompts,
                               int waiting) {
  const absl::Duration began = clock_->Now();
  const Prompts taken = TakePrompts(prompts, target_.max_rows - static_cast<int>(batch.size()));
  GrownForest grown = grower_.Grow(batch, taken.size, waiting);
  Forest forest;
  for (size_t i = 0; i < batch.size(); ++i) {
    forest.push_back({batch[i]->id(), batch[i]->committed(), grown.trees[i].tree,
                      std::move(grown.trees[i].masks)});
  }
  const absl::Duration verify_began = clock_->Now();
  StopWatch watch(*clock_);
  const absl::Duration predicted = costs_->PredictVerify(grown.size, grown.draft.requested);
  verifier_->ExpectVerify(predicted);
  ASSIGN_OR_RETURN(VerifyResult result, verifier_->Verify(forest, taken.items));
  last_.predicted_verify = predicted;
  last_.began = began;
  last_.draft_began = grown.draft.requested ? grown.draft.began : began;
  last_.tree_began = grown.draft.requested ? grown.draft.ended : began;
  last_.verify_began = verify_began;
  const absl::Duration round_trip = watch.Lap();
  last_.ended = verify_began + round_trip;
  Commit(batch, taken, grown, std::move(result), round_trip);
  return absl::OkStatus();
}

int DecodeCycle::CommitTree(DecodeSequence& sequence, const GrownTree& grown,
                            const VerifyOutcome& outcome, const CycleRecord& record) const {
  absl::Status status = outcome.status;
  if (status.ok()) {
    status = CheckAcceptance(grown.tree, outcome.acceptance, target_.dims.vocabulary);
  }
  if (status.ok()) {
    status = CheckLogprobs(outcome.acceptance, sequence.request().sampling.logprobs.has_value(),
                           target_.dims.vocabulary);
  }
  if (!status.ok()) {
    RecordError(sequence, status);
    return 0;
  }
  sequence.Commit(grown, outcome.acceptance, record);
  return outcome.acceptance.committed_length();
}

void DecodeCycle::Commit(const Batch& batch, const Prompts& prompts, const GrownForest& grown,
                         VerifyResult result, absl::Duration round_trip) {
  const TimingTrace& trace = result.trace;
  audit_ = result.audit;
  free_kv_tokens_ = result.free_kv_tokens;
  if (grown.draft.requested) draft_status_ = grown.draft.status;
  CycleRecord record;
  record.rows = trace.rows;
  record.experts = trace.experts;
  record.stages.draft = grown.draft.spent;
  // All other time before the verify, so that the stages sum to the cycle.
  record.stages.tree = last_.verify_began - last_.began - grown.draft.spent;
  record.stages += VerifyStages(trace, round_trip);
  record.predicted_verify = last_.predicted_verify;
  // A verifier without room leaves rows out. The prediction was for another call then.
  if (trace.rows == grown.size.rows) {
    costs_->ObserveVerify(grown.size, grown.draft.requested, trace,
                          {round_trip, grown.tree_time, grown.planned});
  }
  last_.stages = record.stages;
  last_.size = grown.size;
  last_.drafted = grown.draft.requested;
  last_.draft_status = grown.draft.status;
  last_.rested = !grown.planned;
  last_.accepted = 0;
  last_.plain = costs_->PredictPlain(grown.size);
  const double rows = grown.size.rows;
  double tokens = 0;  // Weighted.
  for (size_t i = 0; i < batch.size(); ++i) {
    record.share = grown.trees[i].tree.rows() / rows;
    const int committed = CommitTree(*batch[i], grown.trees[i], result.outcomes[i], record);
    tokens += batch[i]->weight() * committed;
    last_.accepted += std::max(0, committed - 1);
  }
  for (size_t i = 0; i < prompts.items.size(); ++i) {
    const auto count = static_cast<int>(prompts.items[i].tokens.size());
    if (result.prompts[i].ok()) {
      prompts.sequences[i]->RecordPrefill(count, count / rows * record.stages.total());
    } else {
      RecordError(*prompts.sequences[i], result.prompts[i]);
    }
  }
  grower_.EndCycle(record.stages.total(), tokens);
  last_.trace = std::move(result.trace);
}

absl::Status DecodeCycle::OpenAndReuse(DecodeSequence& sequence) {
  RETURN_IF_ERROR(verifier_->Open(sequence.id(), sequence.request().sampling));
  ASSIGN_OR_RETURN(const int reused, verifier_->ReusePrefix(sequence.Prefix()));
  if (reused < 0 || reused > sequence.prompt_left()) {
    return absl::InternalError(absl::StrCat("the verifier reused ", reused,
                                            " tokens of a prefix of ", sequence.prompt_left()));
  }
  sequence.RecordReuse(reused);
  return absl::OkStatus();
}

void DecodeCycle::Open(DecodeSequence& sequence) {
  if (absl::Status opened = TryOpen(sequence); !opened.ok()) sequence.Fail(std::move(opened));
}

absl::Status DecodeCycle::TryOpen(DecodeSequence& sequence) {
  absl::Status opened = OpenAndReuse(sequence);
  if (absl::IsUnavailable(opened) || absl::IsDeadlineExceeded(opened)) return opened;
  if (!opened.ok()) sequence.Fail(std::move(opened));
  return absl::OkStatus();
}

bool DecodeCycle::Prefill(DecodeSequence& sequence, int max_tokens) {
  if (sequence.prompt_left() == 0) return false;
  const PromptChunk chunk = {&sequence, max_tokens};
  absl::Status status = Step({}, {chunk});
  if (status.ok()) status = sequence.starvation();
  if (!status.ok()) sequence.Fail(std::move(status));
  return !sequence.done() && sequence.prompt_left() > 0;
}

void DecodeCycle::Close(const DecodeSequence& sequence, Drafter& drafter) {
  verifier_->Close(sequence.id());
  if (sequence.policy().policy().wants_draft()) drafter.Close(sequence.id());
}

}  // namespace bastion
