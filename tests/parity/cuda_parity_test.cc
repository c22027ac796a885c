// Compares targets on a GPU with the same targets on the CPU, in fp32, on every golden case
// (make_goldens.py). They must accept the same tokens and compute the same features up to rounding.
// Also compares the GPU target with the goldens, in fp32 and in bf16. A build without CUDA uses the
// emulator.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/cuda_parity_fixture.h"
#include "verifier_service/model/target_model.h"

namespace bastion {
namespace {

using testing::ExpectNear;

constexpr double kTolerance = 2e-4;
constexpr int kSequences = 3;

std::vector<float> Floats(absl::Span<const char> bytes, DType type) {
  std::vector<float> values;
  const size_t element = type == DType::kF32 ? 4 : 2;
  for (size_t i = 0; i < bytes.size(); i += element) {
    uint32_t bits = 0;
    std::memcpy(
        type == DType::kF32 ? reinterpret_cast<char*>(&bits) : reinterpret_cast<char*>(&bits) + 2,
        bytes.data() + i, element);
    values.push_back(__builtin_bit_cast(float, bits));
  }
  return values;
}

// The CPU's or the GPU's target, and the page tables of its sequences.
struct Side {
  std::unique_ptr<verifier::Target> target;
  nn::PageTable tables[kSequences];
};

class CudaParityTest : public testing::CudaParityFixture {
 protected:
  void LoadTargets(const std::vector<int>& layers) {
    auto cpu = verifier::LoadTarget(folder_ + "/target", options_);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    auto gpu = verifier::LoadTarget(folder_ + "/target", OnGpu());
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    cpu_.target = *std::move(cpu);
    gpu_.target = *std::move(gpu);
    for (Side* side : {&cpu_, &gpu_}) EXPECT_TRUE(side->target->SetFeatureLayers(layers).ok());
  }

  void Prefill(Side& side, int sequence, const std::vector<TokenId>& tokens) {
    nn::PageTable& table = side.tables[sequence];
    ASSERT_TRUE(side.target->pages().Reserve(table, static_cast<int>(tokens.size())).ok());
    nn::RowBatch batch;
    batch.AddRun({&table, 0, kernels::RowMask::kCausal}, tokens);
    TimingTrace trace;
    const auto done = side.target->Verify(batch, {}, trace);
    ASSERT_TRUE(done.ok()) << done.status();
  }

  // How far the features of the GPU target are from the goldens, which are fp32, relative to them.
  double RelativeDifference() {
    Prefill(gpu_, 0, tokens_);
    const std::vector<float> expected = golden_->Floats("features");
    const std::vector<float> actual = Floats(gpu_.target->KeptFeatures(0), DType::kBF16);
    EXPECT_EQ(actual.size(), expected.size());
    double difference = 0, size = 0;
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
      difference += std::pow(actual[i] - expected[i], 2);
      size += std::pow(expected[i], 2);
    }
    return std::sqrt(difference / size);
  }

