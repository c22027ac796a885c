// The part of codec.h that describes services.
#include <cmath>

#include "common/base/peer_text.h"
#include "common/wire/codec.h"

namespace bastion::wire {
namespace {

void Encode(const MlpDims& mlp, proto::MlpDims& out) {
  out.set_matrices(mlp.matrices);
  out.set_expert_layers(mlp.expert_layers);
  out.set_experts(mlp.experts);
  out.set_chosen(mlp.chosen);
  out.set_expert_intermediate(mlp.expert_intermediate);
}

MlpDims Decode(const proto::MlpDims& in) {
  return {in.matrices(), in.expert_layers(), in.experts(), in.chosen(), in.expert_intermediate()};
}

// kNone for a route that this release does not know.
FeatureRoute DecodeRoute(uint32_t route) {
  constexpr auto kLast = static_cast<uint32_t>(FeatureRoute::kPeerGpuMemory);
  return route <= kLast ? static_cast<FeatureRoute>(route) : FeatureRoute::kNone;
}

}  // namespace

void Encode(const TargetInfo& info, proto::TargetInfo& out) {
  out.set_model(info.model);
  out.set_device(info.device);
  out.set_layers(info.dims.layers);
  out.set_hidden(info.dims.hidden);
  out.set_query_heads(info.dims.query_heads);
  out.set_kv_heads(info.dims.kv_heads);
  out.set_head_dim(info.dims.head_dim);
  out.set_intermediate(info.dims.intermediate);
  out.set_vocabulary(info.dims.vocabulary);
  out.set_bytes_per_element(static_cast<int>(std::ceil(info.dims.bytes_per_weight)));
  out.set_bytes_per_weight(info.dims.bytes_per_weight);
  out.set_state_bytes_per_element(info.dims.state_bytes_per_element);
  Encode(info.dims.mlp, *out.mutable_mlp());
  out.set_bytes_per_second(info.peaks.bytes_per_second);
  out.set_flops_per_second(info.peaks.flops_per_second);
  out.set_max_context(info.max_context);
  out.set_max_rows(info.max_rows);
  out.set_kv_tokens(info.kv_tokens);
  out.set_page_tokens(info.page_tokens);
  out.set_identity(info.identity);
  out.set_on_gpu(info.on_gpu);
  out.set_takes_masks(info.takes_masks);
}

TargetInfo Decode(const proto::TargetInfo& in) {
  TargetInfo info;
  info.model = PeerName(in.model());
  info.device = PeerName(in.device());
  info.dims = {.layers = in.layers(),
               .hidden = in.hidden(),
               .query_heads = in.query_heads(),
               .kv_heads = in.kv_heads(),
               .head_dim = in.head_dim(),
               .intermediate = in.intermediate(),
               .vocabulary = in.vocabulary(),
               .bytes_per_weight =
                   in.bytes_per_weight() > 0 ? in.bytes_per_weight() : in.bytes_per_element(),
               .state_bytes_per_element = in.state_bytes_per_element()};
  if (in.has_mlp()) info.dims.mlp = Decode(in.mlp());
  info.peaks = {in.bytes_per_second(), in.flops_per_second()};
  info.max_context = in.max_context();
  info.max_rows = in.max_rows();
  info.kv_tokens = in.kv_tokens();
  info.page_tokens = in.page_tokens();
  info.identity = PeerName(in.identity());
  info.on_gpu = in.on_gpu();
  info.takes_masks = in.takes_masks();
  return info;
}

void Encode(const EngineActivity& activity, proto::EngineActivity& out) {
  out.set_instance(activity.instance);
  out.set_progress(activity.progress);
  out.set_busy(activity.busy);
}

EngineActivity Decode(const proto::EngineActivity& in) {
  return {in.instance(), in.progress(), in.busy()};
}

void Encode(const DrafterInfo& info, proto::DrafterInfo& out) {
  out.set_model(info.model);
  out.set_positions(info.positions);
  out.set_vocabulary(info.vocabulary);
  out.set_max_context(info.max_context);
  out.set_wants_tokens(info.wants_tokens);
  out.set_expands_nodes(info.expands_nodes);
  out.set_features(static_cast<uint32_t>(info.features));
}

DrafterInfo Decode(const proto::DrafterInfo& in) {
  return {.model = PeerName(in.model()),
          .positions = in.positions(),
          .vocabulary = in.vocabulary(),
          .max_context = in.max_context(),
          .wants_tokens = in.wants_tokens(),
          .expands_nodes = in.expands_nodes(),
          .features = DecodeRoute(in.features())};
}

}  // namespace bastion::wire
