// Compares the engine with `transformers` and with a plain DFlash implementation, in fp32 on tiny
// random checkpoints. Also compares it with itself, bit for bit: a tree with chains, and the cache
// after compaction with a plain prefill.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "common/stages/draft_tree.h"
#include "drafter_service/draft/dflash.h"
#include "tests/support/golden_file.h"
#include "verifier_service/commit/kv_compaction.h"
#include "verifier_service/model/forward.h"

namespace bastion {
namespace {

constexpr float kTolerance = 1e-4f;

void ExpectNear(const float* actual, const std::vector<float>& expected, const char* what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], kTolerance) << what << " at " << i;
  }
}

// A golden case with both models loaded.
class ParityTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string folder = testing::GoldenFolder(GetParam());
    golden_ = std::make_unique<testing::GoldenFile>(folder + "/golden.safetensors");
    options_.dtype = DType::kF32;
    options_.device = {&kernels::CpuBackend(), &pool_};
    options_.kv_tokens = 4096;
    auto target = verifier::TargetModel::Load(folder + "/target", options_);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
    auto drafter = drafter::DflashModel::Load(folder + "/drafter", folder + "/target", options_);
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    drafter_ = *std::move(drafter);
    tokens_ = golden_->Integers("tokens");
  }

  const std::vector<int>& layers() const { return drafter_->config().dflash.target_layer_ids; }
  int vocabulary() const { return target_->config().dims.vocabulary; }

  // Commits `tokens` to `table` in chunks of `chunk` rows.
  void Prefill(const std::vector<TokenId>& tokens, size_t chunk, nn::PageTable& table) {
    ASSERT_TRUE(target_->cache().Reserve(table, static_cast<int>(tokens.size())).ok());
    for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
      const size_t end = std::min(tokens.size(), begin + chunk);
      nn::RowBatch batch;
      batch.AddRun({&table, static_cast<Position>(begin), kernels::RowMask::kCausal},
                   {tokens.begin() + begin, tokens.begin() + end});
      target_->Forward(batch, layers());
    }
  }

  DraftTree GoldenTree() const {
    const std::vector<TokenId> tokens = golden_->Integers("tree_tokens");
    const std::vector<TokenId> parents = golden_->Integers("tree_parents");
    DraftTree tree(tokens[0]);
    for (size_t i = 1; i < tokens.size(); ++i) tree.Add(parents[i], tokens[i], -1.0f);
    return tree;
  }

  // Runs one forward over `tree` after the golden tokens. Returns the logits [rows, V].
  std::vector<float> TreeLogits(const DraftTree& tree, nn::PageTable& table) {
    const auto cached = static_cast<Position>(tokens_.size());
    EXPECT_TRUE(target_->cache().Reserve(table, cached + tree.rows()).ok());
    std::vector<int> depths;
    for (NodeIndex i = 0; i < tree.rows(); ++i) depths.push_back(tree.depth(i));
    nn::RowBatch batch;
    batch.AddTree({&table, cached}, tree.tokens(), depths, tree.AncestorBits());
    target_->Forward(batch, layers());
    const float* logits = target_->Logits().values;
    return {logits, logits + size_t(tree.rows()) * vocabulary()};
  }

  // Keys and values of the first `count` tokens in the cache, layer by layer.
  std::vector<float> CachedBits(const nn::PageTable& table, int count) {
    std::vector<float> bits;
    for (int layer = 0; layer < target_->config().dims.layers; ++layer) {
      const kernels::KvLayer kv = target_->cache().layer(layer);
      for (int t = 0; t < count; ++t) {
        const int64_t slot = table.slot(t);
        for (int g = 0; g < kv.kv_heads; ++g) {
          const size_t head =
              (slot / kernels::kPageTokens * kv.kv_heads + g) * kv.head_dim * kernels::kPageTokens;
          const size_t offset = slot % kernels::kPageTokens;
          for (int d = 0; d < kv.head_dim; ++d) {
            bits.push_back(
                static_cast<float*>(kv.keys)[head + size_t(d) * kernels::kPageTokens + offset]);
            bits.push_back(static_cast<float*>(kv.values)[head + offset * kv.head_dim + d]);
          }
        }
      }
    }
    return bits;
  }

  kernels::ThreadPool pool_{2};
  nn::EngineOptions options_;
  std::unique_ptr<testing::GoldenFile> golden_;
  std::unique_ptr<verifier::TargetModel> target_;
  std::unique_ptr<drafter::DflashModel> drafter_;
  std::vector<TokenId> tokens_;
};

