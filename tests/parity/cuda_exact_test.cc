// A target on a GPU in bf16 or int8 is exact: a row of a tree, and a row of a prompt in any chunk,
// has the bits that plain decoding gives it. A build without CUDA uses the emulator.
#include <algorithm>
#include <memory>

#include "gtest/gtest.h"
#include "tests/parity/cuda_parity_fixture.h"
#include "verifier_service/model/target_model.h"

namespace bastion {
namespace {

constexpr int kSteps = 14;

class CudaExactTest : public testing::CudaParityFixture {
 protected:
  void LoadTarget(WeightFormat weights) {
    options_.formats = nn::FormatsFor(weights);
    auto target = verifier::LoadTarget(folder_ + "/target", OnGpu());
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
    ASSERT_TRUE(target_->SetFeatureLayers(testing::GoldenFeatureLayers(GetParam())).ok());
    // Long enough that the prefix has whole tiles of keys, if the model permits it.
    const int room = target_->config().max_positions - kSteps - 2;
    while (static_cast<int>(tokens_.size()) < std::min(room, 150)) {
      tokens_.push_back(tokens_[tokens_.size() % 7]);
    }
  }

  // The features of all rows of a prompt that is processed in chunks of `chunk` rows.
  std::string Prefill(nn::PageTable& table, int chunk) {
    std::string features;
    for (int begin = 0; begin < Cached(); begin += chunk) {
      const int end = std::min(begin + chunk, Cached());
      EXPECT_TRUE(target_->pages().Reserve(table, end).ok());
      nn::RowBatch batch;
      batch.AddRun({&table, begin, kernels::RowMask::kCausal},
                   {tokens_.begin() + begin, tokens_.begin() + end});
      TimingTrace trace;
      EXPECT_TRUE(target_->Verify(batch, {}, trace).ok());
      const absl::Span<const char> kept = target_->KeptFeatures(0);
      features.append(kept.begin(), kept.end());
    }
    return features;
  }

  // Verifies a tree after `cached` tokens. Appends the features of the kept rows.
  Acceptance Verify(nn::PageTable& table, int cached, const DraftTree& tree,
                    std::string& features) {
    EXPECT_TRUE(target_->pages().Reserve(table, cached + tree.rows()).ok());
    nn::RowBatch batch;
    std::vector<int> depths;
    for (int row = 0; row < tree.rows(); ++row) depths.push_back(tree.depth(NodeIndex::Of(row)));
    batch.AddTree({&table, cached}, tree.tokens(), depths, tree.AncestorBits());
    const SamplingParams greedy;
    verifier::TokenHistory history;
    TimingTrace trace;
    const auto outcomes =
        target_->Verify(batch, {{&tree, cached, 0, &greedy, &history, &table}}, trace);
    if (!outcomes.ok() || !(*outcomes)[0].ok()) {
      ADD_FAILURE() << outcomes.status();
      return {};
    }
    const absl::Span<const char> kept = target_->KeptFeatures(0);
    features.append(kept.begin(), kept.end());
    return *(*outcomes)[0];
  }

  void ExpectChunksOfAnySizeToAgree() {
    std::string expected;
    for (const int chunk : {5, 64, 128}) {
      nn::PageTable table;
      const std::string features = Prefill(table, chunk);
      if (expected.empty()) expected = features;
      EXPECT_TRUE(features == expected) << "chunks of " << chunk;
      target_->pages().Shrink(table, 0);
    }
  }

  void ExpectATreeToHaveTheBitsOfPlainDecoding() {
    nn::PageTable table;
    Prefill(table, 128);
    std::string expected;
    std::vector<TokenId> plain = {tokens_.back()};
    for (int step = 0; step < kSteps; ++step) {
      const DraftTree root(plain.back());
      plain.push_back(Verify(table, Cached() + step, root, expected).next);
    }
    // The same path in a tree, with two wrong siblings of each of its nodes, and their children.
    DraftTree tree(plain[0]);
    NodeIndex last = 0;
    for (int step = 1; step < kSteps; ++step) {
      const NodeIndex wrong = tree.Add(last, (plain[step] + 1) % 50, -1.0f);
      const NodeIndex right = tree.Add(last, plain[step], -1.0f);
      tree.Add(wrong, plain[step], -1.0f);
      tree.Add(last, (plain[step] + 2) % 50, -1.0f);
      last = right;
    }
    nn::PageTable other;
    Prefill(other, 128);
    std::string features;
    const Acceptance accepted = Verify(other, Cached(), tree, features);
    EXPECT_EQ(accepted.path.size(), kSteps - 1u);
    EXPECT_EQ(accepted.next, plain.back());
    EXPECT_TRUE(features == expected) << "the features of an accepted node differ";
  }

  [[nodiscard]] int Cached() const { return static_cast<int>(tokens_.size()) - 1; }

  std::unique_ptr<verifier::Target> target_;
};

TEST_P(CudaExactTest, APromptHasTheSameBitsInChunksOfAnySize) {
  LoadTarget(WeightFormat::kBF16);
  ExpectChunksOfAnySizeToAgree();
}

TEST_P(CudaExactTest, ATreeHasTheBitsOfPlainDecoding) {
  LoadTarget(WeightFormat::kBF16);
  ExpectATreeToHaveTheBitsOfPlainDecoding();
}

class CudaInt8ExactTest : public CudaExactTest {};

TEST_P(CudaInt8ExactTest, PromptsAndTreesHaveTheBitsOfPlainDecoding) {
  LoadTarget(WeightFormat::kInt8);
  ExpectChunksOfAnySizeToAgree();
  ExpectATreeToHaveTheBitsOfPlainDecoding();
}

// One of each architecture, and of each kind of attention. The emulator is slow.
INSTANTIATE_TEST_SUITE_P(Goldens, CudaExactTest,
                         ::testing::Values("gqa4_tied_draft5", "llama_default_rope",
                                           "mistral_window", "moe_normalized", "neox_parallel",
                                           "neox_sequential", "qwen2_yarn", "sharded_head_dim64",
                                           "smollm3_no_rope_layers"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Goldens, CudaInt8ExactTest,
                         ::testing::Values("gqa4_tied_draft5", "moe_normalized", "neox_parallel"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
