#include "orchestrator/api/generation_events.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace bastion {
namespace {

void Set(absl::Duration from, google::protobuf::Duration* to) {
  const int64_t nanos = absl::ToInt64Nanoseconds(from);
  to->set_seconds(nanos / 1000000000);
  to->set_nanos(static_cast<int32_t>(nanos % 1000000000));
}

void SetCycle(const CycleRecord& cycle, v1::CycleReport& out) {
  out.set_nodes(cycle.nodes);
  out.set_committed_length(cycle.committed_length);
  out.set_budget_reason(std::string(BudgetReasonName(cycle.reason)));
  out.set_rows(cycle.rows);
  Set(cycle.predicted_verify, out.mutable_predicted_verify());
  Set(cycle.stages.verify, out.mutable_measured_verify());
  Set(cycle.stages.draft, out.mutable_draft());
  Set(cycle.stages.tree, out.mutable_tree());
  Set(cycle.stages.verify, out.mutable_verify());
  Set(cycle.stages.commit, out.mutable_commit());
  Set(cycle.stages.transfer, out.mutable_transfer());
  Set(cycle.stages.verify_queue, out.mutable_verify_queue());
  Set(cycle.stages.audit, out.mutable_audit());
  out.set_share(cycle.share);
  out.set_expected_length(cycle.expected_length);
  out.set_accepted_nodes(cycle.accepted);
  out.set_context(cycle.context);
}

v1::NodeSource SourceOf(NodeSource source) {
  switch (source) {
    case NodeSource::kDraft:
      return v1::NODE_SOURCE_DRAFT;
    case NodeSource::kTable:
      return v1::NODE_SOURCE_TABLE;
    case NodeSource::kRequest:
      return v1::NODE_SOURCE_REQUEST;
    case NodeSource::kLearned:
      return v1::NODE_SOURCE_LEARNED;
  }
  return v1::NODE_SOURCE_UNSPECIFIED;
}

// The text of a token; empty for a token of the model that the tokenizer does not know.
std::string TextOf(const hub::Tokenizer& tokenizer, TokenId token) {
  return tokenizer.Decode({token}, /*skip_special=*/false).value_or("");
}

void SetTree(const VerifiedTree& verified, const hub::Tokenizer& tokenizer, v1::VerifiedTree& out) {
  const DraftTree& tree = verified.tree;
  out.set_root_token_id(tree.token(0));
  out.set_root_text(TextOf(tokenizer, tree.token(0)));
  out.set_next_token_id(verified.next);
  out.set_next_text(TextOf(tokenizer, verified.next));
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    v1::VerifiedTree::Node& node = *out.add_nodes();
    node.set_parent(tree.parent(i).value());
    node.set_token_id(tree.token(i));
    node.set_text(TextOf(tokenizer, tree.token(i)));
    node.set_path_probability(std::exp(tree.log_score(i)));
    node.set_source(SourceOf(verified.sources[i - 1]));
  }
  for (const NodeIndex i : verified.accepted) out.mutable_nodes(i.value() - 1)->set_accepted(true);
}

// REQUIRES: the totals of the trees were kept.
void SetTotals(const std::vector<CycleRecord>& cycles, v1::DraftTotals& out) {
  std::array<v1::DraftTotals::Source, kNodeSources> sources;
  absl::Duration predicted, measured;
  for (const CycleRecord& cycle : cycles) {
    ++(*out.mutable_budget_reasons())[BudgetReasonName(cycle.reason)];
    predicted += cycle.predicted_verify;
    measured += cycle.stages.verify;
    for (size_t i = 0; i < sources.size(); ++i) {
      sources[i].set_nodes(sources[i].nodes() + cycle.totals[i].nodes);
      sources[i].set_accepted(sources[i].accepted() + cycle.totals[i].accepted);
      sources[i].set_expected(sources[i].expected() + cycle.totals[i].expected);
    }
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].nodes() == 0) continue;
    sources[i].set_source(SourceOf(static_cast<NodeSource>(i)));
    *out.add_sources() = std::move(sources[i]);
  }
  Set(predicted, out.mutable_predicted_verify());
  Set(measured, out.mutable_measured_verify());
}

void SetTimings(const OutputEnd& end, v1::Timings& out) {
  StageTimes sum;
  for (const CycleRecord& cycle : end.cycles) sum += cycle.stages;
  Set(end.times.queue, out.mutable_queue());
  Set(end.times.prefill, out.mutable_prefill());
  Set(end.times.first_token, out.mutable_first_token());
  Set(end.times.decode, out.mutable_decode());
  Set(end.times.total, out.mutable_total());
  Set(sum.draft, out.mutable_draft());
  Set(sum.tree, out.mutable_tree());
  Set(sum.verify, out.mutable_verify());
  Set(sum.commit, out.mutable_commit());
  Set(sum.transfer, out.mutable_transfer());
  Set(sum.verify_queue, out.mutable_verify_queue());
  Set(sum.audit, out.mutable_audit());
}

