// A verifier service and a drafter that reads its features from GPU memory. They run on GPUs, or on
// the emulator in a build without CUDA.
#ifndef BASTION_TESTS_INTEGRATION_GPU_FEATURES_FIXTURE_H_
#define BASTION_TESTS_INTEGRATION_GPU_FEATURES_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/host/service_host.h"
#include "drafter_service/engine/drafter_engine.h"
#include "drafter_service/features/remote_features.h"
#include "engine/cuda/cuda_device.h"
#include "engine/program/local_device.h"
#include "kernels/cuda/runtime/runtime.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "verifier_service/serve/verifier_service.h"

namespace bastion {

inline constexpr int kSequences = 2;
inline constexpr int64_t kLargeRing = 1 << 20;

// A ring whose content has always been overwritten by the time it is read.
class OverwrittenRing final : public DeviceRing {
 public:
  explicit OverwrittenRing(std::shared_ptr<const DeviceRing> ring) : ring_(std::move(ring)) {}
  const char* At(uint64_t position) const override { return ring_->At(position); }
  bool Holds(uint64_t) const override { return false; }

 private:
  const std::shared_ptr<const DeviceRing> ring_;
};

// Counts the feature rows read from GPU memory and those read as bytes. If `lose_every` > 0, every
// lose_every-th read from GPU memory gets overwritten features; `lost` counts these reads.
class CountingSource final : public FeatureSource {
 public:
  explicit CountingSource(FeatureSource* source) : source_(source) {}
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration timeout) override {
    auto features = source_->Read(range, timeout);
    if (!features.ok()) return features;
    (features->on_device() ? rows_on_device : rows_in_bytes) += features->rows();
    if (features->on_device() && lose_every > 0 && ++reads_ % lose_every == 0) {
      features->device.ring = std::make_shared<OverwrittenRing>(features->device.ring);
      ++lost;
    }
    return features;
  }

  int rows_on_device = 0, rows_in_bytes = 0, lost = 0, lose_every = 0;

 private:
  FeatureSource* const source_;
  int reads_ = 0;
};

// The settings of one run.
struct Setting {
  int64_t ring_bytes = kLargeRing;
  wire::CarrierChoice carrier = wire::CarrierChoice::kAuto;
  int cycles = 12;
  int draft_every = 1;   // Draft only every draft_every-th cycle.
  int lose_every = 0;    // See CountingSource.
  bool mappable = true;  // False: the drafter is not permitted to map the ring.
  int drafter_gpu = 0;   // The verifier runs on GPU 0.
};

class GpuPair {
 public:
  GpuPair(const std::string& folder, const Setting& setting) : folder_(folder), setting_(setting) {
    features_ = std::make_unique<drafter::RemoteFeatures>(address(), setting.carrier);
    source = std::make_unique<CountingSource>(features_.get());
    source->lose_every = setting.lose_every;
    StartVerifier();
    StartDrafter();
    verifier = std::make_unique<RemoteVerifier>(
        RemoteOptions{.address = address(), .peer_timeout = absl::Seconds(60)});
    AwaitSubscription();
  }
  ~GpuPair() {
    features_->Stop();
    StopVerifier();
  }
  GpuPair(const GpuPair&) = delete;
  GpuPair& operator=(const GpuPair&) = delete;

