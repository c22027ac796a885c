#include "orchestrator/planner/rest_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bastion {
namespace {

// How much of its memory a batch keeps over a rest.
constexpr double kKeptOverRest = 0.25;
// With fewer rested cycles, the prediction of T(0) is better than their mean.
constexpr double kFewestRests = 2;

}  // namespace

double RestSchedule::State::LossOfPlain() const {
  // At least a little, so that trials do not follow each other.
  constexpr double kLeast = 0.05;
  if (gains <= 0) return kLeast;
  return std::max(kLeast, gains / (plain_tokens + gains));
}

void RestSchedule::State::BeginRest(int cycles, bool is_trial) {
  rest = cycles;
  rest_began = false;
  trial = is_trial;
}

void RestSchedule::State::Scale(double factor) {
  for (double* sum : {&gains, &squared_gains, &plain_tokens, &seconds, &planning_seconds}) {
    *sum *= factor;
  }
}

bool RestSchedule::State::Gains() const { return gains > std::sqrt(squared_gains); }

std::optional<BudgetReason> RestSchedule::Reason(int sequences) const {
  const State& state = states_[Octave(sequences)];
  if (state.rest == 0) return std::nullopt;
  return state.trial ? BudgetReason::kExploration : BudgetReason::kCost;
}

void RestSchedule::EndRest(int sequences, const EndedCycle& cycle) {
  State& state = states_[Octave(sequences)];
  SaveForTrial(cycle.seconds);
  --state.rest;
  // The first plain forward after larger ones is not typical.
  if (!std::exchange(state.rest_began, true) || !cycle.typical) return;
  state.rest_seconds.Observe(sequences, cycle.seconds);
}

void RestSchedule::EndCycle(int sequences, const EndedCycle& cycle, const PlainEstimate& plain) {
  State& state = states_[Octave(sequences)];
  state.attempt = std::max(0, state.attempt - sequences);
  if (cycle.typical) {
    const double seconds = state.rest_seconds.points() >= kFewestRests
                               ? std::max(state.rest_seconds.At(sequences), 0.5 * plain.seconds)
                               : plain.seconds;
    const double plain_tokens = plain.tokens * cycle.seconds / seconds;
    const double gain = cycle.tokens - plain_tokens;
    state.Scale(1 - 1 / kMemory);
    state.gains += gain;
    state.squared_gains += gain * gain;
    state.plain_tokens += plain_tokens;
    state.seconds += cycle.seconds;
    state.planning_seconds += plain.planning_seconds;
  }
  if (state.Gains()) state.next_rest = kFirstRest;
  if (state.attempt > 0 || !state.RestSaves()) {
    TryPlain(&state, cycle.seconds, plain);
    return;
  }
  state.BeginRest(state.next_rest, /*is_trial=*/false);
  state.next_rest = std::min(2 * state.next_rest, kLongestRest);
  state.attempt = kAttemptCycles * sequences;
  state.Scale(kKeptOverRest);
}

void RestSchedule::SaveForTrial(double seconds) {
  trial_account_ += kTrialShare * seconds;
  trial_wait_ = std::max(0, trial_wait_ - 1);
}

void RestSchedule::TryPlain(State* state, double seconds, const PlainEstimate& plain) {
  const double price = kTrialCycles * plain.seconds * state->LossOfPlain();
  SaveForTrial(seconds);
  trial_account_ = std::min(trial_account_, price);
  if (trial_account_ < price && (plain.known || trial_wait_ > 0)) return;
  state->BeginRest(kTrialCycles, /*is_trial=*/true);
  trial_account_ -= price;
  trial_wait_ = kTrialWait;
}

}  // namespace bastion
