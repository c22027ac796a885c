// Compares the whole cycle with the published procedure, on the demo models. The verified trees
// must equal the trees of DDTree's algorithm (tests/support/ddtree_reference). The committed
// lengths, and so τ, must equal the lengths obtained by following the text of plain decoding down
// these trees.
#include <gtest/gtest.h>

#include "client/bench/prompts.h"
#include "client/inprocess/local_stages.h"
#include "orchestrator/cost/calibration.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/speculation_memory.h"
#include "tests/support/ddtree_reference.h"

namespace bastion {
namespace {

const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model";
constexpr int kTokens = 48;
constexpr size_t kPrompts = 4;

// Records the drafter's marginals.
class RecordingDrafter final : public Drafter {
 public:
  explicit RecordingDrafter(Drafter* inner) : inner_(inner) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    auto result = inner_->Expand(frontiers);
    if (result.ok()) marginals.push_back(result->drafts.at(0).marginals.at(0));
    return result;
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

  std::vector<Marginals> marginals;  // One per draft.

 private:
  Drafter* inner_;
};

// Records the verified trees.
class RecordingVerifier final : public Verifier {
 public:
  explicit RecordingVerifier(Verifier* inner) : inner_(inner) {}
  absl::StatusOr<TargetInfo> Info() override { return inner_->Info(); }
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override {
    return inner_->Open(sequence, sampling);
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override {
    return inner_->ReusePrefix(item);
  }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    for (const VerifyItem& item : forest) trees.push_back(item.tree);
    return inner_->Verify(forest, prompts);
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

  std::vector<DraftTree> trees;

 private:
  Verifier* inner_;
};

struct DecodedRun {
  std::vector<TokenId> output;
  std::vector<CycleRecord> cycles;
  std::vector<Marginals> marginals;
  std::vector<DraftTree> trees;
};

// The number of tokens of `text`, from index `at` on, that lie on one path of `tree` below its
// root.
int MatchedLength(const DraftTree& tree, const std::vector<TokenId>& text, size_t at) {
  int matched = 0;
  NodeIndex node = 0;
  for (bool found = true; found && at + matched < text.size();) {
    found = false;
    for (NodeIndex child = 1; child < tree.rows() && !found; ++child) {
      if (tree.parent(child) != node || tree.token(child) != text[at + matched]) continue;
      node = child;
      found = true;
    }
    matched += found ? 1 : 0;
  }
  return matched;
}

class DdtreeEqualityTest : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    LocalOptions options;
    options.target_folder = kModels + "/target";
    options.drafter_folder = kModels + "/drafter";
    options.dtype = "fp32";
    options.threads = 2;
    auto stages = LocalStages::Create(options);
    ASSERT_TRUE(stages.ok()) << stages.status();
    stages_ = stages->release();
    CalibrationOptions quick;
    quick.time_limit = absl::ZeroDuration();
    quick.session = uint64_t{1} << 40;
    auto table = Calibrate(stages_->verifier(), Clock::Real(), quick);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = new CalibrationTable(*std::move(table));
  }

  static DecodedRun Decode(const std::string& policy, const BenchPrompt& prompt,
                           float temperature) {
    static uint64_t session = 1;
    RecordingDrafter drafter(&stages_->drafter());
    RecordingVerifier verifier(&stages_->verifier());
    const TargetInfo target = *stages_->verifier().Info();
    CostModel costs = *CostModel::Fit(target, *table_);
    SpeculationMemory memory;
    DecodeCycle cycle(target, &drafter, &verifier, &costs);
    DecodeRequest request;
    request.id = {session++, 0};
    request.prompt = prompt.tokens;
    request.sampling = {{.temperature = temperature, .seed = 3}};
    request.max_tokens = kTokens;
    DecodeSequence sequence(request,
                            Policy::Parse(policy)->NewRequest(temperature == 0, &costs, &memory));
    cycle.Open(sequence);
    while (cycle.Prefill(sequence, 4096)) {
    }
    while (!sequence.done()) EXPECT_TRUE(cycle.Step({&sequence}).ok());
    EXPECT_TRUE(sequence.status().ok()) << sequence.status();
    cycle.Close(sequence, drafter);
    return {sequence.output(), sequence.cycles(), drafter.marginals, verifier.trees};
  }

  static LocalStages* stages_;
  static CalibrationTable* table_;
};

LocalStages* DdtreeEqualityTest::stages_ = nullptr;
CalibrationTable* DdtreeEqualityTest::table_ = nullptr;

TEST_P(DdtreeEqualityTest, TreesAndCommittedLengthsEqualTheReference) {
  const int budget = GetParam();
  auto prompts = LoadPrompts(kModels + "/prompts.jsonl", kModels + "/target");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  prompts->resize(std::min(prompts->size(), kPrompts));
  for (const float temperature : {0.0f, 1.0f}) {
    for (const BenchPrompt& prompt : *prompts) {
      const std::vector<TokenId> plain = Decode("ar", prompt, temperature).output;
      const DecodedRun run = Decode(absl::StrCat("fixed:", budget), prompt, temperature);
      ASSERT_EQ(run.output, plain);
      size_t emitted = 0;
      for (size_t i = 0; i < run.cycles.size(); ++i) {
        const int left = kTokens - static_cast<int>(emitted);
        if (left <= 1) break;  // The last token needs no draft.
        ASSERT_LT(i, run.marginals.size());
        Marginals marginals = run.marginals[i];
        // Deeper nodes could not be emitted, so the reference gets the same depth limit.
        marginals.positions = std::min(marginals.positions, left - 1);
        marginals.tokens.resize(size_t(marginals.positions) * marginals.candidates);
        marginals.log_probs.resize(marginals.tokens.size());
        const DraftTree expected =
            testing::DdtreeReference(run.trees[i].token(0), marginals, budget);
        ASSERT_EQ(run.trees[i].tokens(), expected.tokens()) << prompt.id << " cycle " << i;
        ASSERT_EQ(run.trees[i].parents(), expected.parents()) << prompt.id << " cycle " << i;
        const int matched = MatchedLength(expected, plain, emitted) + 1;
        EXPECT_EQ(run.cycles[i].committed_length, std::min(matched, left));
        emitted += run.cycles[i].committed_length;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Budgets, DdtreeEqualityTest, ::testing::Values(4, 16, 64));

}  // namespace
}  // namespace bastion
