// Attention with sinks and a window, compared with a plain implementation of the paper's procedure,
// and with itself: a row has the same bits regardless of how rows are grouped into forwards.
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "engine/cuda/cuda_device.h"
#include "engine/host/host_device.h"
#include "engine/model/streaming_window.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/golden_file.h"
#include "tests/support/model_runner.h"
#include "tests/support/streaming_reference.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::verifier {
namespace {

using kernels::RowMask;
using ::testing::HasSubstr;
using testing::StreamingReference;

constexpr nn::StreamingWindow kWindow = {.sinks = 3, .tokens = 14};
constexpr int kTokens = 45;

std::string Qwen() { return testing::GoldenFolder("gqa2_untied_draft2") + "/target"; }
std::string Neox() { return std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model_neox/target"; }

// A folder of a model, and where it runs.
struct Place {
  std::string folder;
  bool on_gpu = false;

  [[nodiscard]] std::shared_ptr<nn::Device> Open(kernels::ThreadPool& pool) const {
    if (!on_gpu) return nn::MakeHostDevice(kernels::CpuBackend(), pool);
    auto gpu = nn::OpenCudaDevice({}, {&kernels::CpuBackend(), &pool});
    return gpu.ok() ? *std::move(gpu) : nullptr;
  }
};

// A model and one sequence.
class Decoding {
 public:
  Decoding(const Place& place, WeightFormat weights, const nn::StreamingWindow& window) {
    nn::EngineOptions options = {.formats = nn::FormatsFor(weights), .device = place.Open(pool_)};
    options.kv_tokens = 256;
    options.max_rows = 64;
    options.max_sequences = 2;
    options.streaming = window;
    auto model = testing::ModelRunner::Load(place.folder, options);
    CHECK(model.ok()) << model.status();
    model_ = *std::move(model);
    CHECK(model_->cache().Reserve(table_, 128).ok());
  }

  // The logits [R, V] of `tokens` at the positions from `cached` on.
  std::vector<float> Run(const std::vector<TokenId>& tokens, int cached) {
    nn::RowBatch batch;
    batch.AddRun({&table_, cached, RowMask::kCausal}, tokens);
    return model_->Run(batch);
  }
  std::vector<float> RunTree(const DraftTree& tree, int cached) {
    std::vector<int> depths;
    for (NodeIndex i = 0; i < tree.rows(); ++i) depths.push_back(tree.depth(i));
    nn::RowBatch batch;
    batch.AddTree({&table_, cached}, tree.tokens(), depths, tree.AncestorBits());
    return model_->Run(batch);
  }
  int vocabulary() const { return model_->config().dims.vocabulary; }

 private:
  kernels::ThreadPool pool_{2};
  std::unique_ptr<testing::ModelRunner> model_;
  nn::PageTable table_;
};

std::vector<TokenId> Text(int vocabulary) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back((i * 37 + i * i + 11) % vocabulary);
  return tokens;
}

// The tokens [begin, end) of `text`.
std::vector<TokenId> Part(const std::vector<TokenId>& text, int begin, int end) {
  return {text.begin() + begin, text.begin() + end};
}

void ExpectNear(const float* logits, const StreamingReference::Vector& expected) {
  double most = 0;
  for (const double logit : expected) most = std::max(most, std::abs(logit));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(logits[i], expected[i], 1e-4 * most) << i;
  }
}

// Like ExpectNear, for all logits of a step.
void ExpectNear(const std::vector<float>& logits, const std::vector<float>& expected,
                double tolerance) {
  ASSERT_EQ(logits.size(), expected.size());
  double most = 0;
  for (const float logit : expected) most = std::max<double>(most, std::abs(logit));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(logits[i], expected[i], tolerance * most) << i;
  }
}

