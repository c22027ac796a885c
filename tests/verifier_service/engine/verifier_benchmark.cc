// Measures one verify call of the demo target (deploy/demo_model) for several row counts.
#include <benchmark/benchmark.h>

#include <string>

#include "common/base/check.h"
#include "engine/program/local_device.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::verifier {
namespace {

constexpr SequenceId kSequence = {1, 0};

VerifierEngine& DemoEngine() {
  static auto* const device = new nn::LocalDevice(*nn::OpenLocalDevice(0));
  static VerifierEngine* const engine = [] {
    VerifierOptions options;
    options.target_folder = BASTION_SOURCE_DIR "/deploy/demo_model/target";
    options.engine = {nn::FormatsFor(WeightFormat::kBF16), device->device, /*kv_tokens=*/4096};
    auto made = VerifierEngine::Create(options);
    CHECK(made.ok()) << made.status();
    CHECK((*made)->SetFeatureLayers({2, 4, 7}).ok());
    return made->release();
  }();
  return *engine;
}

// A binary tree of `nodes` nodes. The target chooses none of its tokens, so a call commits only the
// root.
DraftTree BinaryTree(int nodes) {
  DraftTree tree(0);
  for (int i = 0; i < nodes; ++i)
    tree.Add(NodeIndex::Of(i / 2), 2 + i, -1.0f - static_cast<float>(i));
  return tree;
}

void BM_Verify(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0)), context = static_cast<int>(state.range(1));
  VerifierEngine& engine = DemoEngine();
  CHECK(engine.Open(kSequence, {}).ok());
  std::vector<TokenId> prompt(context);
  for (int i = 0; i < context; ++i) prompt[i] = 5 + i * 37 % 4000;
  CHECK(engine.Prefill({kSequence, 0, prompt}).ok());
  const DraftTree tree = BinaryTree(rows - 1);
  Position committed = context;
  for (auto _ : state) {
    const auto result = engine.Verify({{kSequence, committed, tree}}, {});
    CHECK(result.ok()) << result.status();
    CHECK(result->outcomes[0].status.ok()) << result->outcomes[0].status;
    committed += result->outcomes[0].acceptance.committed_length();
    if (committed < context + 128) continue;
    state.PauseTiming();
    engine.Close(kSequence);
    CHECK(engine.Open(kSequence, {}).ok() && engine.Prefill({kSequence, 0, prompt}).ok());
    committed = context;
    state.ResumeTiming();
  }
  engine.Close(kSequence);
}
BENCHMARK(BM_Verify)->ArgsProduct({{1, 2, 3, 4, 5, 6, 8, 9, 16, 32, 64}, {64}})->UseRealTime();

}  // namespace
}  // namespace bastion::verifier