TEST_P(ParityTest, TargetLogitsAndFeaturesEqualTransformers) {
  nn::PageTable table;
  Prefill(tokens_, tokens_.size(), table);
  ExpectNear(target_->features(), golden_->Floats("features"), "features");
  ExpectNear(target_->Logits().values, golden_->Floats("logits"), "logits");
}

TEST_P(ParityTest, ChunkedPrefillHasTheBitsOfAWholePrefill) {
  nn::PageTable whole, chunked;
  Prefill(tokens_, tokens_.size(), whole);
  Prefill(tokens_, 7, chunked);
  const int count = static_cast<int>(tokens_.size());
  EXPECT_EQ(CachedBits(whole, count), CachedBits(chunked, count));
}

TEST_P(ParityTest, TreeRowsEqualChainsInTransformers) {
  nn::PageTable table;
  Prefill(tokens_, tokens_.size(), table);
  const std::vector<float> logits = TreeLogits(GoldenTree(), table);
  ExpectNear(logits.data(), golden_->Floats("tree_logits"), "tree logits");
}

TEST_P(ParityTest, TreeRowsHaveTheBitsOfTheirPathsDecodedTokenByToken) {
  nn::PageTable table;
  Prefill(tokens_, tokens_.size(), table);
  const DraftTree tree = GoldenTree();
  const std::vector<float> together = TreeLogits(tree, table);
  for (NodeIndex leaf = 0; leaf < tree.rows(); ++leaf) {
    std::vector<TokenId> path;
    for (NodeIndex i = leaf; i != kNoNode; i = tree.parent(i)) {
      path.insert(path.begin(), tree.token(i));
    }
    std::vector<TokenId> chain = tokens_;
    chain.insert(chain.end(), path.begin(), path.end());
    nn::PageTable own;
    Prefill(chain, 1, own);
    ASSERT_EQ(std::memcmp(target_->Logits().values, together.data() + size_t(leaf) * vocabulary(),
                          vocabulary() * sizeof(float)),
              0)
        << "leaf " << leaf;
    target_->cache().Shrink(own, 0);
  }
}

TEST_P(ParityTest, CacheAfterCommitHasTheBitsOfAPlainPrefill) {
  const DraftTree tree = GoldenTree();
  for (NodeIndex leaf = 0; leaf < tree.rows(); ++leaf) {
    nn::PageTable table, plain;
    Prefill(tokens_, tokens_.size(), table);
    (void)TreeLogits(tree, table);
    std::vector<NodeIndex> path;
    for (NodeIndex i = leaf; i != 0; i = tree.parent(i)) path.insert(path.begin(), i);
    verifier::KvMoves moves;
    moves.Add(table, static_cast<Position>(tokens_.size()), path);
    verifier::CompactKv(options_.device, target_->cache(), target_->config().dims.layers, moves);
    std::vector<TokenId> committed = tokens_;
    committed.push_back(tree.token(0));
    for (const NodeIndex node : path) committed.push_back(tree.token(node));
    Prefill(committed, committed.size(), plain);
    const int count = static_cast<int>(committed.size());
    ASSERT_EQ(CachedBits(table, count), CachedBits(plain, count)) << "leaf " << leaf;
    target_->cache().Shrink(table, 0);
    target_->cache().Shrink(plain, 0);
  }
}

TEST_P(ParityTest, DrafterMarginalsEqualThePlainImplementation) {
  const std::vector<float> features = golden_->Floats("features");
  const std::vector<TokenId> added = golden_->Integers("draft_context");
  nn::PageTable table;
  Position context = 0;
  for (size_t round = 0; round < added.size(); ++round) {
    Features rows = {drafter_->feature_width(), DType::kF32, {}};
    rows.bytes.assign(reinterpret_cast<const char*>(features.data()) + context * rows.row_bytes(),
                      added[round] * rows.row_bytes());
    ASSERT_TRUE(drafter_->AppendContext({{&table, context, rows}}).ok());
    context += added[round];
    const TokenId bonus = golden_->Integers("bonus_" + std::to_string(round))[0];
    const auto drafts = drafter_->Draft({{&table, context, bonus}}, 16);
    ASSERT_TRUE(drafts.ok()) << drafts.status();
    ExpectNear(drafter_->logits(), golden_->Floats("marginal_logits_" + std::to_string(round)),
               "marginal logits");
    EXPECT_TRUE((*drafts)[0].Validate(vocabulary()).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, ParityTest, ::testing::ValuesIn(testing::GoldenCases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
