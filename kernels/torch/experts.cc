#include "kernels/torch/kernels.h"
#include "kernels/torch/tensors.h"

namespace bastion::kernels::torch {

template <at::ScalarType kCompute>
void Route(const RouteArgs& args, ThreadPool&) {
  const AtenScope scope;
  const at::Tensor logits = Floats(args.logits, {args.rows, args.experts_total}).to(kCompute);
  const at::Tensor all = at::softmax(logits, 1);
  // A stable descending sort gives ties to the lowest id, unlike topk.
  const at::Tensor best =
      std::get<1>(logits.sort(/*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, args.chosen);
  const at::Tensor experts = std::get<0>(best.sort(1));
  at::Tensor weights = all.gather(1, experts);
  if (args.normalize) weights = weights / weights.sum(1, /*keepdim=*/true);
  View(args.experts, at::kInt, {args.rows, args.chosen}).copy_(experts);
  Floats(args.weights, {args.rows, args.chosen}).copy_(weights);
}

void GatherRows(const GatherRowsArgs& args, ThreadPool&) {
  const AtenScope scope;
  const at::Tensor x = Floats(args.x, {RowsSpanned(args.sources, args.rows), args.width});
  Floats(args.y, {args.rows, args.width})
      .copy_(x.index_select(0, Indices(args.sources, args.rows)));
}

template <at::ScalarType kCompute>
void Combine(const CombineArgs& args, ThreadPool&) {
  const AtenScope scope;
  const int64_t pairs = int64_t{args.rows} * args.chosen;
  const at::Tensor y = Floats(args.y, {RowsSpanned(args.places, pairs), args.width}).to(kCompute);
  const at::Tensor chosen =
      y.index_select(0, Indices(args.places, pairs)).view({args.rows, args.chosen, args.width});
  const at::Tensor weights = Floats(args.weights, {args.rows, args.chosen, 1}).to(kCompute);
  const at::Tensor x = Floats(args.x, {args.rows, args.width});
  x.copy_(x.to(kCompute) + (chosen * weights).sum(1));
}

template void Route<at::kFloat>(const RouteArgs&, ThreadPool&);
template void Route<at::kDouble>(const RouteArgs&, ThreadPool&);
template void Combine<at::kFloat>(const CombineArgs&, ThreadPool&);
template void Combine<at::kDouble>(const CombineArgs&, ThreadPool&);

}  // namespace bastion::kernels::torch
