#include "kernels/torch/cache.h"
#include "kernels/torch/kernels.h"

namespace bastion::kernels::torch {
namespace {

// Optional norm and rotary embedding of heads at known positions.
class Rotation {
 public:
  Rotation(const QkvArgs& args, at::ScalarType compute)
      : rows_(args.rows),
        dim_(args.cache.head_dim),
        half_(args.rotated() / 2),
        epsilon_(args.epsilon),
        compute_(compute) {
    const int64_t positions = RowsSpanned(args.positions, args.rows);
    const at::Tensor table = Floats(args.cosine_sine, {positions, 2, half_});
    const at::Tensor selected =
        table.index_select(0, Indices(args.positions, args.rows)).to(compute);
    cosine_ = selected.select(1, 0).unsqueeze(1);
    sine_ = selected.select(1, 1).unsqueeze(1);
  }

  // Views rows of `heads` heads, [R, heads, D]. `stride` is the distance between rows.
  [[nodiscard]] at::Tensor Heads(const float* data, int heads, int stride) const {
    return View(data, at::kFloat, {rows_, heads, dim_}, {stride, dim_, 1});
  }
  [[nodiscard]] at::Tensor Rotated(const at::Tensor& heads, const float* norm) const {
    at::Tensor x = heads.to(compute_);
    if (norm != nullptr) x = Normed(x, Floats(norm, {dim_}), epsilon_);
    const at::Tensor a = x.narrow(2, 0, half_), b = x.narrow(2, half_, half_);
    const at::Tensor rest = x.narrow(2, 2 * half_, dim_ - 2 * half_);
    return at::cat({a * cosine_ - b * sine_, b * cosine_ + a * sine_, rest}, 2).to(at::kFloat);
  }

 private:
  const int64_t rows_, dim_, half_;
  const double epsilon_;
  const at::ScalarType compute_;
  at::Tensor cosine_, sine_;  // [R, 1, rotary_dims / 2]
};

}  // namespace

template <at::ScalarType kCompute>
void Qkv(const QkvArgs& args, ThreadPool&) {
  const AtenScope scope;
  const Rotation rotation(args, kCompute);
  if (args.query != nullptr) {
    const at::Tensor query = rotation.Heads(args.query, args.query_heads, args.query_stride);
    query.copy_(rotation.Rotated(query, args.query_norm));
  }
  const at::Tensor key = rotation.Heads(args.key, args.cache.kv_heads, args.kv_stride);
  const at::Tensor value = rotation.Heads(args.value, args.cache.kv_heads, args.kv_stride);
  Slots(args.cache, args.slots, args.rows).Write(rotation.Rotated(key, args.key_norm), value);
}

void KvMove(const KvMoveArgs& args, ThreadPool&) {
  const AtenScope scope;
  const Slots from(args.cache, args.sources, args.count);
  const at::Tensor keys = from.Keys(), values = from.Values();
  Slots(args.cache, args.destinations, args.count).Write(keys, values);
}

template void Qkv<at::kFloat>(const QkvArgs&, ThreadPool&);
template void Qkv<at::kDouble>(const QkvArgs&, ThreadPool&);

}  // namespace bastion::kernels::torch
