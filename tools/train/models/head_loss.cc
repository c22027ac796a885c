#include "tools/train/models/head_loss.h"

#include <algorithm>
#include <vector>

#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int64_t kChunkRows = 512;

}  // namespace

HeadLoss AddHeadGradients(const HeadLossArgs& args) {
  const at::Tensor rows = args.rows.detach();
  const bool owns_head = args.own_head.defined();
  const at::Tensor head = owns_head ? args.own_head.detach() : args.head;
  const at::Tensor gradient = at::empty_like(rows);
  const at::Tensor head_gradient = owns_head ? at::zeros_like(head) : at::Tensor();
  std::vector<at::Tensor> losses, hits, tokens, logits;
  {
    const at::NoGradGuard no_gradients;
    for (int64_t first = 0; first < rows.size(0); first += kChunkRows) {
      const int64_t count = std::min(kChunkRows, rows.size(0) - first);
      const at::Tensor labels = args.labels.narrow(0, first, count).unsqueeze(-1);
      const at::Tensor own = Product(rows.narrow(0, first, count), head);
      if (args.further != nullptr) {
        const auto [values, columns] = own.topk(args.top);
        logits.push_back(values);
        tokens.push_back(columns);
      }
      const at::Tensor log_q = at::log_softmax(own, -1);
      at::Tensor p = at::softmax(Product(args.teacher.narrow(0, first, count), args.head), -1);
      if (args.hard_share > 0) {
        p.mul_(1 - args.hard_share)
            .scatter_add_(-1, labels, at::full({count, 1}, args.hard_share, p.options()));
      }
      losses.push_back(-at::linalg_vecdot(p, log_q));
      hits.push_back(log_q.argmax(-1, /*keepdim=*/true).eq(labels).squeeze(-1));
      const at::Tensor difference = log_q.exp().sub_(p);
      difference.mul_(args.weights.narrow(0, first, count).unsqueeze(-1));
      gradient.narrow(0, first, count).copy_(Product(difference, head.t()));
      if (owns_head) head_gradient.add_(Product(difference.t(), rows.narrow(0, first, count).t()));
    }
  }
  if (owns_head) args.own_head.mutable_grad() = head_gradient;
  if (args.further != nullptr) {
    const at::Tensor more = args.further({at::cat(tokens), at::cat(logits)});
    if (more.defined()) gradient.add_(more);
  }
  args.rows.backward(gradient);  // May add to the gradient of a head that is also the embedding.
  return {at::cat(losses), at::cat(hits)};
}

}  // namespace bastion::train
