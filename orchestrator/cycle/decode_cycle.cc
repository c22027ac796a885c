#include "orchestrator/cycle/decode_cycle.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// INTERNAL unless `acceptance` holds a path in `tree` and a token of the vocabulary. The verifier
// may be another process, so its reply is not trusted.
absl::Status CheckAcceptance(const DraftTree& tree, const Acceptance& acceptance, int vocabulary) {
  NodeIndex at = 0;
  for (const NodeIndex node : acceptance.path) {
    if (node <= at || node >= tree.rows() || tree.parent(node) != at) {
      return absl::InternalError(absl::StrCat("the verifier accepted node ", node, " after node ",
                                              at, ", which is not a path in the tree of ",
                                              tree.rows(), " rows"));
    }
    at = node;
  }
  if (acceptance.next >= 0 && acceptance.next < vocabulary) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the verifier chose token ", acceptance.next,
                                          ", which is outside the vocabulary of ", vocabulary));
}

}  // namespace

absl::Status DecodeCycle::Step(const Batch& batch) {
  const GrownForest grown = grower_.Grow(batch);
  Forest forest;
  for (size_t i = 0; i < batch.size(); ++i) {
    forest.push_back({batch[i]->id(), batch[i]->committed(), grown.trees[i].tree});
  }
  StopWatch watch(*clock_);
  ASSIGN_OR_RETURN(const VerifyResult result, verifier_->Verify(forest));
  Commit(batch, grown, result, watch.Lap());
  return absl::OkStatus();
}

void DecodeCycle::Commit(const Batch& batch, const GrownForest& grown, const VerifyResult& result,
                         absl::Duration round_trip) {
  const TimingTrace& trace = result.trace;
  audit_ = result.audit;
  if (grown.draft_requested) draft_status_ = grown.draft_status;
  CycleRecord record;
  record.rows = trace.rows;
  record.stages = grown.times;
  record.stages += VerifyStages(trace, round_trip);
  record.predicted_verify = costs_->PredictVerify(grown.size, grown.draft_requested);
  costs_->ObserveVerify(grown.size, grown.draft_requested, trace, {round_trip, grown.times.tree});
  int tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const VerifyOutcome& outcome = result.outcomes[i];
    absl::Status status = outcome.status;
    if (status.ok()) status = CheckAcceptance(grown.trees[i].tree, outcome.acceptance, vocabulary_);
    if (status.ok()) {
      tokens += outcome.acceptance.committed_length();
      batch[i]->Commit(grown.trees[i], outcome.acceptance, record);
    } else {
      batch[i]->Fail(std::move(status));
    }
  }
  grower_.EndCycle(record.stages.total(), tokens);
}

void DecodeCycle::Open(DecodeSequence& sequence) {
  const absl::Status opened = verifier_->Open(sequence.id(), sequence.request().sampling);
  if (!opened.ok()) sequence.Fail(opened);
}

bool DecodeCycle::Prefill(DecodeSequence& sequence, int max_tokens) {
  const PrefillItem item = sequence.NextPrefill(max_tokens);
  if (item.tokens.empty()) return false;
  const absl::StatusOr<TimingTrace> trace = verifier_->Prefill(item);
  if (!trace.ok()) {
    sequence.Fail(trace.status());
    return false;
  }
  sequence.RecordPrefill(static_cast<int>(item.tokens.size()));
  return !sequence.NextPrefill(1).tokens.empty();
}

void DecodeCycle::Close(const DecodeSequence& sequence, Drafter& drafter) {
  verifier_->Close(sequence.id());
  if (sequence.policy().policy().wants_draft()) drafter.Close(sequence.id());
}

}  // namespace bastion
