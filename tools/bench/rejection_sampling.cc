#include "tools/bench/rejection_sampling.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "orchestrator/policy/policy_kind.h"

namespace bastion {
namespace {

using nlohmann::json;

// First session id of this file. No other code of this program uses ids in this range.
constexpr uint64_t kSession = uint64_t{6} << 60;

uint64_t NextSession() {
  static uint64_t next = kSession;
  return next++;
}

// How to sample one text.
struct TextLimits {
  int tokens = 0;
  int length = 0;  // K
  const std::vector<TokenId>* stop_tokens = nullptr;
};

absl::Status SampleText(const TextLimits& limits, EngineChain& chain, RejectionSampler& sampler,
                        ChainSums* sampled) {
  const auto stops = [&](TokenId token) {
    return std::count(limits.stop_tokens->begin(), limits.stop_tokens->end(), token) > 0;
  };
  for (int left = limits.tokens; left > 0;) {
    // A cycle adds a token of the target, so the last cycles of policies are as short.
    const int length = std::min(limits.length, left - 1);
    if (!chain.HasRoom(length)) break;
    ASSIGN_OR_RETURN(const SampledCycle cycle, SampleCycle(length, chain, sampler));
    sampled->Add(cycle);
    chain.Commit(cycle.tokens);
    left -= cycle.committed_length();
    if (std::any_of(cycle.tokens.begin(), cycle.tokens.end(), stops)) break;
  }
  return absl::OkStatus();
}

// Decodes a measured text again. Its cycles have the drafts and the accepted tokens of the arm.
absl::Status ReplayText(const PromptMeasurement& measured, EngineChain& chain, ChainSums* keyed) {
  absl::Span<const TokenId> left = measured.output;
  for (const MeasuredCycle& cycle : measured.cycles) {
    // The end of the text may have cut the last cycle.
    SampledCycle replayed;
    const absl::Span<const TokenId> tokens = left.subspan(0, cycle.committed_length);
    replayed.tokens.assign(tokens.begin(), tokens.end());
    left.remove_prefix(tokens.size());
    std::vector<std::vector<double>> drafts;  // q of each position that the walk reached, [K, V].
    while (drafts.size() < std::min<size_t>(tokens.size(), cycle.nodes)) {
      ASSIGN_OR_RETURN(drafts.emplace_back(), chain.Draft(tokens.first(drafts.size())));
      if (!drafts.back().empty()) continue;
      drafts.pop_back();
      break;
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      ASSIGN_OR_RETURN(const std::vector<double> p, chain.Target(tokens.first(i)));
      if (i >= drafts.size()) continue;
      const bool accepted = static_cast<int>(i) < cycle.accepted;
      replayed.positions.push_back(DescribePosition(p, drafts[i], accepted));
    }
    chain.Commit(tokens);
    keyed->Add(replayed);
    keyed->committed += cycle.committed_length - static_cast<int>(tokens.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<ChainSums> ReplayArm(const RejectionSetup& setup,
                                    const std::vector<BenchPrompt>& prompts,
                                    const ChoiceParams& choice, const ArmResults& arm) {
  std::map<std::string, const BenchPrompt*> by_id;
  for (const BenchPrompt& prompt : prompts) by_id[prompt.id] = &prompt;
  ChainSums keyed;
  for (const LoadRun& run : arm.rounds) {
    for (const PromptMeasurement& measured : run.requests) {
      const std::string what = absl::StrCat(arm.policy, ", prompt ", measured.id);
      absl::StatusOr<std::unique_ptr<EngineChain>> chain = EngineChain::Open(
          setup.stages, {NextSession(), 0}, choice, by_id.at(measured.id)->tokens);
      RETURN_IF_ERROR(Annotate(chain.status(), what));
      RETURN_IF_ERROR(Annotate(ReplayText(measured, **chain, &keyed), what));
    }
  }
  return keyed;
}

json SumsJson(const ChainSums& sums) {
  json positions = json::array();
  for (const PositionSums& position : sums.positions) {
    positions.push_back({{"reached", position.reached},
                         {"accepted", position.accepted},
                         {"overlap", position.overlap},
                         {"top", position.top}});
  }
  return {
      {"cycles", sums.cycles}, {"committed", sums.committed}, {"positions", std::move(positions)}};
}

}  // namespace

void ChainSums::Add(const SampledCycle& cycle) {
  ++cycles;
  committed += cycle.committed_length();
  positions.resize(std::max(positions.size(), cycle.positions.size()));
  for (size_t i = 0; i < cycle.positions.size(); ++i) {
    PositionSums& sums = positions[i];
    ++sums.reached;
    sums.accepted += static_cast<int>(cycle.positions[i].accepted);
    sums.overlap += cycle.positions[i].overlap;
    sums.top += cycle.positions[i].top;
  }
}

json RejectionReport::Json() const {
  json all = json::array();
  for (const ChainComparison& chain : chains) {
    all.push_back({{"policy", chain.policy},
                   {"length", chain.length},
                   {"keyed", SumsJson(chain.keyed)},
                   {"sampled", SumsJson(chain.sampled)}});
  }
  return {{"device", device},
          {"target", target},
          {"drafter", drafter},
          {"settings",
           {{"temperature", settings.sampling.temperature},
            {"seed", settings.sampling.seed},
            {"top_k", settings.sampling.top_k},
            {"top_p", settings.sampling.top_p},
            {"min_p", settings.sampling.min_p},
            {"max_new_tokens", settings.max_new_tokens}}},
          {"chains", std::move(all)}};
}

absl::StatusOr<int> ChainLength(const std::string& policy, const DrafterInfo& drafter) {
  const absl::string_view text = absl::string_view(policy).substr(0, policy.find('+'));
  const size_t colon = std::min(text.find(':'), text.size());
  const absl::string_view name = text.substr(0, colon);
  int length = 0;
  if (text == "chain") return drafter.expands_nodes ? kDefaultRounds : drafter.positions;
  if ((name == "chain" || name == "linear") && colon < text.size() &&
      absl::SimpleAtoi(text.substr(colon + 1), &length) && length > 0) {
    return length;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--rejection_sampling: the policy ", policy,
                   " verifies no chain; use linear:K, chain:K or chain"));
}

absl::StatusOr<ChainSums> SampleChains(const RejectionSetup& setup,
                                       const std::vector<BenchPrompt>& prompts,
                                       const BenchSettings& settings, int length) {
  if (settings.sampling.edits_logits()) {
    return absl::InvalidArgumentError(
        "--rejection_sampling: penalties change p but not q; remove them from --sampling");
  }
  ChainSums sampled;
  RejectionSampler sampler(settings.sampling.seed);
  const TextLimits limits = {settings.max_new_tokens, length, &setup.stop_tokens};
  for (const BenchPrompt& prompt : prompts) {
    const std::string what = absl::StrCat("rejection sampling, prompt ", prompt.id);
    absl::StatusOr<std::unique_ptr<EngineChain>> chain =
        EngineChain::Open(setup.stages, {NextSession(), 0}, settings.sampling, prompt.tokens);
    RETURN_IF_ERROR(Annotate(chain.status(), what));
    RETURN_IF_ERROR(Annotate(SampleText(limits, **chain, sampler, &sampled), what));
  }
  return sampled;
}

absl::StatusOr<std::vector<ChainComparison>> CompareChains(const RejectionSetup& setup,
                                                           const std::vector<BenchPrompt>& prompts,
                                                           const BenchSettings& settings,
                                                           const ComparisonOptions& options,
                                                           const ArmFactory& make_arm) {
  ASSIGN_OR_RETURN(const DrafterInfo drafter, setup.stages.drafter->Info());
  std::vector<ChainComparison> chains;
  std::map<int, ChainSums> by_length;  // Policies with the same K share a simulation.
  for (const std::string& policy : options.policies) {
    ChainComparison& chain = chains.emplace_back();
    chain.policy = policy;
    ASSIGN_OR_RETURN(chain.length, ChainLength(policy, drafter));
    by_length.try_emplace(chain.length);
  }
  for (auto& [length, sampled] : by_length) {
    ASSIGN_OR_RETURN(sampled, SampleChains(setup, prompts, settings, length));
  }
  ASSIGN_OR_RETURN(const std::vector<LoadPlan> plans,
                   PlanLoads({.concurrency = {1}}, prompts, settings));
  ASSIGN_OR_RETURN(const std::vector<LevelResults> levels,
                   CompareLoads(plans, options, settings, make_arm));
  for (size_t i = 0; i < chains.size(); ++i) {
    ASSIGN_OR_RETURN(chains[i].keyed,
                     ReplayArm(setup, prompts, settings.sampling, levels.at(0).arms.at(i)));
    chains[i].sampled = by_length.at(chains[i].length);
  }
  return chains;
}

}  // namespace bastion