  Side cpu_, gpu_;
};

TEST_P(CudaParityTest, FeaturesAndLogitsMatchTransformers) {
  LoadTargets(testing::GoldenFeatureLayers(GetParam()));
  Prefill(gpu_, 0, tokens_);
  ExpectNear(Floats(gpu_.target->KeptFeatures(0), DType::kF32), golden_->Floats("features"),
             kTolerance);
  // Decode the last token again at its position, where it is already cached.
  const auto last = static_cast<Position>(tokens_.size()) - 1;
  nn::RowBatch batch;
  batch.AddRun({&gpu_.tables[0], last, kernels::RowMask::kCausal}, {tokens_.back()});
  const DraftTree root(tokens_.back());
  const SamplingParams greedy;
  verifier::TokenHistory history;
  const auto step =
      gpu_.target->DecodeOne(batch, {&root, last, 0, &greedy, &history, &gpu_.tables[0]});
  ASSERT_TRUE(step.ok()) << step.status();
  const std::vector<float> logits = golden_->Floats("logits");
  const int vocabulary = gpu_.target->config().dims.vocabulary;
  ExpectNear({step->logits, step->logits + vocabulary}, {logits.end() - vocabulary, logits.end()},
             kTolerance);
}

// One sequence decodes while another one's prompt is committed in the same forward.
TEST_P(CudaParityTest, AMixedForwardMatchesTheCpu) {
  LoadTargets(testing::GoldenFeatureLayers(GetParam()));
  const auto cached = static_cast<Position>(tokens_.size()) - 1;
  const std::vector<TokenId> prompt(tokens_.begin(), tokens_.end() - 1);
  DraftTree tree(tokens_.back());
  for (int i = 0; i < 5; ++i) tree.Add(NodeIndex::Of(i / 2), 10 + i, -1.0f);
  const std::vector<int> depths = {0, 1, 1, 2, 2, 2};
  const SamplingParams greedy;
  std::vector<Acceptance> accepted;
  std::vector<double> experts;
  for (Side* side : {&cpu_, &gpu_}) {
    Prefill(*side, 0, prompt);
    ASSERT_TRUE(side->target->pages().Reserve(side->tables[0], cached + tree.rows()).ok());
    ASSERT_TRUE(side->target->pages().Reserve(side->tables[1], cached).ok());
    verifier::TokenHistory history;
    nn::RowBatch batch;
    batch.AddTree({&side->tables[0], cached}, tree.tokens(), depths, tree.AncestorBits());
    batch.AddRun({&side->tables[1], 0, kernels::RowMask::kCausal}, prompt);
    TimingTrace trace;
    const auto outcomes = side->target->Verify(
        batch, {{&tree, cached, 0, &greedy, &history, &side->tables[0]}}, trace);
    ASSERT_TRUE(outcomes.ok()) << outcomes.status();
    ASSERT_EQ(outcomes->size(), 1u);
    ASSERT_TRUE((*outcomes)[0].ok()) << (*outcomes)[0].status();
    accepted.push_back(*(*outcomes)[0]);
    EXPECT_GT(trace.forward, absl::ZeroDuration());
    experts.push_back(trace.experts);
  }
  EXPECT_EQ(accepted[1], accepted[0]);
  EXPECT_EQ(experts[1], experts[0]) << "padding rows choose no experts";
  for (const int span : {0, 1}) {
    ExpectNear(Floats(gpu_.target->KeptFeatures(span), DType::kF32),
               Floats(cpu_.target->KeptFeatures(span), DType::kF32), kTolerance);
  }
  // The prompt's features are those of Transformers.
  std::vector<float> expected = golden_->Floats("features");
  const std::vector<float> actual = Floats(gpu_.target->KeptFeatures(1), DType::kF32);
  expected.resize(actual.size());
  ExpectNear(actual, expected, kTolerance);
}

// Sampling parameters of the sequences. The last sequence uses all logit edits.
std::vector<SamplingParams> Samplings() {
  std::vector<SamplingParams> samplings(kSequences);
  samplings[1].temperature = 1.0f;
  samplings[1].seed = 7;
  samplings[1].logprobs = 3;
  samplings[2].temperature = 0.8f;
  samplings[2].seed = 11;
  samplings[2].top_k = 20;
  samplings[2].top_p = 0.95f;
  samplings[2].repetition_penalty = 1.2f;
  samplings[2].frequency_penalty = 0.3f;
  samplings[2].presence_penalty = 0.1f;
  samplings[2].logit_bias = {{5, 1.5f}, {9, -2.0f}};
  samplings[2].min_tokens = 3;
  samplings[2].stop_tokens = {2};
  samplings[2].logprobs = 2;
  return samplings;
}

// Runs cycles of three sequences with different trees, in lockstep on both sides.
class Lockstep {
 public:
  Lockstep(Side& cpu, Side& gpu, std::vector<TokenId> prompt)
      : cpu_(cpu), gpu_(gpu), samplings_(Samplings()) {
    for (int s = 0; s < kSequences; ++s) {
      roots_[s] = prompt.back();
      for (size_t i = 0; i + 1 < prompt.size(); ++i) histories_[s].Push(prompt[i]);
      committed_[s] = static_cast<Position>(prompt.size()) - 1;
    }
  }

