#include "drafter_service/draft/rank_head.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

kernels::PackedMatrix PackedAt(const nn::Buffer& memory, int rows, int columns) {
  return {WeightFormat::kF32, rows, columns, memory.data()};
}

nn::Buffer Pack(const hub::TensorView& view, const nn::HostKernels& host) {
  const auto rows = static_cast<int>(view.shape[0]), columns = static_cast<int>(view.shape[1]);
  nn::Buffer memory = nn::Buffer::Allocate(PackedAt({}, rows, columns).bytes());
  kernels::PackMatrix({kernels::SourceMatrix{view.dtype, view.data, rows}},
                      PackedAt(memory, rows, columns), *host.pool);
  return memory;
}

// y [rows, N] = x [rows, K] Wᵀ.
std::vector<float> Multiply(const nn::HostKernels& host, const kernels::PackedMatrix& weight,
                            const float* x, int rows) {
  std::vector<float> y(static_cast<size_t>(rows) * weight.rows);
  kernels::LinearArgs args;
  args.x = x;
  args.weight = weight;
  args.y = y.data();
  args.rows = rows;
  args.y_stride = weight.rows;
  host.backend->linear(args, *host.pool);
  return y;
}

}  // namespace

void RankFeatures(const float* log_probs, int count, float* features) {
  constexpr int kRanks = 10;
  constexpr int kGaps[] = {2, 3, 5};
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += std::exp(double{log_probs[i]} - log_probs[0]);
  const auto log_sum = static_cast<float>(std::log(sum));
  const auto relative = [&](int i) { return log_probs[i] - log_probs[0] - log_sum; };
  float* next = features;
  for (int i = 0; i < kRanks; ++i) *next++ = i < count ? relative(i) : 0;
  for (const int rank : kGaps) {
    *next++ = rank <= count ? log_probs[0] - log_probs[rank - 1] : 0;
  }
  double entropy = 0;
  for (int i = 0; i < count; ++i) {
    const double log_p = relative(i);
    if (std::isfinite(log_p)) entropy -= std::exp(log_p) * log_p;
  }
  *next++ = std::exp(relative(0));
  *next = static_cast<float>(entropy);
}

absl::StatusOr<RankHead> RankHead::Load(const FeaturePair& pair, const nn::HostKernels& host) {
  RankHead head;
  head.host_ = host;
  head.width_ = pair.drafter.dims.hidden;
  const int columns = head.width_ + kFeatures;
  // The width of the inner layer is that of the tensor.
  constexpr char kFirst[] = "rank_head.0.weight", kSecond[] = "rank_head.2.weight";
  ASSIGN_OR_RETURN(const hub::TensorView shape, pair.checkpoint->Find(kFirst));
  const auto inner = shape.shape.empty() ? 0 : static_cast<int>(shape.shape[0]);
  ASSIGN_OR_RETURN(const hub::TensorView first, pair.checkpoint->Tensor(kFirst, {inner, columns}));
  ASSIGN_OR_RETURN(const hub::TensorView second,
                   pair.checkpoint->Tensor(kSecond, {kClasses, inner}));
  head.inner_ = inner;
  head.first_ = Pack(first, host);
  head.second_ = Pack(second, host);
  return head;
}

std::vector<float> RankHead::Logits(const float* states, int rows,
                                    const std::vector<Marginals>& top) const {
  const int columns = width_ + kFeatures;
  std::vector<float> inputs(static_cast<size_t>(rows) * columns);
  float* to = inputs.data();
  for (const Marginals& marginals : top) {
    for (int k = 0; k < marginals.positions; ++k, states += width_, to += columns) {
      std::copy_n(states, width_, to);
      RankFeatures(marginals.log_probs.data() + static_cast<size_t>(k) * marginals.candidates,
                   std::min(marginals.candidates, kTop), to + width_);
    }
  }
  std::vector<float> hidden =
      Multiply(host_, PackedAt(first_, inner_, columns), inputs.data(), rows);
  for (float& value : hidden) value /= 1 + std::exp(-value);  // SiLU
  return Multiply(host_, PackedAt(second_, kClasses, inner_), hidden.data(), rows);
}

std::vector<uint8_t> RankHead::Classes(const std::vector<float>& logits) {
  std::vector<uint8_t> classes;
  for (auto row = logits.begin(); row != logits.end(); row += kClasses) {
    classes.push_back(static_cast<uint8_t>(std::max_element(row, row + kClasses) - row));
  }
  return classes;
}

}  // namespace bastion::drafter
