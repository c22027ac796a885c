// The GPT-NeoX demo pair: a target with an autoregressive drafter. Every policy must give the text
// of plain decoding. The trees and committed lengths of the papers' procedures must equal those of
// independent implementations, which compute the drafter's distributions from whole prefixes.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>

#include "common/base/check.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/shared_learning.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/support/dynatree_reference.h"
#include "tests/support/forwarding_verifier.h"
#include "tests/support/manual_clock.h"
#include "tests/support/plain_model.h"
#include "tests/support/simulated_device.h"
#include "tools/bench/prompts.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model_neox";
constexpr int kTokens = 40;

// What the stages would take on a GPU. Planning takes no time. A drafter of a tenth of the target
// takes a fifth of its time, because a small forward is bound by latency.
struct SimulatedGpu {
  const testing::DeviceCurve curve = testing::DeviceCurve::Gpu();
  testing::ManualClock clock;
  double draft_milliseconds = 0;  // Sum over all drafts.
};

class TimedDrafter final : public Drafter {
 public:
  TimedDrafter(Drafter* inner, SimulatedGpu* gpu) : inner_(inner), gpu_(gpu) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    double rows = 0;
    for (const Frontier& frontier : frontiers) rows += static_cast<double>(frontier.paths.size());
    const double spent = 0.2 * gpu_->curve.verify(rows);
    gpu_->draft_milliseconds += spent;
    gpu_->clock.Advance(absl::Milliseconds(spent));
    absl::StatusOr<DraftResult> result = inner_->Expand(frontiers);
    if (result.ok()) result->trace = {};
    return result;
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

 private:
  Drafter* const inner_;
  SimulatedGpu* const gpu_;
};

class TimedVerifier final : public testing::ForwardingVerifier {
 public:
  TimedVerifier(Verifier* inner, SimulatedGpu* gpu) : ForwardingVerifier(inner), gpu_(gpu) {}
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    absl::StatusOr<VerifyResult> result = ForwardingVerifier::Verify(forest, prompts);
    if (!result.ok()) return result;
    const TimingTrace real = result->trace;
    result->trace = {};
    result->trace.rows = real.rows;
    result->trace.contexts = real.contexts;
    result->trace.forward = absl::Milliseconds(gpu_->curve.verify(real.rows));
    gpu_->clock.Advance(result->trace.forward + absl::Milliseconds(gpu_->curve.overhead));
    return result;
  }

 private:
  SimulatedGpu* const gpu_;
};

// The cycle of the reference: the tree, and how many of its nodes are accepted.
struct ReferenceCycle {
  int nodes;
  int accepted;
};
// The draft tree after a prefix, as paths.
using DraftProcedure =
    std::function<std::vector<std::vector<TokenId>>(const std::vector<TokenId>& prefix)>;

class AutoregressivePairTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    LocalOptions options;
    options.target_folder = kModels + "/target";
    options.drafter_folder = kModels + "/drafter";
    options.formats.weights = "fp32";
    options.device.threads = 2;
    auto stages = LocalStages::Create(options);
    CHECK(stages.ok()) << stages.status();
    stages_ = stages->release();
    ProfileOptions quick;
    quick.time_limit = absl::ZeroDuration();
    quick.session = uint64_t{1} << 40;
    auto table = MeasureProfile(stages_->verifier(), Clock::Real(), quick);
    CHECK(table.ok()) << table.status();
    table_ = new LatencyProfile(*std::move(table));
    drafter_ = new testing::PlainModel(options.drafter_folder);
    auto prompts = LoadPrompts(kModels + "/prompts.jsonl", options.target_folder);
    CHECK(prompts.ok()) << prompts.status();
    prompts_ = new std::vector<BenchPrompt>(*std::move(prompts));
  }
  static void TearDownTestSuite() {
    delete stages_;
    delete table_;
    delete drafter_;
    delete prompts_;
  }

  struct Result {
    std::vector<std::vector<TokenId>> outputs;
    std::vector<std::vector<CycleRecord>> cycles;
  };
  // The prompts to decode in one batch.
  struct Load {
    int count = 1;
    float temperature = 0;
    int first = 0;
    SimulatedGpu* gpu = nullptr;  // Null: the real times of this machine.
  };
  static Result Decode(const std::string& policy, const Load& load) {
    SimulatedGpu* const gpu = load.gpu;
    TimedDrafter timed_drafter(&stages_->drafter(), gpu);
    TimedVerifier timed_verifier(&stages_->verifier(), gpu);
    Drafter* const drafter = gpu != nullptr ? &timed_drafter : &stages_->drafter();
    Verifier* const verifier = gpu != nullptr ? &timed_verifier : &stages_->verifier();
    const Clock& clock = gpu != nullptr ? gpu->clock : Clock::Real();
    static uint64_t session = 1;
    const TargetInfo target = *verifier->Info();
    CostModel costs = *CostModel::Fit(target, gpu != nullptr ? gpu->curve.Profile() : *table_);
    SharedLearning memory({.vocabulary = target.dims.vocabulary});
    DecodeCycle cycle(target, drafter, verifier, &costs, &clock);
    std::vector<std::unique_ptr<DecodeSequence>> sequences;
    for (int i = load.first; i < load.first + load.count; ++i) {
      DecodeRequest request;
      request.id = {session++, 0};
      request.prompt = (*prompts_)[i].tokens;
      request.sampling = {{.temperature = load.temperature, .seed = 3}};
      request.max_tokens = kTokens;
      sequences.push_back(std::make_unique<DecodeSequence>(
          request, Policy::Parse(policy)->NewRequest(load.temperature == 0, &costs, &memory)));
      cycle.Open(*sequences.back());
      while (cycle.Prefill(*sequences.back(), 4096)) {
      }
    }
    for (;;) {
      Batch batch;
      for (const auto& sequence : sequences) {
        if (!sequence->done()) batch.push_back(sequence.get());
      }
      if (batch.empty()) break;
      EXPECT_TRUE(cycle.Step(batch).ok());
    }
    Result result;
    for (const auto& sequence : sequences) {
      EXPECT_TRUE(sequence->status().ok()) << sequence->status();
      result.outputs.push_back(sequence->output());
      result.cycles.push_back(sequence->cycles());
      cycle.Close(*sequence, *drafter);
    }
    return result;
  }

  // Follows the greedy text of a prompt with the trees of `procedure`.
  static std::vector<ReferenceCycle> Follow(const std::vector<TokenId>& prompt,
                                            const std::vector<TokenId>& text,
                                            const DraftProcedure& procedure) {
    std::vector<ReferenceCycle> cycles;
    std::vector<TokenId> prefix = prompt;
    for (size_t at = 0; at < text.size();) {
      // A tree deeper than the text that is left cannot be emitted.
      const size_t depth = text.size() - at - 1;
      std::vector<std::vector<TokenId>> paths;
      if (depth > 0) paths = procedure(prefix);
      ReferenceCycle cycle = {0, 0};
      for (const std::vector<TokenId>& path : paths) {
        if (path.size() > depth) continue;
        ++cycle.nodes;
        const bool matches = std::equal(path.begin(), path.end(), text.begin() + at);
        if (matches) cycle.accepted = std::max(cycle.accepted, static_cast<int>(path.size()));
      }
      prefix.insert(prefix.end(), text.begin() + at, text.begin() + at + cycle.accepted + 1);
      at += cycle.accepted + 1;
      cycles.push_back(cycle);
    }
    return cycles;
  }
  static testing::DraftStep StepAfter(const std::vector<TokenId>& prefix, int count) {
    return [prefix, count](const std::vector<TokenId>& path) {
      std::vector<TokenId> text = prefix;
      text.insert(text.end(), path.begin(), path.end());
      return drafter_->Next(text, count);
    };
  }
  static DraftProcedure DynaTree(const testing::DynaTreeArguments& args) {
    return [args](const std::vector<TokenId>& prefix) {
      return testing::DynaTreeReference(StepAfter(prefix, args.b_max), args);
    };
  }
  // Compares every cycle of `policy` with the reference.
  static void ExpectEqualCycles(const std::string& policy, const DraftProcedure& procedure,
                                int prompts = 4) {
    const Result run = Decode(policy, {.count = prompts});
    double committed = 0, cycles = 0;
    for (int i = 0; i < prompts; ++i) {
      const std::vector<ReferenceCycle> expected =
          Follow((*prompts_)[i].tokens, run.outputs[i], procedure);
      ASSERT_EQ(run.cycles[i].size(), expected.size()) << policy << ", prompt " << i;
      for (size_t c = 0; c < expected.size(); ++c) {
        EXPECT_EQ(run.cycles[i][c].nodes, expected[c].nodes) << policy << ", cycle " << c;
        EXPECT_EQ(run.cycles[i][c].accepted, expected[c].accepted) << policy << ", cycle " << c;
        committed += 1 + expected[c].accepted;
        ++cycles;
      }
    }
    RecordProperty("tau_" + std::to_string(policy.size()), std::to_string(committed / cycles));
    EXPECT_GT(committed / cycles, 1.3) << policy;  // The drafter is useful.
  }

  // Tokens per millisecond on a simulated GPU, one request at a time, and the mean committed
  // length.
  static std::pair<double, double> PaceOnGpu(const std::string& policy, int prompts) {
    SimulatedGpu gpu;
    double tokens = 0, milliseconds = 0, count = 0;
    for (int i = 0; i < prompts; ++i) {
      const Result run = Decode(policy, {.first = i, .gpu = &gpu});
      for (const CycleRecord& cycle : run.cycles.at(0)) {
        tokens += cycle.committed_length;
        milliseconds += gpu.curve.overhead + gpu.curve.verify(1 + cycle.nodes);
        ++count;
      }
    }
    return {tokens / (milliseconds + gpu.draft_milliseconds), tokens / count};
  }

  static LocalStages* stages_;
  static LatencyProfile* table_;
  static testing::PlainModel* drafter_;
  static std::vector<BenchPrompt>* prompts_;
};

