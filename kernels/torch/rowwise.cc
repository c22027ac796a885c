#include "kernels/torch/kernels.h"
#include "kernels/torch/tensors.h"

namespace bastion::kernels::torch {

template <at::ScalarType kCompute>
void RmsNorm(const RmsNormArgs& args, ThreadPool&) {
  const AtenScope scope;
  const at::Tensor x = Floats(args.x, {args.rows, args.width}).to(kCompute);
  Floats(args.y, {args.rows, args.width})
      .copy_(Normed(x, Floats(args.weight, {args.width}), args.epsilon));
}

template <at::ScalarType kCompute>
void LayerNorm(const LayerNormArgs& args, ThreadPool&) {
  const AtenScope scope;
  const at::Tensor x = Floats(args.x, {args.rows, args.width}).to(kCompute);
  Floats(args.y, {args.rows, args.width})
      .copy_(at::layer_norm(x, {args.width}, Floats(args.weight, {args.width}).to(kCompute),
                            Floats(args.bias, {args.width}).to(kCompute), args.epsilon));
}

void Embed(const EmbedArgs& args, ThreadPool&) {
  const AtenScope scope;
  const int64_t vocabulary = RowsSpanned(args.tokens, args.rows);
  const at::Tensor table = View(args.table, TypeOf(args.dtype), {vocabulary, args.width});
  Floats(args.y, {args.rows, args.width})
      .copy_(table.index_select(0, Indices(args.tokens, args.rows)));
}

template <at::ScalarType kCompute>
void SiluMul(const SiluMulArgs& args, ThreadPool&) {
  const AtenScope scope;
  const at::Tensor gate_up = Floats(args.gate_up, {args.rows, 2, args.width}).to(kCompute);
  Floats(args.y, {args.rows, args.width})
      .copy_(at::silu(gate_up.select(1, 0)) * gate_up.select(1, 1));
}

template <at::ScalarType kCompute>
void Gelu(const GeluArgs& args, ThreadPool&) {
  const AtenScope scope;
  Floats(args.y, {args.rows, args.width})
      .copy_(at::gelu(Floats(args.x, {args.rows, args.width}).to(kCompute)));
}

template void RmsNorm<at::kFloat>(const RmsNormArgs&, ThreadPool&);
template void RmsNorm<at::kDouble>(const RmsNormArgs&, ThreadPool&);
template void LayerNorm<at::kFloat>(const LayerNormArgs&, ThreadPool&);
template void LayerNorm<at::kDouble>(const LayerNormArgs&, ThreadPool&);
template void SiluMul<at::kFloat>(const SiluMulArgs&, ThreadPool&);
template void SiluMul<at::kDouble>(const SiluMulArgs&, ThreadPool&);
template void Gelu<at::kFloat>(const GeluArgs&, ThreadPool&);
template void Gelu<at::kDouble>(const GeluArgs&, ThreadPool&);

}  // namespace bastion::kernels::torch