bool SameBits(const float* a, const float* b, int count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// A tree of the next tokens of `text` at `begin`, each with a sibling below which another token
// follows.
DraftTree TreeOver(const std::vector<TokenId>& text, int begin, int vocabulary) {
  DraftTree tree(text[begin]);
  NodeIndex at = 0;
  for (int i = begin + 1; i < begin + 5; ++i) {
    const NodeIndex sibling = tree.Add(at, (text[i] + 1) % vocabulary, -1);
    tree.Add(sibling, text[i], -2);
    at = tree.Add(at, text[i], -1);
  }
  return tree;
}

class StreamingModelTest : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    kernels::ThreadPool pool(1);
    if (GetParam().Open(pool) == nullptr) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(StreamingModelTest, LogitsEqualAPlainImplementationOfThePaper) {
  Decoding decoding(GetParam(), WeightFormat::kF32, kWindow);
  StreamingReference reference(GetParam().folder, kWindow.sinks, kWindow.tokens);
  const int vocabulary = decoding.vocabulary();
  const std::vector<TokenId> text = Text(vocabulary);
  // A prompt that is longer than the cache in one forward, then single tokens.
  const int prompt = 30;
  const std::vector<float> logits = decoding.Run(Part(text, 0, prompt), 0);
  for (int i = 0; i < prompt; ++i) {
    ExpectNear(&logits[size_t(i) * vocabulary], reference.Append(text[i]));
  }
  for (int i = prompt; i < kTokens; ++i) {
    ExpectNear(decoding.Run({text[i]}, i).data(), reference.Append(text[i]));
  }
}

TEST_P(StreamingModelTest, EveryRowOfATreeSeesWhatPlainDecodingSees) {
  Decoding decoding(GetParam(), WeightFormat::kF32, kWindow);
  StreamingReference prefix(GetParam().folder, kWindow.sinks, kWindow.tokens);
  const int vocabulary = decoding.vocabulary();
  const std::vector<TokenId> text = Text(vocabulary);
  for (const int cached : {2, 15, 33}) {  // Among the sinks, as the window fills, and after.
    SCOPED_TRACE(cached);
    (void)decoding.Run(Part(text, 0, cached), 0);
    StreamingReference committed = prefix;
    for (int i = 0; i < cached; ++i) (void)committed.Append(text[i]);
    const DraftTree tree = TreeOver(text, cached, vocabulary);
    const std::vector<float> logits = decoding.RunTree(tree, cached);
    for (NodeIndex node = 0; node < tree.rows(); ++node) {
      std::vector<TokenId> path;
      for (NodeIndex at = node; at != kNoNode; at = tree.parent(at)) path.push_back(tree.token(at));
      StreamingReference reference = committed;
      StreamingReference::Vector expected;
      for (auto token = path.rbegin(); token != path.rend(); ++token) {
        expected = reference.Append(*token);
      }
      ExpectNear(&logits[size_t(node) * vocabulary], expected);
    }
  }
}

TEST_P(StreamingModelTest, ARowHasTheSameBitsInAPromptInATreeAndAlone) {
  for (const WeightFormat weights : {WeightFormat::kF32, WeightFormat::kBF16}) {
    // cuBLASLt multiplies in fp32 on a GPU.
    if (GetParam().on_gpu && weights == WeightFormat::kF32) continue;
    Decoding decoding(GetParam(), weights, kWindow);
    const int vocabulary = decoding.vocabulary();
    const std::vector<TokenId> text = Text(vocabulary);
    std::vector<float> alone;
    for (int i = 0; i < kTokens; ++i) {
      const std::vector<float> logits = decoding.Run({text[i]}, i);
      alone.insert(alone.end(), logits.begin(), logits.end());
    }
    const std::vector<float> prompt = decoding.Run(text, 0);
    EXPECT_TRUE(SameBits(prompt.data(), alone.data(), kTokens * vocabulary));
    const int cached = 28;
    const DraftTree tree = TreeOver(text, cached, vocabulary);
    const std::vector<float> rows = decoding.RunTree(tree, cached);
    for (NodeIndex node = 0; node < tree.rows(); node += 3) {  // The path along the text.
      EXPECT_TRUE(SameBits(&rows[size_t(node) * vocabulary],
                           &alone[size_t(cached + tree.depth(node)) * vocabulary], vocabulary));
    }
  }
}

TEST_P(StreamingModelTest, ACacheThatHoldsTheWholeTextChangesNothing) {
  Decoding plain(GetParam(), WeightFormat::kF32, {});
  Decoding streaming(GetParam(), WeightFormat::kF32, {.sinks = 4, .tokens = kTokens});
  const std::vector<TokenId> text = Text(plain.vocabulary());
  const std::vector<float> expected = plain.Run(text, 0), logits = streaming.Run(text, 0);
  ExpectNear(logits.data(), {expected.begin(), expected.end()});
}

INSTANTIATE_TEST_SUITE_P(Models, StreamingModelTest,
                         ::testing::Values(Place{Qwen()}, Place{Neox()}, Place{Qwen(), true}),
                         [](const auto& info) {
                           return std::string(info.index % 2 == 0 ? "Qwen" : "Neox") +
                                  (info.param.on_gpu ? "OnGpu" : "");
                         });

// ---- a GPU beside the CPU ----

class StreamingOnGpuTest : public StreamingModelTest {};

TEST_P(StreamingOnGpuTest, AgreesWithTheCpuOverRoundsOfChunksTreesAndTokens) {
  const bool quick = GetParam().folder == Qwen();  // On the emulator.
  for (const WeightFormat weights : {WeightFormat::kF32, WeightFormat::kBF16}) {
    if (weights == WeightFormat::kBF16 && !quick) continue;
    Decoding decoding(GetParam(), weights, kWindow);
    Decoding expected({GetParam().folder}, weights, kWindow);
    const int vocabulary = decoding.vocabulary();
    const std::vector<TokenId> text = Text(vocabulary);
    const double tolerance = weights == WeightFormat::kF32 ? 1e-4 : 3e-2;
    int at = 0;
    for (const int chunk : {2, 19, 1, 7, 1, 11}) {
      const std::vector<TokenId> part = Part(text, at, at + chunk);
      ExpectNear(decoding.Run(part, at), expected.Run(part, at), tolerance);
      at += chunk;
      if (at + 5 > kTokens) break;
      const DraftTree tree = TreeOver(text, at, vocabulary);
      ExpectNear(decoding.RunTree(tree, at), expected.RunTree(tree, at), tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, StreamingOnGpuTest,
                         ::testing::Values(Place{Qwen(), true}, Place{Neox(), true}),
                         [](const auto& info) { return info.index == 0 ? "Qwen" : "Neox"; });

// The tokens that an engine writes after `prompt`. Every step has a tree over `drafted`, the text
// that it may follow, or the root alone without one.
std::vector<TokenId> Write(VerifierEngine& engine, SequenceId id, std::vector<TokenId> text,
                           const std::vector<TokenId>& drafted) {
  const size_t prompt = text.size() - 1;
  CHECK(engine.Open(id, {{1.0f, 5}}).ok());
  CHECK(engine.Prefill({id, 0, Part(text, 0, static_cast<int>(prompt))}).ok());
  while (text.size() < 34) {
    const auto cached = static_cast<int>(text.size()) - 1;
    const DraftTree tree = drafted.size() > text.size() + 4
                               ? TreeOver(drafted, cached, engine.info().dims.vocabulary)
                               : DraftTree(text.back());
    const auto result = engine.Verify({{id, cached, tree}}, {});
    CHECK(result.ok() && result->outcomes[0].status.ok()) << result.status();
    const Acceptance& acceptance = result->outcomes[0].acceptance;
    for (const NodeIndex node : acceptance.path) text.push_back(tree.token(node));
    text.push_back(acceptance.next);
    if (tree.rows() > 1) {
      EXPECT_EQ(acceptance.path.size(), 4u) << "after " << cached;
    }
  }
  return text;
}

TEST(StreamingEngineTest, TreesThatAGpuCommitsContinueThePlainText) {
  kernels::ThreadPool pool(1);
  VerifierOptions options;
  options.target_folder = Qwen();
  options.engine = {.formats = nn::FormatsFor(WeightFormat::kBF16),
                    .device = Place{Qwen(), true}.Open(pool)};
  if (options.engine.device == nullptr) GTEST_SKIP() << "no GPU";
  options.engine.kv_tokens = 256;
  options.engine.streaming = kWindow;
  options.max_rows = 64;
  options.max_sequences = 2;
  const auto engine = *VerifierEngine::Create(options);
  const std::vector<TokenId> prompt = Part(Text(256), 0, 6);
  const std::vector<TokenId> plain = Write(*engine, {1, 0}, prompt, {});
  EXPECT_EQ(Write(*engine, {2, 0}, prompt, plain), plain);
}

// ---- options ----

absl::Status LoadWith(const std::string& folder, const nn::StreamingWindow& window) {
  kernels::ThreadPool pool(1);
  nn::EngineOptions options = {.formats = nn::FormatsFor(WeightFormat::kF32),
                               .device = nn::MakeHostDevice(kernels::CpuBackend(), pool)};
  options.kv_tokens = 64;
  options.streaming = window;
  return testing::ModelRunner::Load(folder, options).status();
}

TEST(StreamingOptionsTest, WindowsThatCannotWorkAreRefused) {
  for (const nn::StreamingWindow& window :
       {nn::StreamingWindow{-1, 8}, nn::StreamingWindow{0, -8}, nn::StreamingWindow{4, 0},
        nn::StreamingWindow{4, 253}}) {
    const absl::Status status = LoadWith(Qwen(), window);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("attention_window"));
  }
  EXPECT_TRUE(LoadWith(Qwen(), {4, 252}).ok());  // The model has 256 positions.
  EXPECT_TRUE(LoadWith(Qwen(), {0, 8}).ok());
}

TEST(StreamingOptionsTest, AModelWithWindowsOfItsOwnIsRefused) {
  hub::ModelConfig config;
  config.max_positions = 256;
  config.sliding_windows = {0, 16};
  const absl::Status status = nn::CheckStreaming(config, kWindow);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("sliding windows"));
  EXPECT_TRUE(nn::CheckStreaming(config, {}).ok());
}

TEST(StreamingOptionsTest, AGpuRefusesThemToo) {
  kernels::ThreadPool pool(1);
  const std::shared_ptr<nn::Device> gpu = Place{Qwen(), true}.Open(pool);
  if (gpu == nullptr) GTEST_SKIP() << "no GPU";
  hub::ModelConfig config;
  config.max_positions = 256;
  config.sliding_windows = {0, 16};
  nn::EngineOptions options = {.formats = nn::FormatsFor(WeightFormat::kBF16)};
  options.streaming = kWindow;
  const absl::Status status = gpu->Supports(config, options);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("sliding windows"));
}

TEST(StreamingOptionsTest, PagesAreNeverSharedAsPrefixes) {
  kernels::ThreadPool pool(1);
  const std::vector<TokenId> prompt = Text(256);
  for (const bool streams : {false, true}) {
    VerifierOptions options;
    options.target_folder = Qwen();
    options.engine = {.formats = nn::FormatsFor(WeightFormat::kF32),
                      .device = nn::MakeHostDevice(kernels::CpuBackend(), pool)};
    options.engine.kv_tokens = 256;
    if (streams) options.engine.streaming = kWindow;
    const auto engine = *VerifierEngine::Create(options);
    EXPECT_EQ(engine->info().device.find("3 attention sinks") != std::string::npos, streams);
    int reused = 0;
    for (uint64_t session = 1; session <= 2; ++session) {
      ASSERT_TRUE(engine->Open({session, 0}, {}).ok());
      reused = *engine->ReusePrefix({{session, 0}, prompt, ""});
      if (reused == 0) {
        ASSERT_TRUE(engine->Prefill({{session, 0}, 0, prompt}).ok());
      }
    }
    EXPECT_EQ(reused, streams ? 0 : 32);
  }
}

}  // namespace
}  // namespace bastion::verifier
