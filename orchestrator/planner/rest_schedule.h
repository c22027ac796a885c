// RestSchedule: decides when a batch decodes plainly for a while, without drafts, planned nodes and
// planning. Such a rest has one of two purposes:
//
//   - To save time. Planning and growing trees take time themselves: several percent of a cycle
//     where the model is small and the batch is large. If speculation gains less than that, and
//     planning takes at least kLeastSaving of the time, the batch rests, at first for kFirstRest
//     cycles. Then it speculates again for at least kAttemptCycles. After each attempt without a
//     gain, it rests twice as long as before.
//   - To measure T(0), the time of a plain forward, which is the measure of everything else: while
//     speculation pays, nothing else shows it (steady_plain.h). Such a trial takes kTrialCycles. It
//     begins when T(0) is not known for the number of requests, and when kTrialShare of all time
//     has paid for what it loses.
//
// Gains are measured, not predicted: the rate of the cycles that speculate is compared with the
// rate of the last rests. The predicted time of prompts does not count, because both kinds of
// cycles have them. With many requests, nearly every cycle has a prompt. Cycles that explore do not
// count, because they lose time to learn. What speculation gains depends on the number of requests,
// so each octave of it has a state of its own. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PLANNER_REST_SCHEDULE_H_
#define BASTION_ORCHESTRATOR_PLANNER_REST_SCHEDULE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <optional>

#include "orchestrator/cost/fading_line.h"
#include "orchestrator/planner/grown_tree.h"

namespace bastion {

// A cycle that ended. Tokens are weighted.
struct EndedCycle {
  double seconds = 0;  // Without the predicted time of prompts.
  double tokens = 0;
  bool typical = true;  // False if it explored a draft.
};

// What a cycle that speculated knew about plain decoding.
struct PlainEstimate {
  double tokens = 0;            // That a plain cycle of the same batch commits.
  double seconds = 0;           // T(0), without prompts.
  bool known = true;            // BatchCost::plain_known
  double planning_seconds = 0;  // BatchCost::planning_seconds
};

class RestSchedule {
 public:
  static constexpr int kFirstRest = 32;     // Cycles.
  static constexpr int kLongestRest = 256;  // Cycles.
  static constexpr double kLeastSaving = 0.005;
  static constexpr int kFirstAttempt = 256;  // Cycles × sequences: each teaches the policies.
  static constexpr int kAttemptCycles = 8;
  static constexpr double kTrialShare = 0.003;
  static constexpr int kTrialCycles = 4;
  static constexpr int kTrialWait = 64;  // Cycles between trials that the account does not pay for.

  // Why the next cycle rests: kCost to save time, kExploration to measure T(0), or nullopt.
  // REQUIRES: sequences >= 1, here and below.
  [[nodiscard]] std::optional<BudgetReason> Reason(int sequences) const;

  // Records a cycle that rested.
  void EndRest(int sequences, const EndedCycle& cycle);
  // Records a cycle that speculated.
  void EndCycle(int sequences, const EndedCycle& cycle, const PlainEstimate& plain);

 private:
  static constexpr double kMemory = 32;  // Cycles.

  struct State {
    // Fading sums over past cycles that speculated. A gain is the difference between the tokens of
    // the cycle and of plain decoding in the same time.
    double gains = 0, squared_gains = 0, plain_tokens = 0, seconds = 0, planning_seconds = 0;
    FadingLine rest_seconds{kMemory};  // Cycles that rested, over sequences.
    int attempt = kFirstAttempt;       // Cycles × sequences before a rest may begin.
    int next_rest = kFirstRest;
    int rest = 0;            // Cycles of the current rest that are left.
    bool rest_began = true;  // The current rest had a cycle.
    bool trial = false;      // It is a trial.

    void BeginRest(int cycles, bool is_trial);
    // Multiplies all sums.
    void Scale(double factor);
    // The share of time that a cycle of plain decoding loses against speculation.
    [[nodiscard]] double LossOfPlain() const;
    // True if speculation gained more than chance explains.
    [[nodiscard]] bool Gains() const;
    // True if a rest would save time.
    [[nodiscard]] bool RestSaves() const {
      return gains < 0 && planning_seconds > kLeastSaving * seconds;
    }
  };

  [[nodiscard]] static size_t Octave(int sequences) {
    return std::bit_width(static_cast<unsigned>(sequences)) - 1;
  }
  // Counts a cycle for the trials.
  void SaveForTrial(double seconds);
  // Counts a cycle that speculated, and begins a trial if it is time.
  void TryPlain(State* state, double seconds, const PlainEstimate& plain);

  std::array<State, 31> states_{};
  int trial_wait_ = kTrialWait;  // Cycles before a trial may begin because T(0) is not known.
  double trial_account_ = 0;     // Seconds. Negative after a trial that it could not pay for.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PLANNER_REST_SCHEDULE_H_