  void StartVerifier() {
    verifier::VerifierOptions options;
    options.target_folder = folder_ + "/target";
    options.engine = EngineOptions(verifier_device_, /*ordinal=*/0);
    options.engine.share_bytes = setting_.ring_bytes;
    options.max_sequences = 4;
    options.max_rows = 64;
    auto engine = verifier::VerifierEngine::Create(options);
    CHECK(engine.ok()) << engine.status();
    verifier_engine = *std::move(engine);
    auto attach = wire::StartAttachServer(sockets_.File("shm"), "verifier");
    CHECK(attach.ok()) << attach.status();
    service_ =
        std::make_unique<verifier::VerifierService>(verifier_engine.get(), *std::move(attach));
    wire::HostOptions host;
    host.addresses = {address()};
    host.reflection = false;
    auto started = wire::ServiceHost::Start(host, {service_.get()});
    CHECK(started.ok()) << started.status();
    host_ = *std::move(started);
  }
  void StopVerifier() {
    if (host_ != nullptr) host_->Shutdown(absl::Milliseconds(100));
    host_.reset();
    service_.reset();
    verifier_engine.reset();
  }
  // Waits until the drafter has subscribed. Sequences opened earlier have no features.
  void AwaitSubscription() {
    for (uint32_t epoch = 0; epoch < 500; ++epoch) {
      const SequenceId probe = {~uint64_t{0}, ++probes_};
      // After a restart, the verifier is used only once Info has shown which one it is.
      if (verifier->Info().ok() && verifier->Open(probe, {}).ok()) {
        const bool kept = verifier_engine->features().Rows(probe).ok();
        verifier->Close(probe);
        if (kept) return;
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
    CHECK(false) << "the drafter has not subscribed";
  }

  std::unique_ptr<verifier::VerifierEngine> verifier_engine;
  std::unique_ptr<RemoteVerifier> verifier;
  std::unique_ptr<drafter::DrafterEngine> drafter;
  std::unique_ptr<CountingSource> source;
  [[nodiscard]] FeatureRoute route() const { return features_->route(); }

 private:
  std::string address() const { return "unix:" + sockets_.File("verifier"); }
  static nn::EngineOptions EngineOptions(nn::LocalDevice& local, int ordinal) {
    auto device = nn::OpenLocalDevice(1);
    CHECK(device.ok()) << device.status();
    local = *std::move(device);
    auto gpu = nn::OpenCudaDevice({.ordinal = ordinal}, local.device->host());
    CHECK(gpu.ok()) << gpu.status();
    return {nn::FormatsFor(WeightFormat::kF32), *std::move(gpu), 2048};
  }

  void StartDrafter() {
    drafter::DrafterOptions options;
    options.drafter_folder = folder_ + "/drafter";
    options.target_folder = folder_ + "/target";
    options.engine = EngineOptions(drafter_device_, setting_.drafter_gpu);
    options.max_sequences = 4;
    options.feature_timeout = absl::Seconds(5);
    auto engine = drafter::DrafterEngine::Create(options, source.get());
    CHECK(engine.ok()) << engine.status();
    drafter = *std::move(engine);
    reader_ = *drafter->device_reader();
    if (!setting_.mappable) {
      reader_.import = [](const auto&) { return absl::UnavailableError("not permitted"); };
    }
    features_->Start(
        drafter->feature_layers(), [](auto&&...) {}, &reader_);
  }

  const std::string folder_;
  const Setting setting_;
  testing::TempFolder sockets_;
  uint32_t probes_ = 0;
  nn::LocalDevice verifier_device_, drafter_device_;
  DeviceReader reader_;
  std::unique_ptr<drafter::RemoteFeatures> features_;
  std::unique_ptr<verifier::VerifierService> service_;
  std::unique_ptr<wire::ServiceHost> host_;
};

struct Outcome {
  std::vector<Marginals> drafts;
  int rows_on_device = 0, rows_in_bytes = 0, lost = 0;
  FeatureRoute route = FeatureRoute::kNone;
};

class GpuFeaturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto gpu = kernels::cuda::OpenDevice(0); !gpu.ok()) {
      GTEST_SKIP() << "no GPU: " << gpu.status().message();
    }
    folder_ = testing::GoldenFolder("gqa2_untied_draft2");
    tokens_ = testing::GoldenFile(folder_ + "/golden.safetensors").Integers("tokens");
    const auto config = hub::ReadModelConfig(folder_ + "/drafter");
    ASSERT_TRUE(config.ok()) << config.status();
    row_bytes_ = static_cast<int64_t>(config->drafter.dflash.target_layer_ids.size()) *
                 config->dims.hidden * 4;
  }

  struct Live {
    SequenceId id;
    Position committed = 0;
    TokenId root = 0;
  };
  Live Open(GpuPair& pair, uint64_t session) {
    Live live = {{session, 0}, static_cast<Position>(tokens_.size()) - 1, tokens_.back()};
    EXPECT_TRUE(pair.verifier->Open(live.id, {}).ok());
    const auto prefilled =
        pair.verifier->Prefill({live.id, 0, {tokens_.begin(), tokens_.end() - 1}});
    EXPECT_TRUE(prefilled.ok()) << prefilled.status();
    return live;
  }
  // Verifies trees that do not depend on drafts, so that every run commits the same tokens.
  void Cycle(GpuPair& pair, std::vector<Live>& sequences, int cycle) {
    Forest forest;
    for (const Live& live : sequences) {
      DraftTree tree(live.root);
      for (int i = 0; i < 3; ++i)
        tree.Add(NodeIndex::Of(i), tokens_[(cycle + i) % tokens_.size()], -1.0f);
      forest.push_back({live.id, live.committed, std::move(tree)});
    }
    const auto verified = pair.verifier->Verify(forest, {});
    ASSERT_TRUE(verified.ok()) << verified.status();
    for (size_t s = 0; s < sequences.size(); ++s) {
      ASSERT_TRUE(verified->outcomes[s].status.ok()) << verified->outcomes[s].status;
      const Acceptance& acceptance = verified->outcomes[s].acceptance;
      sequences[s].committed += 1 + static_cast<Position>(acceptance.path.size());
      sequences[s].root = acceptance.next;
    }
  }
  static std::vector<Marginals> Expand(GpuPair& pair, const std::vector<Live>& sequences) {
    std::vector<Frontier> frontiers;
    for (const Live& live : sequences) {
      Frontier frontier;
      frontier.sequence = live.id;
      frontier.committed = live.committed;
      frontier.root = live.root;
      frontier.candidates = 8;
      frontiers.push_back(frontier);
    }
    const auto drafts = pair.drafter->Expand(frontiers);
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    std::vector<Marginals> marginals;
    for (const Draft& draft : *drafts) marginals.push_back(draft.marginals[0]);
    return marginals;
  }
  Outcome RunWith(const Setting& setting) {
    GpuPair pair(folder_, setting);
    std::vector<Live> sequences;
    for (uint64_t s = 1; s <= kSequences; ++s) sequences.push_back(Open(pair, s));
    Outcome run;
    for (int cycle = 0; cycle < setting.cycles; ++cycle) {
      Cycle(pair, sequences, cycle);
      if (cycle % setting.draft_every != 0) continue;
      for (Marginals& marginals : Expand(pair, sequences)) {
        EXPECT_FALSE(marginals.empty()) << "cycle " << cycle;
        run.drafts.push_back(std::move(marginals));
      }
    }
    run.rows_on_device = pair.source->rows_on_device;
    run.rows_in_bytes = pair.source->rows_in_bytes;
    run.lost = pair.source->lost;
    run.route = pair.route();
    return run;
  }
  // The reference: a run with all features sent as bytes.
  const Outcome& FromBytes(int draft_every = 1) {
    static std::map<int, Outcome> runs;
    if (!runs.contains(draft_every)) {
      Setting setting;
      setting.carrier = wire::CarrierChoice::kInline;
      setting.draft_every = draft_every;
      runs[draft_every] = RunWith(setting);
    }
    return runs[draft_every];
  }
  // Features that arrive in chunks of a different size are rounded differently on a GPU.
  static void ExpectNear(const Outcome& actual, const Outcome& expected) {
    ASSERT_EQ(actual.drafts.size(), expected.drafts.size());
    for (size_t i = 0; i < actual.drafts.size(); ++i) {
      ASSERT_EQ(actual.drafts[i].positions, expected.drafts[i].positions);
      for (int p = 0; p < expected.drafts[i].positions; ++p) {
        EXPECT_NEAR(actual.drafts[i].log_prob(p, 0), expected.drafts[i].log_prob(p, 0), 1e-3);
      }
    }
  }

  std::string folder_;
  std::vector<TokenId> tokens_;
  int64_t row_bytes_ = 0;
};

}  // namespace bastion

#endif  // BASTION_TESTS_INTEGRATION_GPU_FEATURES_FIXTURE_H_
