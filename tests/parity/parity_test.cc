// Compares the engine with `transformers` and with a simple implementation of DFlash, in fp32 on
// tiny random checkpoints. Also compares the engine with itself, bit for bit: a tree with chains,
// and the cache after compaction with the cache after a plain prefill.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/host/kv_compaction.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/parity/parity_engine.h"

namespace bastion {
namespace {

class ParityTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    engine_ = std::make_unique<testing::ParityEngine>(GetParam(), kernels::CpuBackend());
  }
  const testing::GoldenFile& golden() const { return engine_->golden(); }
  const std::vector<TokenId>& tokens() const { return engine_->tokens(); }
  nn::KvCache& cache() { return engine_->target().cache(); }

  // The cached keys and values of the first `count` tokens, layer by layer.
  std::vector<float> CachedBits(const nn::PageTable& table, int count) {
    std::vector<float> bits;
    for (int layer = 0; layer < engine_->layers(); ++layer) {
      const kernels::KvLayer kv = engine_->target().cache().layer(layer);
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

  // Commits the nodes on `path` of a tree of `count` rows after the golden tokens.
  void Compact(const nn::PageTable& table, int count, const std::vector<NodeIndex>& path) {
    std::vector<int64_t> slots;
    for (int i = 0; i < count; ++i) {
      slots.push_back(table.slot(static_cast<Position>(tokens().size()) + i));
    }
    const std::vector<int32_t> used = {count, 1}, first_rows = {0, count};
    kernels::Rows rows;
    rows.used = used.data();
    rows.slots = slots.data();
    rows.first_rows = first_rows.data();
    kernels::WalkResult result = {.path_length = static_cast<int32_t>(path.size())};
    std::vector<int32_t> paths;
    for (const NodeIndex node : path) paths.push_back(node.value());
    paths.resize(count);
    nn::CommitRows(engine_->device().host(), rows,
                   {.walk = {.results = &result, .paths = paths.data()}, .cache = &cache()});
  }

  std::unique_ptr<testing::ParityEngine> engine_;
};

TEST_P(ParityTest, TargetLogitsAndFeaturesMatchTransformers) {
  nn::PageTable table;
  const std::vector<float> logits = engine_->Prefill(tokens(), tokens().size(), table);
  testing::ExpectParity(engine_->target().Features().data(), golden().Floats("features"),
                        "features");
  testing::ExpectParity(logits.data(), golden().Floats("logits"), "logits");
}

TEST_P(ParityTest, TouchedExpertsMatchTransformers) {
  nn::PageTable table;
  (void)engine_->Prefill(tokens(), tokens().size(), table);
  const float expected = golden().Has("touched") ? golden().Floats("touched")[0] : 0;
  EXPECT_EQ(engine_->target().touched_experts(), expected);
}

TEST_P(ParityTest, AChunkedPrefillHasTheSameBitsAsAWholePrefill) {
  nn::PageTable whole, chunked;
  (void)engine_->Prefill(tokens(), tokens().size(), whole);
  (void)engine_->Prefill(tokens(), 7, chunked);
  const int count = static_cast<int>(tokens().size());
  EXPECT_EQ(CachedBits(whole, count), CachedBits(chunked, count));
}

TEST_P(ParityTest, TreeLogitsMatchTheChainsOfTransformers) {
  nn::PageTable table;
  (void)engine_->Prefill(tokens(), tokens().size(), table);
  const std::vector<float> logits = engine_->TreeLogits(engine_->tree(), table);
  testing::ExpectParity(logits.data(), golden().Floats("tree_logits"), "tree logits");
}

TEST_P(ParityTest, TreeRowsHaveTheSameBitsAsTheirPathsDecodedTokenByToken) {
  nn::PageTable table;
  (void)engine_->Prefill(tokens(), tokens().size(), table);
  const DraftTree tree = engine_->tree();
  const std::vector<float> in_tree = engine_->TreeLogits(tree, table);
  for (NodeIndex leaf = 0; leaf < tree.rows(); ++leaf) {
    std::vector<TokenId> path;
    for (NodeIndex i = leaf; i != kNoNode; i = tree.parent(i)) {
      path.insert(path.begin(), tree.token(i));
    }
    std::vector<TokenId> chain = tokens();
    chain.insert(chain.end(), path.begin(), path.end());
    nn::PageTable own;
    const std::vector<float> alone = engine_->Prefill(chain, 1, own);
    ASSERT_EQ(std::memcmp(alone.data(), in_tree.data() + size_t(leaf) * engine_->vocabulary(),
                          engine_->vocabulary() * sizeof(float)),
              0)
        << "leaf " << leaf;
    cache().Shrink(own, 0);
  }
}

TEST_P(ParityTest, CacheAfterCommitHasTheSameBitsAsAPlainPrefill) {
  const DraftTree tree = engine_->tree();
  for (NodeIndex leaf = 0; leaf < tree.rows(); ++leaf) {
    nn::PageTable table, plain;
    (void)engine_->Prefill(tokens(), tokens().size(), table);
    (void)engine_->TreeLogits(tree, table);
    std::vector<NodeIndex> path;
    for (NodeIndex i = leaf; i != 0; i = tree.parent(i)) path.insert(path.begin(), i);
    Compact(table, tree.rows(), path);
    std::vector<TokenId> committed = tokens();
    committed.push_back(tree.token(0));
    for (const NodeIndex node : path) committed.push_back(tree.token(node));
    (void)engine_->Prefill(committed, committed.size(), plain);
    const int count = static_cast<int>(committed.size());
    ASSERT_EQ(CachedBits(table, count), CachedBits(plain, count)) << "leaf " << leaf;
    cache().Shrink(table, 0);
    cache().Shrink(plain, 0);
  }
}

using DraftParityTest = ParityTest;

TEST_P(DraftParityTest, DrafterMarginalsMatchTheReferenceModel) {
  engine_->ForEachDraft([&](const std::string& round, const float* logits) {
    testing::ExpectParity(logits, golden().Floats("marginal_logits_" + round), "marginal logits");
  });
}

INSTANTIATE_TEST_SUITE_P(Goldens, ParityTest, ::testing::ValuesIn(testing::GoldenCases()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Goldens, DraftParityTest, ::testing::ValuesIn(testing::GoldenPairs()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
