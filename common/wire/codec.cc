#include "common/wire/codec.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/wire/mask_codec.h"

namespace bastion::wire {
namespace {

template <typename T>
absl::string_view AsBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> FromBytes(absl::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Returns features with the width and type of `in` and no rows.
absl::StatusOr<Features> EmptyFeatures(const proto::TensorRef& in) {
  if (in.shape_size() != 2 || in.shape(1) <= 0 || in.dtype() == TensorRef::DTYPE_INT32) {
    return absl::InvalidArgumentError("features: must be float32 or bfloat16 [rows, F]");
  }
  Features features;
  features.width = static_cast<int>(in.shape(1));
  features.type = in.dtype() == TensorRef::DTYPE_FLOAT32 ? DType::kF32 : DType::kBF16;
  return features;
}

absl::StatusOr<std::vector<float>> DecodePairScores(const TensorRef& scores,
                                                    const Marginals& marginals, Carrier& carrier) {
  const std::vector<int64_t> shape = {marginals.positions, marginals.candidates,
                                      marginals.candidates};
  if (scores.dtype() != TensorRef::DTYPE_FLOAT32 ||
      !std::equal(scores.shape().begin(), scores.shape().end(), shape.begin(), shape.end())) {
    return absl::InvalidArgumentError("marginals: pair scores must be float32 [P, K, K]");
  }
  ASSIGN_OR_RETURN(const absl::string_view bytes, carrier.Get(scores));
  return FromBytes<float>(bytes);
}

}  // namespace

void Encode(SequenceId id, proto::SequenceId& out) {
  out.set_session(id.session);
  out.set_epoch(id.epoch);
}

SequenceId Decode(const proto::SequenceId& in) { return {in.session(), in.epoch()}; }

void Encode(const absl::Status& status, proto::StepStatus& out) {
  out.set_code(static_cast<int>(status.code()));
  out.set_message(std::string(status.message()));
}

absl::Status Decode(const proto::StepStatus& in) {
  return absl::Status(static_cast<absl::StatusCode>(in.code()), PeerText(in.message()));
}

void Encode(const ChoiceParams& choice, proto::ChoiceParams& out) {
  out.set_temperature(choice.temperature);
  out.set_seed(choice.seed);
  out.set_top_k(choice.top_k);
  out.set_top_p(choice.top_p);
  out.set_min_p(choice.min_p);
}

ChoiceParams Decode(const proto::ChoiceParams& in) {
  return {in.temperature(), in.seed(), in.top_k(), in.top_p(), in.min_p()};
}

void Encode(const SamplingParams& sampling, proto::SamplingParams& out) {
  Encode(sampling, *out.mutable_choice());
  out.set_repetition_penalty(sampling.repetition_penalty);
  out.set_presence_penalty(sampling.presence_penalty);
  out.set_frequency_penalty(sampling.frequency_penalty);
  for (const auto& [token, bias] : sampling.logit_bias) {
    out.add_bias_tokens(token);
    out.add_biases(bias);
  }
  out.set_prompt_tokens(sampling.prompt_tokens);
  out.set_min_tokens(sampling.min_tokens);
  out.mutable_stop_tokens()->Add(sampling.stop_tokens.begin(), sampling.stop_tokens.end());
  if (sampling.logprobs) out.set_logprobs(*sampling.logprobs);
}

absl::StatusOr<SamplingParams> Decode(const proto::SamplingParams& in) {
  if (in.bias_tokens_size() != in.biases_size()) {
    return absl::InvalidArgumentError(absl::StrCat("logit_bias: ", in.bias_tokens_size(),
                                                   " tokens, ", in.biases_size(), " biases"));
  }
  SamplingParams sampling;
  static_cast<ChoiceParams&>(sampling) = Decode(in.choice());
  sampling.repetition_penalty = in.repetition_penalty();
  sampling.presence_penalty = in.presence_penalty();
  sampling.frequency_penalty = in.frequency_penalty();
  for (int i = 0; i < in.biases_size(); ++i) {
    sampling.logit_bias.emplace_back(in.bias_tokens(i), in.biases(i));
  }
  sampling.prompt_tokens = in.prompt_tokens();
  sampling.min_tokens = in.min_tokens();
  sampling.stop_tokens.assign(in.stop_tokens().begin(), in.stop_tokens().end());
  if (in.has_logprobs()) sampling.logprobs = in.logprobs();
  return sampling;
}

void Encode(const DraftTree& tree, proto::DraftTree& out) {
  out.mutable_tokens()->Add(tree.tokens().begin(), tree.tokens().end());
  for (NodeIndex i = 0; i < tree.rows(); ++i) {
    out.add_parents(tree.parent(i).value());
    out.add_log_scores(tree.log_score(i));
  }
}

absl::StatusOr<DraftTree> Decode(const proto::DraftTree& in) {
  const int rows = in.tokens_size();
  if (rows == 0 || in.parents_size() != rows || in.log_scores_size() != rows) {
    return absl::InvalidArgumentError(absl::StrCat("tree: ", rows, " tokens, ", in.parents_size(),
                                                   " parents, ", in.log_scores_size(),
                                                   " scores; the numbers must be equal and at "
                                                   "least 1"));
  }
  DraftTree tree(in.tokens(0));
  for (int i = 1; i < rows; ++i) {
    if (in.parents(i) < 0 || in.parents(i) >= i) {
      return absl::InvalidArgumentError(
          absl::StrCat("tree node ", i, ": parent ", in.parents(i), " does not come before it"));
    }
    tree.Add(NodeIndex::Of(in.parents(i)), in.tokens(i), in.log_scores(i));
  }
  return tree;
}

void Encode(const TimingTrace& trace, proto::TimingTrace& out) {
  out.set_queue_ns(absl::ToInt64Nanoseconds(trace.queue));
  out.set_layout_ns(absl::ToInt64Nanoseconds(trace.layout));
  out.set_forward_ns(absl::ToInt64Nanoseconds(trace.forward));
  out.set_accept_ns(absl::ToInt64Nanoseconds(trace.accept));
  out.set_commit_ns(absl::ToInt64Nanoseconds(trace.commit));
  out.set_feature_export_ns(absl::ToInt64Nanoseconds(trace.feature_export));
  out.set_audit_ns(absl::ToInt64Nanoseconds(trace.audit));
  out.set_rows(trace.rows);
  out.set_experts(trace.experts);
  out.mutable_contexts()->Add(trace.contexts.begin(), trace.contexts.end());
}

TimingTrace Decode(const proto::TimingTrace& in) {
  TimingTrace trace;
  trace.queue = absl::Nanoseconds(in.queue_ns());
  trace.layout = absl::Nanoseconds(in.layout_ns());
  trace.forward = absl::Nanoseconds(in.forward_ns());
  trace.accept = absl::Nanoseconds(in.accept_ns());
  trace.commit = absl::Nanoseconds(in.commit_ns());
  trace.feature_export = absl::Nanoseconds(in.feature_export_ns());
  trace.audit = absl::Nanoseconds(in.audit_ns());
  trace.rows = in.rows();
  trace.experts = in.experts();
  trace.contexts.assign(in.contexts().begin(), in.contexts().end());
  return trace;
}

void Encode(const DraftTrace& trace, proto::DraftTrace& out) {
  out.set_queue_ns(absl::ToInt64Nanoseconds(trace.queue));
  out.set_features_ns(absl::ToInt64Nanoseconds(trace.features));
  out.set_context_ns(absl::ToInt64Nanoseconds(trace.context));
  out.set_forward_ns(absl::ToInt64Nanoseconds(trace.forward));
  out.set_candidates_ns(absl::ToInt64Nanoseconds(trace.candidates));
  out.set_context_tokens(trace.context_tokens);
  out.set_drafts(trace.drafts);
  out.set_ahead(trace.ahead);
}

DraftTrace Decode(const proto::DraftTrace& in) {
  DraftTrace trace;
  trace.queue = absl::Nanoseconds(in.queue_ns());
  trace.features = absl::Nanoseconds(in.features_ns());
  trace.context = absl::Nanoseconds(in.context_ns());
  trace.forward = absl::Nanoseconds(in.forward_ns());
  trace.candidates = absl::Nanoseconds(in.candidates_ns());
  trace.context_tokens = in.context_tokens();
  trace.drafts = in.drafts();
  trace.ahead = in.ahead();
  return trace;
}

void Encode(const PrefixItem& item, proto::VerifierRequest::ReusePrefix& out) {
  Encode(item.sequence, *out.mutable_sequence());
  out.mutable_tokens()->Add(item.tokens.begin(), item.tokens.end());
  out.set_salt(item.salt);
}

PrefixItem Decode(const proto::VerifierRequest::ReusePrefix& in) {
  return {Decode(in.sequence()), {in.tokens().begin(), in.tokens().end()}, in.salt()};
}

void Encode(const Forest& forest, absl::Span<const PrefillItem> prompts,
            proto::VerifierRequest::Verify& out) {
  for (const VerifyItem& item : forest) {
    proto::VerifierRequest::Item& added = *out.add_items();
    Encode(item.sequence, *added.mutable_sequence());
    added.set_cached(item.cached);
    Encode(item.tree, *added.mutable_tree());
    Encode(item.masks, added);
  }
  for (const PrefillItem& item : prompts) {
    proto::VerifierRequest::Prompt& added = *out.add_prompts();
    Encode(item.sequence, *added.mutable_sequence());
    added.set_cached(item.cached);
    added.mutable_tokens()->Add(item.tokens.begin(), item.tokens.end());
  }
}

absl::StatusOr<VerifyCall> Decode(const proto::VerifierRequest::Verify& in) {
  VerifyCall call;
  int64_t mask_room = kMaxMaskBytes;
  for (const proto::VerifierRequest::Item& item : in.items()) {
    ASSIGN_OR_RETURN(DraftTree tree, Decode(item.tree()));
    ASSIGN_OR_RETURN(RowMasks masks, DecodeMasks(item, mask_room));
    call.forest.push_back(
        {Decode(item.sequence()), item.cached(), std::move(tree), std::move(masks)});
  }
  for (const proto::VerifierRequest::Prompt& item : in.prompts()) {
    call.prompts.push_back(
        {Decode(item.sequence()), item.cached(), {item.tokens().begin(), item.tokens().end()}});
  }
  return call;
}

void Encode(const VerifyResult& result, proto::VerifierReply& out) {
  Encode(result.trace, *out.mutable_trace());
  out.mutable_audit()->set_cycles(result.audit.cycles);
  out.mutable_audit()->set_tokens(result.audit.tokens);
  out.mutable_audit()->set_within_tolerance(result.audit.within_tolerance);
  out.mutable_audit()->set_mismatches(result.audit.mismatches);
  for (const absl::Status& status : result.prompts) Encode(status, *out.add_prompts());
  out.set_free_kv_tokens(result.free_kv_tokens);
  for (const VerifyOutcome& outcome : result.outcomes) {
    proto::VerifierReply::Outcome& added = *out.add_outcomes();
    Encode(outcome.status, *added.mutable_status());
    for (const NodeIndex node : outcome.acceptance.path) added.add_path(node.value());
    added.set_next(outcome.acceptance.next);
    for (const TokenLogprobs& logprobs : outcome.acceptance.logprobs) {
      proto::VerifierReply::Logprobs& encoded = *added.add_logprobs();
      encoded.set_chosen(logprobs.chosen);
      for (const auto& [token, value] : logprobs.top) {
        encoded.add_tokens(token);
        encoded.add_values(value);
      }
    }
  }
}

VerifyResult DecodeVerifyResult(const proto::VerifierReply& in) {
  VerifyResult result;
  result.trace = Decode(in.trace());
  result.audit = {in.audit().cycles(), in.audit().tokens(), in.audit().within_tolerance(),
                  in.audit().mismatches()};
  for (const proto::StepStatus& status : in.prompts()) result.prompts.push_back(Decode(status));
  result.free_kv_tokens = in.free_kv_tokens();
  for (const proto::VerifierReply::Outcome& outcome : in.outcomes()) {
    VerifyOutcome& added = result.outcomes.emplace_back();
    added.status = Decode(outcome.status());
    for (const int node : outcome.path()) added.acceptance.path.push_back(NodeIndex::Of(node));
    added.acceptance.next = outcome.next();
    for (const proto::VerifierReply::Logprobs& encoded : outcome.logprobs()) {
      TokenLogprobs& logprobs = added.acceptance.logprobs.emplace_back();
      logprobs.chosen = encoded.chosen();
      for (int i = 0; i < std::min(encoded.tokens_size(), encoded.values_size()); ++i) {
        logprobs.top.emplace_back(encoded.tokens(i), encoded.values(i));
      }
    }
  }
  return result;
}

void Encode(const Frontier& frontier, proto::DrafterRequest::Frontier& out) {
  Encode(frontier.sequence, *out.mutable_sequence());
  out.set_committed(frontier.committed);
  out.set_root(frontier.root);
  out.mutable_new_tokens()->Add(frontier.new_tokens.begin(), frontier.new_tokens.end());
  for (const std::vector<TokenId>& path : frontier.paths) {
    out.add_paths()->mutable_tokens()->Add(path.begin(), path.end());
  }
  out.set_candidates(frontier.candidates);
  Encode(frontier.sampling, *out.mutable_sampling());
  out.set_coupled(frontier.coupled);
  out.set_cache_salt(frontier.cache_salt);
}

Frontier Decode(const proto::DrafterRequest::Frontier& in) {
  Frontier frontier;
  frontier.sequence = Decode(in.sequence());
  frontier.committed = in.committed();
  frontier.root = in.root();
  frontier.new_tokens.assign(in.new_tokens().begin(), in.new_tokens().end());
  frontier.paths.clear();
  for (const proto::DrafterRequest::Path& path : in.paths()) {
    frontier.paths.emplace_back(path.tokens().begin(), path.tokens().end());
  }
  frontier.cache_salt = in.cache_salt();
  frontier.candidates = in.candidates();
  frontier.sampling = Decode(in.sampling());
  frontier.coupled = in.coupled();
  return frontier;
}

void Encode(const Draft& draft, Carrier& carrier, proto::DrafterReply::Draft& out) {
  if (!draft.status.ok()) Encode(draft.status, *out.mutable_status());
  for (const Marginals& marginals : draft.marginals) {
    proto::DrafterReply::Marginals& added = *out.add_marginals();
    if (marginals.empty()) continue;
    const std::vector<int64_t> dims = {marginals.positions, marginals.candidates};
    carrier.Put({TensorRef::DTYPE_INT32, dims}, AsBytes(marginals.tokens), *added.mutable_tokens());
    carrier.Put({TensorRef::DTYPE_FLOAT32, dims}, AsBytes(marginals.log_probs),
                *added.mutable_log_probs());
    if (!marginals.buckets.empty()) added.set_buckets(std::string(AsBytes(marginals.buckets)));
    if (marginals.pair_scores.empty()) continue;
    carrier.Put({TensorRef::DTYPE_FLOAT32, {dims[0], dims[1], dims[1]}},
                AsBytes(marginals.pair_scores), *added.mutable_pair_scores());
  }
}

absl::StatusOr<Draft> Decode(const proto::DrafterReply::Draft& in, Carrier& carrier) {
  Draft draft;
  draft.status = Decode(in.status());
  for (const proto::DrafterReply::Marginals& marginals : in.marginals()) {
    Marginals& added = draft.marginals.emplace_back();
    if (!marginals.has_tokens()) continue;
    const TensorRef& tokens = marginals.tokens();
    const TensorRef& log_probs = marginals.log_probs();
    if (tokens.dtype() != TensorRef::DTYPE_INT32 || log_probs.dtype() != TensorRef::DTYPE_FLOAT32 ||
        tokens.shape_size() != 2 || tokens.shape(0) < 1 || tokens.shape(1) < 1 ||
        !std::equal(tokens.shape().begin(), tokens.shape().end(), log_probs.shape().begin(),
                    log_probs.shape().end())) {
      return absl::InvalidArgumentError(
          "marginals: must be int32 tokens and float32 log-probs, both [P, K] with P, K >= 1");
    }
    if (!marginals.buckets().empty() &&
        static_cast<int64_t>(marginals.buckets().size()) != tokens.shape(0)) {
      return absl::InvalidArgumentError(absl::StrCat("marginals: ", marginals.buckets().size(),
                                                     " buckets for ", tokens.shape(0),
                                                     " positions; send one each, or none"));
    }
    ASSIGN_OR_RETURN(const absl::string_view token_bytes, carrier.Get(tokens));
    added.tokens = FromBytes<TokenId>(token_bytes);
    ASSIGN_OR_RETURN(const absl::string_view log_bytes, carrier.Get(log_probs));
    added.log_probs = FromBytes<float>(log_bytes);
    added.buckets = FromBytes<uint8_t>(marginals.buckets());
    added.positions = static_cast<int>(tokens.shape(0));
    added.candidates = static_cast<int>(tokens.shape(1));
    if (marginals.has_pair_scores()) {
      ASSIGN_OR_RETURN(added.pair_scores,
                       DecodePairScores(marginals.pair_scores(), added, carrier));
    }
  }
  return draft;
}

TensorRef::DType FeatureDType(DType type) {
  return type == DType::kF32 ? TensorRef::DTYPE_FLOAT32 : TensorRef::DTYPE_BFLOAT16;
}

TensorShape FeatureShape(DType type, int rows, int width) {
  return {FeatureDType(type), {rows, width}};
}

absl::StatusOr<Features> Decode(const proto::TensorRef& in, Carrier& carrier) {
  ASSIGN_OR_RETURN(Features features, EmptyFeatures(in));
  ASSIGN_OR_RETURN(const absl::string_view bytes, carrier.Get(in));
  features.bytes = std::string(bytes);
  return features;
}

absl::StatusOr<Features> Decode(const proto::TensorRef& in,
                                const std::shared_ptr<const DeviceRingReader>& ring) {
  if (ring == nullptr) {
    return absl::UnimplementedError(
        "features: the peer sent rows in GPU memory, but this stream has no ring there");
  }
  ASSIGN_OR_RETURN(Features features, EmptyFeatures(in));
  RETURN_IF_ERROR(CheckBytes(in, in.device().bytes()));
  RETURN_IF_ERROR(ring->Check(in.device().position(), in.device().bytes()));
  features.device = {ring, in.device().position(), static_cast<int>(in.shape(0))};
  return features;
}

}  // namespace bastion::wire