double MedianPredictionError(const std::vector<CycleRecord>& cycles) {
  std::vector<double> errors;
  for (const CycleRecord& cycle : cycles) {
    const absl::Duration measured = cycle.stages.verify;
    if (measured <= absl::ZeroDuration()) continue;
    errors.push_back(std::abs(absl::FDivDuration(cycle.predicted_verify - measured, measured)));
  }
  if (errors.empty()) return 0;
  std::nth_element(errors.begin(), errors.begin() + errors.size() / 2, errors.end());
  return errors[errors.size() / 2];
}

void SetSpeculation(const OutputEnd& end, v1::SpeculationStats& out) {
  std::vector<uint64_t> per_depth;
  uint64_t nodes = 0, accepted = 0, drafted = 0;
  double committed = 0;
  for (const CycleRecord& cycle : end.cycles) {
    nodes += cycle.nodes;
    accepted += cycle.accepted;
    drafted += cycle.drafted ? 1 : 0;
    committed += cycle.committed_length;
    per_depth.resize(std::max(per_depth.size(), static_cast<size_t>(cycle.accepted)));
    for (int depth = 0; depth < cycle.accepted; ++depth) ++per_depth[depth];
  }
  out.set_policy(end.policy);
  out.set_cycles(end.cycles.size());
  out.set_drafted_cycles(drafted);
  out.set_draft_tokens(nodes);
  out.set_accepted_tokens(accepted);
  out.set_mean_committed_length(end.cycles.empty() ? 0 : committed / end.cycles.size());
  out.mutable_accepted_per_depth()->Add(per_depth.begin(), per_depth.end());
  out.set_verify_prediction_error_median(MedianPredictionError(end.cycles));
}

v1::FinishReason ReasonOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
    case FinishReason::kComplete:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kNone:
      break;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

}  // namespace

v1::GenerateResponse DeltaEvent(const OutputDelta& delta, const v1::OutputOptions& wanted,
                                const hub::Tokenizer& tokenizer) {
  v1::GenerateResponse event;
  event.mutable_delta()->set_answer(delta.answer);
  event.mutable_delta()->set_text(delta.text);
  if (wanted.token_ids()) {
    event.mutable_delta()->mutable_token_ids()->Add(delta.tokens.begin(), delta.tokens.end());
  }
  if (wanted.has_logprobs()) {
    for (size_t i = 0; i < delta.logprobs.size(); ++i) {
      v1::TokenLogprobs& logprobs = *event.mutable_delta()->add_logprobs();
      logprobs.set_token_id(delta.tokens[i]);
      logprobs.set_logprob(delta.logprobs[i].chosen);
      logprobs.set_bytes(std::string(tokenizer.TokenBytes(delta.tokens[i])));
      for (const auto& [token, value] : delta.logprobs[i].top) {
        v1::TokenLogprobs::Entry& entry = *logprobs.add_top();
        entry.set_token_id(token);
        entry.set_logprob(value);
        entry.set_bytes(std::string(tokenizer.TokenBytes(token)));
      }
    }
  }
  if (wanted.cycles() || wanted.trees()) {
    for (const CycleRecord& cycle : delta.cycles) {
      v1::CycleReport& report = *event.mutable_delta()->add_cycles();
      SetCycle(cycle, report);
      if (wanted.trees()) SetTree(*cycle.tree, tokenizer, *report.mutable_verified_tree());
    }
  }
  return event;
}

v1::GenerateResponse FinishedEvent(int answer, const OutputEnd& end,
                                   const v1::OutputOptions& wanted) {
  v1::GenerateResponse event;
  v1::Finished& finished = *event.mutable_finished();
  finished.set_answer(answer);
  finished.set_reason(ReasonOf(end.reason));
  if (!end.stop_string.empty()) {
    finished.set_stop_string(end.stop_string);
  } else if (end.stop_token) {
    finished.set_stop_token_id(*end.stop_token);
  }
  finished.mutable_usage()->set_prompt_tokens(end.prompt_tokens);
  finished.mutable_usage()->set_completion_tokens(end.completion_tokens);
  finished.mutable_usage()->set_cached_prompt_tokens(end.cached_prompt_tokens);
  finished.set_seed(end.seed);
  SetTimings(end, *finished.mutable_timings());
  SetSpeculation(end, *finished.mutable_speculation());
  finished.set_waited_for_room(end.waited_for_room);
  if (wanted.totals()) SetTotals(end.cycles, *finished.mutable_totals());
  return event;
}

}  // namespace bastion