  // Runs one cycle and expects that both sides accept the same nodes. Returns the number of
  // accepted nodes.
  int Cycle() {
    std::vector<DraftTree> trees;
    for (int s = 0; s < kSequences; ++s) trees.push_back(Tree(s));
    const auto expected = Verify(cpu_, trees);
    const auto actual = Verify(gpu_, trees);
    int accepted = 0;
    for (int s = 0; s < kSequences; ++s) {
      if (!expected[s].ok() || !actual[s].ok()) {
        ADD_FAILURE() << expected[s].status() << actual[s].status();
        return 0;
      }
      Compare(s, *actual[s], *expected[s]);
      accepted += static_cast<int>(expected[s]->path.size());
      Commit(s, trees[s], *expected[s]);
    }
    return accepted;
  }

 private:
  // Makes a tree with a path of tokens that the CPU target chooses, so that nodes are accepted. The
  // other nodes are random.
  DraftTree Tree(int s) {
    DraftTree tree(roots_[s]);
    const int nodes = static_cast<int>(random_() % 20);
    NodeIndex chosen = 0;
    for (int i = 0; i < nodes; ++i) {
      const bool deepen = random_() % 2 == 0 && tree.depth(chosen) < 4;
      const NodeIndex parent = deepen ? chosen : NodeIndex::Of(random_() % tree.rows());
      const TokenId token = deepen ? NextOf(s, tree, chosen) : RandomToken();
      if (token < 0 || Has(tree, parent, token)) continue;
      const NodeIndex added = tree.Add(parent, token, -1.0f);
      if (deepen) chosen = added;
    }
    return tree;
  }

  static bool Has(const DraftTree& tree, NodeIndex parent, TokenId token) {
    for (NodeIndex i = 1; i < tree.rows(); ++i) {
      if (tree.parent(i) == parent && tree.token(i) == token) return true;
    }
    return false;
  }

  TokenId RandomToken() {
    return static_cast<TokenId>(random_() % cpu_.target->config().dims.vocabulary);
  }

  // Returns the CPU target's choice after the path of `node`. A later verify overwrites the keys
  // and values that this function writes.
  TokenId NextOf(int s, const DraftTree& tree, NodeIndex node) {
    std::vector<TokenId> path;
    for (NodeIndex at = node; at != kNoNode; at = tree.parent(at)) path.push_back(tree.token(at));
    TokenId next = -1;
    const size_t before = histories_[s].tokens().size();
    Position position = committed_[s];
    for (auto token = path.rbegin(); token != path.rend(); ++token, ++position) {
      EXPECT_TRUE(cpu_.target->pages().Reserve(cpu_.tables[s], position + 1).ok());
      nn::RowBatch batch;
      batch.AddRun({&cpu_.tables[s], position, kernels::RowMask::kCausal}, {*token});
      const DraftTree root(*token);
      next = cpu_.target
                 ->DecodeOne(batch,
                             {&root, position, 0, &samplings_[s], &histories_[s], &cpu_.tables[s]})
                 ->choice;
      histories_[s].Push(*token);
    }
    while (histories_[s].tokens().size() > before) histories_[s].Pop();
    return next;
  }

  std::vector<absl::StatusOr<Acceptance>> Verify(Side& side, const std::vector<DraftTree>& trees) {
    nn::RowBatch batch;
    std::vector<verifier::TreeRows> rows;
    for (int s = 0; s < kSequences; ++s) {
      const DraftTree& tree = trees[s];
      EXPECT_TRUE(side.target->pages().Reserve(side.tables[s], committed_[s] + tree.rows()).ok());
      rows.push_back(
          {&tree, committed_[s], batch.rows(), &samplings_[s], &histories_[s], &side.tables[s]});
      std::vector<int> depths;
      for (NodeIndex i = 0; i < tree.rows(); ++i) depths.push_back(tree.depth(i));
      const nn::RowSpan span = {&side.tables[s], committed_[s], kernels::RowMask::kCausal};
      if (tree.IsChain()) {
        batch.AddRun(span, tree.tokens());
      } else {
        batch.AddTree(span, tree.tokens(), depths, tree.AncestorBits());
      }
    }
    TimingTrace trace;
    auto outcomes = side.target->Verify(batch, rows, trace);
    EXPECT_TRUE(outcomes.ok()) << outcomes.status();
    if (outcomes.ok()) return *std::move(outcomes);
    return std::vector<absl::StatusOr<Acceptance>>(kSequences, outcomes.status());
  }