LocalStages* AutoregressivePairTest::stages_ = nullptr;
LatencyProfile* AutoregressivePairTest::table_ = nullptr;
testing::PlainModel* AutoregressivePairTest::drafter_ = nullptr;
std::vector<BenchPrompt>* AutoregressivePairTest::prompts_ = nullptr;

TEST_F(AutoregressivePairTest, EveryPolicyGivesTheTextOfPlainDecoding) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int batch : BASTION_SANITIZED ? std::vector<int>{2} : std::vector<int>{1, 8}) {
      const Result plain = Decode("ar", {batch, temperature});
      for (const char* policy :
           {"linear:6", "assisted", "dynatree", "dynatree:fixed,n=40", "fixed:16", "beam:2x4",
            "eagle:4,5,24", "specblock:m=3,n=24", "bastion", "adaptive", "default",
            "linear:6+coupled", "fixed:16+coupled+prior"}) {
        EXPECT_EQ(Decode(policy, {batch, temperature}).outputs, plain.outputs)
            << policy << ", " << batch << " at temperature " << temperature;
      }
    }
  }
}

TEST_F(AutoregressivePairTest, LinearSpeculationEqualsTheReference) {
  ExpectEqualCycles("linear:6", [](const std::vector<TokenId>& prefix) {
    std::vector<std::vector<TokenId>> paths;
    std::vector<TokenId> path, text = prefix;
    for (int i = 0; i < 6; ++i) {
      path.push_back(drafter_->Next(text, 1).at(0).first);
      text.push_back(path.back());
      paths.push_back(path);
    }
    return paths;
  });
}

TEST_F(AutoregressivePairTest, TheFixedTreeEqualsTheReference) {
  ExpectEqualCycles("dynatree:fixed", DynaTree({2, 2, 2, 0, 1, 5, 5, 0, 0, 0, 256}),
                    /*prompts=*/2);
}

TEST_F(AutoregressivePairTest, DynaTreeEqualsAlgorithmOne) {
  ExpectEqualCycles("dynatree:w=0", DynaTree({1, 2, 3, 0.4, 0.9, 5, 8, 0.03, 0.2, 0.03, 256}));
}

TEST_F(AutoregressivePairTest, CoupledDraftingAcceptsMoreAtTemperatureOne) {
  if (BASTION_SANITIZED) GTEST_SKIP() << "sanitizers slow it down";
  const auto mean_committed = [](const std::string& policy) {
    const Result run = Decode(policy, {8, 1.0f});
    double committed = 0, cycles = 0;
    for (const auto& records : run.cycles) {
      for (const CycleRecord& record : records) committed += record.committed_length;
      cycles += static_cast<double>(records.size());
    }
    return committed / cycles;
  };
  EXPECT_GT(mean_committed("linear:6+coupled"), mean_committed("linear:6"));
}

// Prints what each policy would make of a GPU. The paper reports 1.16x over the fixed tree.
TEST_F(AutoregressivePairTest, OnASimulatedGpuDynaTreeBeatsLinearSpeculationAndTheFixedTree) {
  if (BASTION_SANITIZED) GTEST_SKIP() << "sanitizers slow it down";
  constexpr int kPrompts = 8;
  const double plain = PaceOnGpu("ar", kPrompts).first;
  std::map<std::string, double> speedups;
  for (const char* policy : {"linear:6", "linear:7", "assisted", "dynatree:fixed", "dynatree",
                             "fixed:16", "fixed:32", "default"}) {
    const auto [pace, length] = PaceOnGpu(policy, kPrompts);
    speedups[policy] = pace / plain;
    std::printf("%-16s %5.2fx  tau %.2f\n", policy, pace / plain, length);
  }
  EXPECT_GT(speedups["dynatree"], 1.10 * speedups["linear:6"]);
  EXPECT_GT(speedups["dynatree"], 1.10 * speedups["dynatree:fixed"]);
  // The planner asks for rounds only while they pay.
  EXPECT_GT(speedups["default"], speedups["dynatree"]);
}

}  // namespace
}  // namespace bastion
