#include "kernels/torch/kernels.h"
#include "kernels/torch/tensors.h"

namespace bastion::kernels::torch {
namespace {

// A panel is [K / T, 32] words of T elements each (PackedMatrix). The product is therefore a sum
// over the elements of a word:
//
//   y = Σ_t x_t · w_t      x_t [R, K / T]      w_t [K / T, 32], element t of every word
//
// x_t has the columns t, T + t, 2T + t, … of x. Part returns w_t: a shift or a mask extracts it
// from the words.
at::Tensor Part(const at::Tensor& words, WeightFormat format, int t) {
  if (format == WeightFormat::kInt8) {
    return words.bitwise_left_shift(24 - 8 * t).bitwise_right_shift(24);
  }
  if (format == WeightFormat::kF32) return words.view(at::kFloat);
  constexpr int64_t kUpperHalf = ~int64_t{0xFFFF};  // bfloat16 is the upper half of a float.
  return (t == 0 ? words.bitwise_left_shift(16) : words.bitwise_and(kUpperHalf)).view(at::kFloat);
}

struct Inputs {
  at::Tensor parts;  // [T, R, K / T]
  at::Tensor scale;  // [R, 1], the scales of x rounded to int8; undefined for float weights
};

template <at::ScalarType kCompute>
Inputs MakeInputs(const LinearArgs& args) {
  const PackedMatrix& weight = args.weight;
  Inputs inputs;
  at::Tensor x = Floats(args.x, {args.rows, weight.columns});
  if (weight.format == WeightFormat::kInt8) {
    const at::Tensor largest = x.abs().amax(1, /*keepdim=*/true);
    x = (x * at::where(largest == 0, largest, 127 / largest)).round();
    inputs.scale = largest.to(kCompute) / 127;
  }
  inputs.parts = at::constant_pad_nd(x.to(kCompute), {0, weight.depth() - weight.columns})
                     .view({args.rows, -1, weight.per_word()})
                     .permute({2, 0, 1})
                     .contiguous();
  return inputs;
}

// Computes the columns of y that belong to panels [begin, end).
template <at::ScalarType kCompute>
void Multiply(const LinearArgs& args, const Inputs& inputs, int64_t begin, int64_t end) {
  const PackedMatrix& weight = args.weight;
  const int64_t panels = end - begin, per_word = inputs.parts.size(0);
  const auto stride = static_cast<int64_t>(weight.panel_bytes() / sizeof(int32_t));
  const at::Tensor words = View(static_cast<const int32_t*>(weight.data) + begin * stride, at::kInt,
                                {panels, weight.depth() / per_word, kPanel}, {stride, kPanel, 1});
  at::Tensor sum;  // [panels, R, 32]
  for (int64_t t = 0; t < per_word; ++t) {
    const at::Tensor x = inputs.parts[t].unsqueeze(0).expand({panels, -1, -1});
    const at::Tensor product =
        at::bmm(x, Part(words, weight.format, static_cast<int>(t)).to(kCompute));
    sum = t == 0 ? product : sum.add_(product);
  }
  if (weight.format == WeightFormat::kInt8) {
    const at::Tensor scales = View(weight.scales(static_cast<int>(begin)), at::kFloat,
                                   {panels, 1, kPanel}, {stride, kPanel, 1});
    sum = sum * (inputs.scale * scales);
  }
  const int64_t columns = std::min(end * kPanel, int64_t{weight.rows}) - begin * kPanel;
  sum = sum.transpose(0, 1).reshape({args.rows, panels * kPanel}).narrow(1, 0, columns);
  const at::Tensor y =
      View(args.y + begin * kPanel, at::kFloat, {args.rows, columns}, {args.y_stride, 1});
  if (args.accumulate) sum = sum + y;
  if (args.bias != nullptr) sum = sum + Floats(args.bias + begin * kPanel, {columns});
  y.copy_(sum);
}

template <at::ScalarType kCompute>
void LinearWords(const LinearArgs& args, ThreadPool& pool) {
  constexpr int64_t kPanelsAtOnce = 8;  // Few enough that the unpacked panels stay in the cache.
  const AtenScope scope;
  const Inputs inputs = MakeInputs<kCompute>(args);
  ForRanges(pool, args.weight.panels(), kPanelsAtOnce, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kPanelsAtOnce) {
      Multiply<kCompute>(args, inputs, begin, std::min(begin + kPanelsAtOnce, end));
    }
  });
}

}  // namespace

template <at::ScalarType kCompute>
void Linear(const LinearArgs& args, ThreadPool& pool) {
  switch (args.weight.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
    case WeightFormat::kInt8:
      return LinearWords<kCompute>(args, pool);
  }
}

template void Linear<at::kFloat>(const LinearArgs&, ThreadPool&);
template void Linear<at::kDouble>(const LinearArgs&, ThreadPool&);

}  // namespace bastion::kernels::torch