  void Compare(int s, const Acceptance& actual, const Acceptance& expected) {
    EXPECT_EQ(actual.path, expected.path) << "sequence " << s;
    EXPECT_EQ(actual.next, expected.next) << "sequence " << s;
    ExpectNear(Floats(gpu_.target->KeptFeatures(s), DType::kF32),
               Floats(cpu_.target->KeptFeatures(s), DType::kF32), kTolerance);
    ASSERT_EQ(actual.logprobs.size(), expected.logprobs.size());
    for (size_t i = 0; i < expected.logprobs.size(); ++i) {
      EXPECT_NEAR(actual.logprobs[i].chosen, expected.logprobs[i].chosen, 1e-4);
      ASSERT_EQ(actual.logprobs[i].top.size(), expected.logprobs[i].top.size());
      for (size_t k = 0; k < expected.logprobs[i].top.size(); ++k) {
        EXPECT_EQ(actual.logprobs[i].top[k].first, expected.logprobs[i].top[k].first);
        EXPECT_NEAR(actual.logprobs[i].top[k].second, expected.logprobs[i].top[k].second, 1e-4);
      }
    }
  }

  void Commit(int s, const DraftTree& tree, const Acceptance& acceptance) {
    histories_[s].Push(tree.token(0));
    for (const NodeIndex node : acceptance.path) histories_[s].Push(tree.token(node));
    committed_[s] += 1 + static_cast<Position>(acceptance.path.size());
    roots_[s] = acceptance.next;
    for (Side* side : {&cpu_, &gpu_}) side->target->pages().Shrink(side->tables[s], committed_[s]);
  }

  Side& cpu_;
  Side& gpu_;
  const std::vector<SamplingParams> samplings_;
  std::mt19937 random_{1};
  TokenId roots_[kSequences];
  Position committed_[kSequences];
  verifier::TokenHistory histories_[kSequences];
};

TEST_P(CudaParityTest, BothSidesAcceptTheSameNodesInEveryCycle) {
  LoadTargets(testing::GoldenFeatureLayers(GetParam()));
  const std::vector<TokenId> prompt(tokens_.begin(), tokens_.end() - 1);
  for (int s = 0; s < kSequences; ++s) {
    for (Side* side : {&cpu_, &gpu_}) Prefill(*side, s, prompt);
  }
  Lockstep lockstep(cpu_, gpu_, tokens_);
  int accepted = 0;
  for (int cycle = 0; cycle < 12 && !HasFailure(); ++cycle) accepted += lockstep.Cycle();
  EXPECT_GT(accepted, 12) << "too few accepted nodes to test the walks";
}

// The engine rounds weights, queries and the cache to bf16.
TEST_P(CudaParityTest, Bf16FeaturesAreCloseToFp32) {
  options_.formats = nn::FormatsFor(WeightFormat::kBF16);
  LoadTargets(testing::GoldenFeatureLayers(GetParam()));
  // Rounding changes which experts some rows choose.
  const bool experts = gpu_.target->config().blocks.experts.count > 0;
  const double difference = RelativeDifference();
  EXPECT_LT(difference, experts ? 0.2 : 0.02);
  EXPECT_GT(difference, 0) << "bf16 must round";
}

TEST_P(CudaParityTest, Int8FeaturesAreCloseToFp32OrTheModelIsRefused) {
  options_.formats = nn::FormatsFor(WeightFormat::kInt8);
  auto gpu = verifier::LoadTarget(folder_ + "/target", OnGpu());
  if (!gpu.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(gpu.status())) << gpu.status();
    EXPECT_THAT(std::string(gpu.status().message()),
                ::testing::HasSubstr("a multiple of 8 columns, and one has 50"));
    return;
  }
  gpu_.target = *std::move(gpu);
  ASSERT_TRUE(gpu_.target->SetFeatureLayers(testing::GoldenFeatureLayers(GetParam())).ok());
  EXPECT_LT(RelativeDifference(), gpu_.target->config().blocks.experts.count > 0 ? 0.3 : 0.05);
}

INSTANTIATE_TEST_SUITE_P(Goldens, CudaParityTest, ::testing::ValuesIn(testing::GoldenCases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
