// The loss by chunks has the gradient that autograd computes for the whole.
#include "tools/train/models/head_loss.h"
// After torch.h.
#include <gtest/gtest.h>

#include "tools/train/models/draws.h"

namespace bastion::train {
namespace {

at::Tensor Normal(at::IntArrayRef shape, uint64_t seed) {
  Draws draws(seed, 0);
  const at::Tensor tensor = at::empty(shape, at::kFloat);
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<float>()[i] = draws.Normal();
  return tensor;
}

TEST(HeadLossTest, GradientsByChunksEqualThoseOfTheWhole) {
  at::set_num_threads(1);
  constexpr int64_t kRows = 1100, kHidden = 8, kVocabulary = 50;  // Three chunks.
  const at::Tensor source = Normal({kRows, kHidden}, 1).requires_grad_(true);
  const at::Tensor teacher = Normal({kRows, kHidden}, 2), head = Normal({kVocabulary, kHidden}, 3);
  const at::Tensor labels = at::arange(kRows, at::kLong).remainder(kVocabulary);
  const at::Tensor weights = at::arange(1, kRows + 1, at::kFloat) / kRows;

  const HeadLoss loss = AddHeadGradients({.rows = source * 2,
                                          .teacher = teacher,
                                          .labels = labels,
                                          .weights = weights,
                                          .head = head,
                                          .hard_share = 0.25});
  const at::Tensor by_chunks = source.grad().clone();

  source.mutable_grad().reset();
  const at::Tensor log_q = at::log_softmax(at::linear(source * 2, head), -1);
  const at::Tensor wanted = 0.75 * at::softmax(at::linear(teacher, head), -1) +
                            0.25 * at::one_hot(labels, kVocabulary).to(at::kFloat);
  const at::Tensor losses = -(wanted * log_q).sum(-1);
  (losses * weights).sum().backward();

  EXPECT_TRUE(at::allclose(loss.losses, losses.detach(), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(by_chunks, source.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(at::equal(loss.hits, log_q.argmax(-1).eq(labels)));
}

}  // namespace
}  // namespace bastion::train
