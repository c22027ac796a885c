// AcceptanceCalibration: corrects the stated probabilities of candidates by observed acceptance.
//
// A drafter is overconfident or underconfident, depending on the depth, on the kind of path, and on
// the probability itself. Marginals of independent positions are right on the most probable path,
// too low for siblings of nodes on it, and too high below those siblings. A cell is a kind of node
// (PathKind), a group of depths and a bin of stated probability. A cell counts, over the candidates
// whose parent the target has chosen,
//
//   predicted: the sum of the stated probabilities, corrected by the request's Trust (below),
//   accepted: the number that the target chose.
//
// Candidates count whether or not they were verified, so there is no selection bias. The factor of
// a cell is shrunk toward the factor of its kind and depth over all bins, and that one toward the
// next smaller depth:
//
//   factor(kind, depth)      = (accepted + m·factor(kind, depth − 1)) / (predicted + m)
//   factor(kind, depth, bin) = (accepted + m·factor(kind, depth)) / (predicted + m),   m = 1
//
// The calibrated probability is the stated one times the factor, at most 1. Counts fade over about
// kMemory cycles of one request. There is one object per source of candidates (drafts, prior
// alone); requests share it. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_BELIEF_ACCEPTANCE_CALIBRATION_H_
#define BASTION_ORCHESTRATOR_BELIEF_ACCEPTANCE_CALIBRATION_H_

#include <array>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/cost/fading_ratio.h"

namespace bastion {

// The relation of a node to the spine: on the spine, a sibling of a spine node, or below such a
// sibling.
enum class PathKind { kSpine, kSibling, kOffSpine };
inline constexpr int kPathKinds = 3;

class AcceptanceCalibration {
 public:
  static constexpr double kMemory = 128;
  static constexpr double kInitialMass = 1;  // m
  static constexpr float kMinFactor = 1.0f / 64;
  static constexpr float kMaxFactor = 8;

  // The logarithm of the factor, as of the last Refresh. REQUIRES: depth >= 1; log_prob <= 0.
  [[nodiscard]] float LogFactor(PathKind kind, int depth, float log_prob) const;

  // Records a candidate whose parent the target has chosen. `trusted` is its stated probability,
  // corrected by the trust in its request.
  void Observe(PathKind kind, int depth, float log_prob, double trusted, bool accepted);
  // Ends a cycle of one request: older counts fade.
  void EndCycle();
  // Makes the observations so far take effect. Cheap if there are none.
  void Refresh();

  // [kinds of node × groups of depths, 1 + bins, 2] The accepted and predicted counts of each kind
  // and depth: over all bins, then of each bin. As stored in a file.
  [[nodiscard]] std::vector<float> ToCounts() const;
  // The size of ToCounts().
  [[nodiscard]] static size_t counts_size() { return 2 * kGroups * (1 + kBins); }
  // INVALID_ARGUMENT if the size is wrong, or a count is negative or too large.
  [[nodiscard]] static absl::StatusOr<AcceptanceCalibration> FromCounts(
      absl::Span<const float> counts);

 private:
  static constexpr int kDepthGroups = 6;  // Depths 1, 2, 3, 4–5, 6–8, and deeper.
  static constexpr int kGroups = kPathKinds * kDepthGroups;
  // The acceptance of nearly certain candidates matters most, because they are verified even under
  // load. So there is a bin for each halving of 1 − p down to 1/16, then one for each halving of p.
  static constexpr int kUpperBins = 4;
  static constexpr int kBins = kUpperBins + 7;
  struct Counts {
    double accepted = 0;
    double predicted = 0;
    // `above` is the factor that this one is shrunk toward.
    [[nodiscard]] double Factor(double above, double mass) const;
  };
  struct Group {
    Counts all;
    std::array<Counts, kBins> bins;
    std::array<float, kBins> log_factors{};
  };

  // Calls `visit` with every Counts of `groups`, in the order of ToCounts.
  template <typename Groups, typename Visit>
  static void ForEachCounts(Groups& groups, Visit visit) {
    for (auto& group : groups) {
      visit(group.all);
      for (auto& counts : group.bins) visit(counts);
    }
  }
  [[nodiscard]] static int GroupOf(PathKind kind, int depth);
  [[nodiscard]] static int BinOf(float log_prob);

  // Newer counts weigh more instead of older ones less, so that fading does not visit every cell.
  double unit_ = 1;
  bool stale_ = false;
  std::array<Group, kGroups> groups_{};
};

// Trust: how much better or worse the candidates of one request are than those of others, as a
// factor on their odds. It starts at 1 and is shrunk toward 1 by kPseudoCounts choices, because a
// request shows only a few dozen. Calibration counts what trust does not explain, so one long
// request with useless drafts does not spoil the calibration for new requests. Copyable.
// Thread-compatible.
class Trust {
 public:
  static constexpr double kMemory = 64;  // Choices.
  static constexpr double kPseudoCounts = 8;

  // Records one choice of the target. `predicted` is the calibrated probability that the target
  // chooses one of the listed candidates; `accepted` tells whether it did.
  void Observe(double predicted, bool accepted);

  // The factor on the odds of a candidate.
  [[nodiscard]] double odds() const { return odds_; }
  // The logarithm of the probability after the factor on the odds. REQUIRES: log_prob <= 0.
  [[nodiscard]] float Apply(float log_prob) const;

 private:
  FadingRatio choices_;  // Accepted ones over predicted ones.
  double odds_ = 1;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BELIEF_ACCEPTANCE_CALIBRATION_H_
