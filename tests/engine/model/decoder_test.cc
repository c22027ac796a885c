// Compares the decoder with itself: a row has the same bits regardless of how rows are grouped into
// forwards. tests/parity compares its values with other implementations.
#include "engine/model/decoder.h"

#include <cmath>
#include <cstring>

#include "engine/host/host_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/golden_file.h"
#include "tests/support/model_runner.h"

namespace bastion::nn {
namespace {

using kernels::RowMask;
using ::testing::HasSubstr;

constexpr int kTokens = 40;

class DecoderTest : public ::testing::TestWithParam<WeightFormat> {
 protected:
  void SetUp() override { Load("gqa2_untied_draft2"); }

  void Load(const std::string& golden, const std::vector<int>& layers = {}) {
    options_.formats = FormatsFor(GetParam());
    options_.device = MakeHostDevice(kernels::CpuBackend(), pool_);
    options_.kv_tokens = 1024;
    auto model =
        testing::ModelRunner::Load(testing::GoldenFolder(golden) + "/target", options_, layers);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    config_ = model_->config();
    tokens_.clear();
    for (int i = 0; i < kTokens; ++i) tokens_.push_back((i * 37 + 11) % width());
  }

  // Elements of a row of logits.
  int width() const { return config_.dims.vocabulary; }

