// The engines in process on tiny random checkpoints. Loading measures the device, which is slow, so
// each kind is created once and shared by all tests. The tests use different sessions and close
// them.
#ifndef BASTION_TESTS_CONFORMANCE_IN_PROCESS_H_
#define BASTION_TESTS_CONFORMANCE_IN_PROCESS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/inprocess/local_stages.h"
#include "common/base/check.h"
#include "tests/conformance/stages_under_test.h"
#include "tests/support/golden_file.h"

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

class InProcess final : public StagesUnderTest {
 public:
  explicit InProcess(const std::string& folder, const std::string& backend = "cpu") {
    LocalOptions options;
    options.target_folder = folder + "/target";
    options.drafter_folder = folder + "/drafter";
    options.dtype = "fp32";
    options.backend = backend;
    options.threads = 2;
    options.max_sequences = 8;
    auto stages = LocalStages::Create(options);
    CHECK(stages.ok()) << stages.status();
    stages_ = *std::move(stages);
  }
  Verifier& verifier() override { return stages_->verifier(); }
  Drafter& drafter() override { return stages_->drafter(); }

 private:
  std::unique_ptr<LocalStages> stages_;
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
