#include "orchestrator/policy/rest_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bastion {
namespace {

constexpr double kMemory = 32;  // Cycles.
constexpr double kKept = 1 - 1 / kMemory;
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
  trial_account_ += kTrialShare * cycle.seconds;
  trial_wait_ = std::max(0, trial_wait_ - 1);
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
    state.Scale(kKept);
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
  state.trial = false;
  state.rest = state.next_rest;
  state.rest_began = false;
  state.next_rest = std::min(2 * state.next_rest, kLongestRest);
  state.attempt = kAttemptCycles * sequences;
  state.Scale(kKeptOverRest);
}

void RestSchedule::TryPlain(State* state, double seconds, const PlainEstimate& plain) {
  const double price = kTrialCycles * plain.seconds * state->LossOfPlain();
  trial_account_ = std::min(trial_account_ + kTrialShare * seconds, price);
  trial_wait_ = std::max(0, trial_wait_ - 1);
  if (trial_account_ < price && (plain.known || trial_wait_ > 0)) return;
  state->trial = true;
  state->rest = kTrialCycles;
  state->rest_began = false;
  trial_account_ -= price;
  trial_wait_ = kTrialWait;
}

}  // namespace bastion