  // Returns the logits after tokens_ in a new sequence, computed with `chunk` rows per forward.
  std::vector<float> InChunks(int chunk) {
    PageTable table;
    EXPECT_TRUE(model_->cache().Reserve(table, kTokens).ok());
    std::vector<float> all;
    for (int begin = 0; begin < kTokens; begin += chunk) {
      const int end = std::min(begin + chunk, kTokens);
      RowBatch batch;
      batch.AddRun({&table, begin, RowMask::kCausal},
                   {tokens_.begin() + begin, tokens_.begin() + end});
      const std::vector<float> rows = model_->Run(batch);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }

  kernels::ThreadPool pool_{2};
  EngineOptions options_;
  hub::ModelConfig config_;
  std::unique_ptr<testing::ModelRunner> model_;
  std::vector<TokenId> tokens_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(DecoderTest, ChunkedForwardsGiveTheSameBitsAsOneForward) {
  const std::vector<float> whole = InChunks(kTokens);
  for (const int chunk : {1, 3, 16, 17}) EXPECT_TRUE(SameBits(InChunks(chunk), whole)) << chunk;
}

TEST_P(DecoderTest, OtherSequencesDoNotChangeBits) {
  const std::vector<float> alone = InChunks(kTokens);
  PageTable first, second;
  ASSERT_TRUE(model_->cache().Reserve(first, kTokens).ok());
  ASSERT_TRUE(model_->cache().Reserve(second, kTokens).ok());
  RowBatch batch;
  batch.AddRun({&first, 0, RowMask::kCausal}, {tokens_.rbegin(), tokens_.rbegin() + 7});
  batch.AddRun({&second, 0, RowMask::kCausal}, tokens_);
  const std::vector<float> batched = model_->Run(batch);
  EXPECT_TRUE(SameBits({batched.begin() + std::ptrdiff_t{7} * width(), batched.end()}, alone));
}

// Runs a tree with two branches after a committed prefix. Each branch has the same bits as its
// chain.
TEST_P(DecoderTest, ATreeRowHasTheSameBitsAsItsPath) {
  const std::vector<float> chain = InChunks(kTokens);
  PageTable table;
  ASSERT_TRUE(model_->cache().Reserve(table, kTokens).ok());
  constexpr int kPrefix = 20;
  RowBatch prefix;
  prefix.AddRun({&table, 0, RowMask::kCausal}, {tokens_.begin(), tokens_.begin() + kPrefix});
  (void)model_->Run(prefix);
  // Row 1 is a sibling that the chain does not contain; rows 0, 2 and 3 form the chain.
  RowBatch tree;
  tree.AddTree({&table, kPrefix, RowMask::kCausal},
               {tokens_[kPrefix], 3, tokens_[kPrefix + 1], tokens_[kPrefix + 2]}, {0, 1, 1, 2},
               {0b0001, 0b0011, 0b0101, 0b1101});
  const std::vector<float> rows = model_->Run(tree);
  const auto row_of = [&](const std::vector<float>& all, int row) {
    const auto begin = all.begin() + std::ptrdiff_t{row} * width();
    return std::vector<float>(begin, begin + width());
  };
  EXPECT_TRUE(SameBits(row_of(rows, 0), row_of(chain, kPrefix)));
  EXPECT_TRUE(SameBits(row_of(rows, 2), row_of(chain, kPrefix + 1)));
  EXPECT_TRUE(SameBits(row_of(rows, 3), row_of(chain, kPrefix + 2)));
  EXPECT_FALSE(SameBits(row_of(rows, 1), row_of(chain, kPrefix + 1)));
}

// Two layers in both orders: each is in its own columns.
TEST_P(DecoderTest, EachTapHasTheColumnsOfItsLayer) {
  const auto features = [&](const std::vector<int>& layers) {
    Load("gqa2_untied_draft2", layers);
    (void)InChunks(kTokens);
    return model_->Features();
  };
  const int hidden = config_.dims.hidden, last = config_.dims.layers - 1;
  const std::vector<float> ascending = features({0, last}), descending = features({last, 0});
  ASSERT_EQ(ascending.size(), size_t{2} * kTokens * hidden);
  ASSERT_EQ(descending.size(), ascending.size());
  const auto part = [&](const std::vector<float>& all, int row, int column) {
    const auto begin = all.begin() + (std::ptrdiff_t{2} * row + column) * hidden;
    return std::vector<float>(begin, begin + hidden);
  };
  for (int row = 0; row < kTokens; ++row) {
    EXPECT_EQ(part(ascending, row, 0), part(descending, row, 1));
    EXPECT_EQ(part(ascending, row, 1), part(descending, row, 0));
    EXPECT_NE(part(ascending, row, 0), part(ascending, row, 1));
  }
}

TEST_P(DecoderTest, CostCountsEveryWeightOnce) {
  const ForwardCost cost = model_->decoder().Cost();
  const ModelDims& dims = config_.dims;
  const int64_t attention =
      int64_t{2} * dims.hidden * dims.head_dim * (dims.kv_heads + dims.query_heads);
  const int64_t mlp = int64_t{3} * dims.hidden * dims.intermediate;
  EXPECT_EQ(cost.multiply_adds_per_row, dims.layers * (attention + mlp));
  EXPECT_GE(cost.weight_bytes, static_cast<int64_t>(Bytes(GetParam(), cost.multiply_adds_per_row)));
  const auto element = static_cast<int64_t>(Bytes(FormatsFor(GetParam()).activations, 1));
  EXPECT_EQ(cost.kv_bytes_per_token,
            int64_t{2} * dims.layers * dims.kv_heads * dims.head_dim * element);
}

// Two of six experts: rows are grouped by expert, and each row still has the bits that it has
// alone.
TEST_P(DecoderTest, RowsWithExpertsHaveTheSameBitsAloneAndInABatch) {
  Load("moe_normalized");
  const std::vector<float> whole = InChunks(kTokens);
  EXPECT_GT(model_->touched_experts(), 2);
  for (const int chunk : {1, 3, 17}) EXPECT_TRUE(SameBits(InChunks(chunk), whole)) << chunk;
  (void)InChunks(1);
  EXPECT_EQ(model_->touched_experts(), 2);
}

TEST_P(DecoderTest, CostCountsTheExpertsOfARow) {
  Load("moe_normalized");
  const ForwardCost cost = model_->decoder().Cost();
  const ModelDims& dims = config_.dims;
  const int64_t attention =
      int64_t{2} * dims.hidden * dims.head_dim * (dims.kv_heads + dims.query_heads);
  const int64_t expert = int64_t{3} * dims.hidden * config_.blocks.experts.intermediate;
  EXPECT_EQ(cost.multiply_adds_per_row,
            dims.layers * (attention + 2 * expert + int64_t{6} * dims.hidden));
  EXPECT_GE(cost.expert_bytes,
            static_cast<int64_t>(Bytes(GetParam(), int64_t{dims.layers} * 6 * expert)));
  EXPECT_EQ(cost.stored_bytes(), cost.weight_bytes + cost.expert_bytes);
  const double dense = static_cast<double>(cost.weight_bytes);
  EXPECT_DOUBLE_EQ(cost.ReadBytes(1), dense + static_cast<double>(cost.expert_bytes) / 3);
  EXPECT_NEAR(cost.ReadBytes(100), static_cast<double>(cost.stored_bytes()), 1e-3);
}

TEST_P(DecoderTest, RefusesAHeadDimThatTheKernelsDoNotSupport) {
  const std::string folder = testing::GoldenFolder("gqa2_untied_draft2") + "/target";
  hub::ModelConfig odd = config_;
  odd.dims.head_dim = 24;
  PackingPlan plan;
  const WeightLoader loader(*options_.device, *hub::Checkpoint::Open(folder), options_.formats,
                            plan);
  const auto refused = Decoder::Load(loader, odd, options_, CapacityOf(odd, options_));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(refused.status().message(), HasSubstr("head_dim is 24"));
  EXPECT_THAT(refused.status().message(), HasSubstr(folder));
}

INSTANTIATE_TEST_SUITE_P(Types, DecoderTest,
                         ::testing::Values(WeightFormat::kF32, WeightFormat::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace bastion::nn
