// SimulatedDevice: a drafter and a verifier that compute nothing and take virtual time. A test sets
// how long calls take (DeviceCurve) and which tokens they return (SimulatedTexts), then runs real
// decode cycles. Deterministic. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_SIMULATED_DEVICE_H_
#define BASTION_TESTS_SUPPORT_SIMULATED_DEVICE_H_

#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "common/stages/stages.h"
#include "orchestrator/cost/latency_profile.h"
#include "tests/support/manual_clock.h"
#include "tests/support/random_marginals.h"

namespace bastion::testing {

// The tokens of a simulated drafter and target.
class SimulatedTexts {
 public:
  virtual ~SimulatedTexts() = default;
  [[nodiscard]] virtual int vocabulary() const = 0;
  [[nodiscard]] virtual Marginals Predict(const Frontier& frontier) = 0;
  // The target's token after the path of `node` in the tree of `item`.
  [[nodiscard]] virtual TokenId Choose(const VerifyItem& item, NodeIndex node) = 0;
};

// The drafts of one request of DrawnTexts.
struct SimulatedDrafts {
  Probabilities stated;
  Probabilities truth;
  double off_spine = 1;                 // Factor for `truth` below a candidate of rank > 0.
  std::vector<float> pair_scores = {};  // Marginals::pair_scores, or empty.
  bool states_pairs = true;             // The drafter sends them.
  // They move the probabilities of a row of `truth`, and leave its mass.
  bool follows_pairs = true;

  // States the true probabilities.
  static SimulatedDrafts Calibrated(const Probabilities& probabilities) {
    return {probabilities, probabilities};
  }
  // Is never right, but gives its top candidate the probability `stated_top`.
  static SimulatedDrafts Useless(double stated_top) {
    return {Ladder(8, 16, stated_top), Probabilities(8, std::vector<double>(16, 0.0))};
  }
};

// Random texts. A draft states the same probabilities in every cycle. The target's tokens are drawn
// from the true probabilities: truth[d][r] is the probability that the candidate of rank r at depth
// d+1 is the target's token, given that the target chose the path above it, before pair scores.
class DrawnTexts final : public SimulatedTexts {
 public:
  // Sets the drafts of the request with this session id.
  void SetDrafts(uint64_t session, SimulatedDrafts drafts) { drafts_[session] = std::move(drafts); }

  [[nodiscard]] int vocabulary() const override { return 100'000; }
  [[nodiscard]] Marginals Predict(const Frontier& frontier) override;
  [[nodiscard]] TokenId Choose(const VerifyItem& item, NodeIndex node) override;

 private:
  // The row of `truth` of `depth` after the token `before`.
  [[nodiscard]] static std::vector<double> TruthAfter(const SimulatedDrafts& drafts, int depth,
                                                      TokenId before);

  std::mt19937 random_{1};
  std::map<uint64_t, SimulatedDrafts> drafts_;  // By session.
};

// Milliseconds of a verify call by rows, and of a draft call by sequences.
struct DeviceCurve {
  std::function<double(double rows)> verify;
  std::function<double(double sequences)> draft;
  double overhead = 0.02;    // What a verify call takes beyond the verify.
  double committed_row = 0;  // What it takes per token that it commits, of prompts and of answers.
  double context_token = 0;  // What a draft call takes per token that the drafter has not seen.

  // As measured on two CPU cores: the demo pair, and the pair inflated to 0.6 B parameters. Linear
  // between the points and beyond them.
  static DeviceCurve Demo();
  static DeviceCurve Inflated();
  // A model of an H100 with an 8 B target: nearly flat up to 64 rows, then tiles.
  static DeviceCurve Gpu();
  // As measured on an H200 with an 8 B target and a drafter of 1 B parameters, in one process.
  static DeviceCurve MeasuredGpu();

  // What profile would measure on such a device.
  [[nodiscard]] LatencyProfile Profile() const;
};

class SimulatedDevice {
 public:
  // `noise` is the relative spread of all times. `texts` must outlive this object.
  SimulatedDevice(DeviceCurve device_curve, SimulatedTexts* texts, double noise = 0)
      : curve(std::move(device_curve)), texts_(texts), noise_(noise) {}

  [[nodiscard]] Verifier& verifier() { return verifier_; }
  [[nodiscard]] Drafter& drafter() { return drafter_; }
  [[nodiscard]] const ManualClock& clock() const { return clock_; }
  [[nodiscard]] TargetInfo Target() const;

  // Lets time pass without a call.
  void Advance(absl::Duration step) { clock_.Advance(step); }

  // ---- may change while cycles run ----
  DeviceCurve curve;
  bool drafts_fail = false;

  // ---- counts ----
  int drafted_sequences = 0;  // Over all draft calls.
  double milliseconds = 0;    // What all calls would have taken without noise.

 private:
  class SimulatedVerifier final : public Verifier {
   public:
    explicit SimulatedVerifier(SimulatedDevice* device) : device_(device) {}
    absl::StatusOr<TargetInfo> Info() override { return device_->Target(); }
    absl::Status Open(SequenceId, const SamplingParams&) override { return absl::OkStatus(); }
    absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
    absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                        absl::Span<const PrefillItem> prompts) override;
    void Close(SequenceId) override {}

   private:
    SimulatedDevice* const device_;
  };

  class SimulatedDrafter final : public Drafter {
   public:
    explicit SimulatedDrafter(SimulatedDevice* device) : device_(device) {}
    absl::StatusOr<DrafterInfo> Info() override;
    absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override;
    void Close(SequenceId) override {}

   private:
    SimulatedDevice* const device_;
  };

  // Advances the clock, with noise. Returns the time spent.
  absl::Duration Spend(double call_milliseconds);
  // Follows the target's tokens down the tree.
  [[nodiscard]] Acceptance Accept(const VerifyItem& item);

  SimulatedTexts* const texts_;
  const double noise_;
  ManualClock clock_;
  std::mt19937 random_{1};
  SimulatedVerifier verifier_{this};
  SimulatedDrafter drafter_{this};
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_SIMULATED_DEVICE_H_
