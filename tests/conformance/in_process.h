// The engines in process, usually on tiny random checkpoints. Loading measures the device, which is
// slow, so each kind is created once and shared by all tests. The tests use different sessions and
// close them.
#ifndef BASTION_TESTS_CONFORMANCE_IN_PROCESS_H_
#define BASTION_TESTS_CONFORMANCE_IN_PROCESS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "tests/conformance/stages_under_test.h"
#include "tests/support/golden_file.h"
#include "tools/inprocess/local_stages.h"

namespace bastion::testing {

// Forwards to stages that outlive the test.
class Borrowed final : public StagesUnderTest {
 public:
  explicit Borrowed(StagesUnderTest* stages) : stages_(stages) {}
  Verifier& verifier() override { return stages_->verifier(); }
  Drafter& drafter() override { return stages_->drafter(); }

 private:
  StagesUnderTest* const stages_;
};

inline constexpr int kMaxSequences = 8;
// Fewer than kMaxSequences sequences hold, so that a test can fill the cache.
inline constexpr int kKvTokens = 512;
inline constexpr int kMaxRows = 256;

struct InProcessOptions {
  std::string folder;  // Has the folders `target` and `drafter`, like that of a golden case.
  std::string drafter = "drafter";  // The drafter's folder in `folder`.
  WeightFormat weights = WeightFormat::kF32;
  std::string backend = "cpu";
  int threads = 2;
  int max_sequences = kMaxSequences;
  int kv_tokens = kKvTokens;
  int max_rows = kMaxRows;
  // Opens a device for one engine. Null: both engines run on the CPU.
  std::shared_ptr<nn::Device> (*open)(const nn::LocalDevice& local) = nullptr;
};

class InProcess : public StagesUnderTest {
 public:
  explicit InProcess(const std::string& folder) : InProcess(InProcessOptions{folder}) {}
  explicit InProcess(const InProcessOptions& options) {
    auto device = nn::OpenLocalDevice(options.threads, options.backend);
    CHECK(device.ok()) << device.status();
    device_ = *std::move(device);
    verifier::VerifierOptions verifier;
    verifier.target_folder = options.folder + "/target";
    verifier.engine = {nn::FormatsFor(options.weights), device_.device, options.kv_tokens};
    if (options.open != nullptr) verifier.engine.device = options.open(device_);
    verifier.max_sequences = options.max_sequences;
    verifier.max_rows = options.max_rows;
    auto verifier_engine = verifier::VerifierEngine::Create(verifier);
    CHECK(verifier_engine.ok()) << verifier_engine.status();
    verifier_engine_ = *std::move(verifier_engine);
    drafter::DrafterOptions drafter;
    drafter.drafter_folder = options.folder + "/" + options.drafter;
    drafter.target_folder = options.folder + "/target";
    drafter.engine = verifier.engine;
    if (options.open != nullptr) drafter.engine.device = options.open(device_);
    drafter.max_sequences = options.max_sequences;
    auto drafter_engine = drafter::DrafterEngine::Create(drafter, &verifier_engine_->features());
    CHECK(drafter_engine.ok()) << drafter_engine.status();
    drafter_engine_ = *std::move(drafter_engine);
    const absl::Status set = verifier_engine_->SetFeatureLayers(drafter_engine_->feature_layers());
    CHECK(set.ok()) << set;
    verifier_ = std::make_unique<LocalVerifier>(verifier_engine_.get());
    drafter_ = std::make_unique<LocalDrafter>(drafter_engine_.get());
  }
  Verifier& verifier() override { return *verifier_; }
  Drafter& drafter() override { return *drafter_; }
  const verifier::VerifierEngine& verifier_engine() const { return *verifier_engine_; }
  const drafter::DrafterEngine& drafter_engine() const { return *drafter_engine_; }

 private:
  nn::LocalDevice device_;
  std::unique_ptr<verifier::VerifierEngine> verifier_engine_;
  std::unique_ptr<drafter::DrafterEngine> drafter_engine_;
  std::unique_ptr<LocalVerifier> verifier_;
  std::unique_ptr<LocalDrafter> drafter_;
};

// The target is also the drafter.
class AutoregressiveInProcess final : public InProcess {
 public:
  explicit AutoregressiveInProcess(const std::string& folder)
      : InProcess({.folder = folder, .drafter = "target"}) {}
};

// A kind of stages of class `Kind`, created from the folder of a golden case.
template <typename Kind>
StagesKind KindOn(const std::string& name, const std::string& golden) {
  const std::string folder = GoldenFolder(golden);
  return {name, [folder] {
            static std::map<std::string, std::unique_ptr<Kind>> instances;
            auto& stages = instances[folder];
            if (stages == nullptr) stages = std::make_unique<Kind>(folder);
            return std::make_unique<Borrowed>(stages.get());
          }};
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_CONFORMANCE_IN_PROCESS_H_
