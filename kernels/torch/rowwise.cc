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

template <at::ScalarType kCompute>
void Scale(const ScaleArgs& args, ThreadPool&) {
  const AtenScope scope;
  const at::Tensor x = Floats(args.x, {args.rows, args.width});
  const at::Tensor scaled = x.to(kCompute) * static_cast<double>(args.factor);
  const double cap = args.cap;
  x.copy_(cap > 0 ? (scaled / cap).tanh() * cap : scaled);
}

template <at::ScalarType kCompute>
void Convolve(const ConvolveArgs& args, ThreadPool&) {
  const AtenScope scope;
  const int groups = args.width / args.group;
  const at::Tensor x = Floats(args.x, {args.rows, args.width}).to(kCompute);
  const at::Tensor base = Floats(args.base, {args.taps, args.width}).to(kCompute);
  const at::Tensor dynamic =
      View(args.coefficients, at::kFloat, {args.rows, args.taps, groups}, {args.stride, groups, 1})
          .to(kCompute)
          .repeat_interleave(args.group, 2);
  const at::Tensor places = at::arange(args.rows) % args.block_rows;
  at::Tensor sum = at::zeros({args.rows, args.width}, at::dtype(kCompute));
  for (int tap = 0; tap < std::min(args.taps, args.rows); ++tap) {
    // Row r of `shifted` is row r − tap, or 0 if that belongs to another block.
    const at::Tensor shifted = at::zeros_like(x);
    shifted.slice(0, tap).copy_(x.slice(0, 0, args.rows - tap));
    sum += (base.select(0, tap) + dynamic.select(1, tap)) * shifted *
           (places >= tap).unsqueeze(1).to(kCompute);
  }
  const at::Tensor y = Floats(args.y, {args.rows, args.width});
  y.copy_(args.accumulate ? y.to(kCompute) + sum : sum);
}

template void RmsNorm<at::kFloat>(const RmsNormArgs&, ThreadPool&);
template void RmsNorm<at::kDouble>(const RmsNormArgs&, ThreadPool&);
template void LayerNorm<at::kFloat>(const LayerNormArgs&, ThreadPool&);
template void LayerNorm<at::kDouble>(const LayerNormArgs&, ThreadPool&);
template void SiluMul<at::kFloat>(const SiluMulArgs&, ThreadPool&);
template void SiluMul<at::kDouble>(const SiluMulArgs&, ThreadPool&);
template void Gelu<at::kFloat>(const GeluArgs&, ThreadPool&);
template void Gelu<at::kDouble>(const GeluArgs&, ThreadPool&);
template void Scale<at::kFloat>(const ScaleArgs&, ThreadPool&);
template void Scale<at::kDouble>(const ScaleArgs&, ThreadPool&);
template void Convolve<at::kFloat>(const ConvolveArgs&, ThreadPool&);
template void Convolve<at::kDouble>(const ConvolveArgs&, ThreadPool&);

}  // namespace bastion::kernels::torch
