// Measures one cycle's draft with the demo drafter (deploy/demo_model): appends a few tokens to the
// context, then drafts a block. Also for several sequences at once.
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "drafter_service/engine/drafter_engine.h"
#include "engine/program/local_device.h"

namespace bastion::drafter {
namespace {

constexpr SequenceId kSequence = {1, 0};
constexpr Position kContext = 64;

class ConstantFeatures final : public FeatureSource {
 public:
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    Features features;
    features.width = 3 * 320;
    features.type = DType::kBF16;
    features.bytes.assign(range.count * features.row_bytes(), '\x3c');
    return features;
  }
};

DrafterEngine& DemoEngine(WeightFormat weights) {
  static auto* const device = new nn::LocalDevice(*nn::OpenLocalDevice(0));
  static auto* const engines = new std::map<WeightFormat, std::unique_ptr<DrafterEngine>>();
  std::unique_ptr<DrafterEngine>& engine = (*engines)[weights];
  if (engine == nullptr) {
    DrafterOptions options;
    options.drafter_folder = BASTION_SOURCE_DIR "/deploy/demo_model/drafter";
    options.target_folder = BASTION_SOURCE_DIR "/deploy/demo_model/target";
    options.engine = {nn::FormatsFor(weights), device->device, /*kv_tokens=*/4096};
    auto made = DrafterEngine::Create(options, new ConstantFeatures());
    CHECK(made.ok()) << made.status();
    engine = *std::move(made);
  }
  return *engine;
}

void BM_Expand(benchmark::State& state) {
  const auto appended = static_cast<Position>(state.range(0));
  const auto weights = state.range(2) == 0 ? WeightFormat::kBF16 : WeightFormat::kInt8;
  DrafterEngine& engine = DemoEngine(weights);
  Frontier frontier;
  frontier.sequence = kSequence;
  frontier.candidates = static_cast<int>(state.range(1));
  frontier.committed = kContext;
  for (auto _ : state) {
    const auto drafts = engine.Expand({frontier});
    CHECK(drafts.ok() && !drafts->at(0).marginals.at(0).empty()) << drafts.status();
    frontier.committed += appended;
    if (frontier.committed < kContext + 128) continue;
    state.PauseTiming();
    engine.Close(kSequence);
    frontier.committed = kContext;
    CHECK(engine.Expand({frontier}).ok());
    state.ResumeTiming();
  }
  engine.Close(kSequence);
}
BENCHMARK(BM_Expand)
    ->ArgNames({"appended", "candidates", "int8"})
    ->ArgsProduct({{0, 2}, {4, 64}, {0, 1}})
    ->UseRealTime();

void BM_ExpandTogether(benchmark::State& state) {
  DrafterEngine& engine = DemoEngine(WeightFormat::kBF16);
  std::vector<Frontier> frontiers(state.range(0));
  const auto restart = [&] {
    for (size_t i = 0; i < frontiers.size(); ++i) {
      frontiers[i].sequence = {i + 1, 0};
      frontiers[i].candidates = 16;
      frontiers[i].committed = kContext;
      engine.Close(frontiers[i].sequence);
    }
    CHECK(engine.Expand(frontiers).ok());
  };
  restart();
  for (auto _ : state) {
    for (Frontier& frontier : frontiers) frontier.committed += 3;
    CHECK(engine.Expand(frontiers).ok());
    if (frontiers[0].committed < kContext + 30) continue;
    state.PauseTiming();
    restart();
    state.ResumeTiming();
  }
  for (const Frontier& frontier : frontiers) engine.Close(frontier.sequence);
}
BENCHMARK(BM_ExpandTogether)->ArgNames({"sequences"})->Arg(1)->Arg(4)->Arg(16)->UseRealTime();

}  // namespace
}  // namespace bastion::drafter
