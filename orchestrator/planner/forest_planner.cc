#include "orchestrator/planner/forest_planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace bastion {
namespace {

constexpr int kBins = ValueHistogram::kBins;
constexpr double kLowestValue = 1e-3;  // Nodes below it are never offered.
// An explored draft loses at least this part of what it costs.
constexpr double kLeastLoss = 0.25;
constexpr int kPriceSteps = 3;  // Steps of Dinkelbach's method.

// Nodes and their summed value, over all requests, above each value: [kBins + 1]. Entry 0 is empty.
struct Totals {
  std::array<double, kBins + 1> nodes{};
  std::array<double, kBins + 1> values{};

  // Adds `sign` times the nodes of `histogram`, which belongs to `proposal`. Their values are
  // weighted, less the price of their masks. A second costs `price` tokens.
  void Add(const DraftProposal& proposal, const ValueHistogram& histogram, double price,
           double sign) {
    const double mask = price * proposal.mask_seconds;
    const auto shift = proposal.weight == 1
                           ? 0
                           : static_cast<int>(std::round(-std::log2(proposal.weight) *
                                                         ValueHistogram::kBinsPerHalving));
    double count = 0, sum = 0;
    for (int bin = 0, from = 0; bin < kBins; ++bin) {
      for (; from < kBins && (from + shift <= bin || bin == kBins - 1); ++from) {
        count += histogram.bin(from).count;
        sum += histogram.bin(from).sum;
      }
      nodes[bin + 1] += sign * count;
      values[bin + 1] += sign * (proposal.weight * sum - mask * count);
    }
  }
};

// One node of one proposal. The greatest node has the highest value; on ties, the earliest
// proposal.
struct RankedNode {
  double value;  // Weighted, less the price of the mask.
  int proposal;
  int index;  // In the proposal.

  friend bool operator<(const RankedNode& a, const RankedNode& b) {
    return a.value != b.value ? a.value < b.value : a.proposal > b.proposal;
  }
};

// The `max_nodes` best nodes of all proposals, best first. A second costs `price` tokens.
std::vector<RankedNode> RankNodes(absl::Span<const TreeProposal> proposals, int max_nodes,
                                  double price) {
  std::vector<RankedNode> ranked, heap;  // The heap holds the next node of each proposal.
  const auto push = [&](int proposal, int index) {
    const TreeProposal& from = proposals[proposal];
    if (index == static_cast<int>(from.values.size())) return;
    heap.push_back({from.weight * from.values[index] - price * from.mask_seconds, proposal, index});
    std::push_heap(heap.begin(), heap.end());
  };
  for (int proposal = 0; proposal < static_cast<int>(proposals.size()); ++proposal)
    push(proposal, 0);
  while (!heap.empty() && static_cast<int>(ranked.size()) < max_nodes) {
    std::pop_heap(heap.begin(), heap.end());
    ranked.push_back(heap.back());
    heap.pop_back();
    push(ranked.back().proposal, ranked.back().index + 1);
  }
  return ranked;
}

// What a choice brings and takes.
struct Ratio {
  double tokens;
  double seconds;
  [[nodiscard]] double Surplus(double price) const { return tokens - price * seconds; }
};

}  // namespace

void ForestPlanner::Begin(BatchCost cost, double live) {
  cost_ = std::move(cost);
  live_ = live;
  price_ = fixed_price_ > 0 ? fixed_price_ : PlainRate() * Speedup() * cost_.waiting_factor;
  planned_seconds_ = cost_.verify[0];
  planned_nodes_ = 0;
  planned_drafts_ = 0;
  catch_up_seconds_ = 0;
  batch_draft_seconds_ = cost_.draft.back();
  explored_ = false;
  min_values_ = cost_.LowestNodeSeconds();
  for (double& value : min_values_) value = std::clamp(price_ * value, kLowestValue, 1.0);
  if (min_values_.empty()) min_values_ = {1};
}

DraftPlan ForestPlanner::ChooseDrafts(absl::Span<const DraftProposal> proposals) {
  const auto count = static_cast<int>(proposals.size());
  DraftPlan plan;
  plan.drafts.assign(count, false);
  if (count == 0) return plan;
  const std::vector<double> shares = SharesOf(proposals);
  std::vector<double> gains(count);
  double most = 0;  // The surplus of all nodes cannot exceed this.
  for (int i = 0; i < count; ++i) {
    const DraftProposal& proposal = proposals[i];
    const double price = LowestPrice(proposal.mask_seconds) / proposal.weight;
    const double surplus = proposal.weight * proposal.without.Surplus(price);
    most += surplus;
    gains[i] = proposal.weight * proposal.with.Surplus(price) - surplus - price_ * shares[i];
    batch_draft_seconds_ += proposal.catch_up_seconds;
  }
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&gains](int a, int b) { return gains[a] != gains[b] ? gains[a] > gains[b] : a < b; });
  // No node costs less than assumed for the gains. If not even they pay for a draft, nothing does.
  bool may_pay = !knows_price();
  for (int m = 1; m <= count && !may_pay; ++m) {
    most += gains[order[m - 1]];
    may_pay = most > price_ * cost_.draft[m];
  }
  if (may_pay && !PaysInTheLongRun(proposals, order)) {
    std::erase_if(order, [&proposals](int i) { return proposals[i].first; });
  }
  const int drafted = may_pay ? BestDrafts(proposals, order, shares).drafts : 0;
  for (int m = 0; m < drafted; ++m) {
    plan.drafts[order[m]] = true;
    catch_up_seconds_ += proposals[order[m]].catch_up_seconds;
  }
  ObserveDraftRate(proposals, gains);
  Explore(proposals, gains, drafted, &plan);
  return plan;
}

bool ForestPlanner::PaysInTheLongRun(absl::Span<const DraftProposal> proposals,
                                     absl::Span<const int> order) {
  const auto is_first = [](const DraftProposal& proposal) { return proposal.first; };
  // Without both kinds of requests, what counts now counts in the long run.
  if (std::none_of(proposals.begin(), proposals.end(), is_first)) return true;
  if (std::all_of(proposals.begin(), proposals.end(), is_first)) return true;
  std::vector<double> shares;
  for (const DraftProposal& proposal : proposals) {
    shares.push_back(proposal.later_seconds +
                     proposal.prompt_seconds / ExpectedDrafts(proposal, proposal.answer_tokens));
  }
  const BestPlan best = BestDrafts(proposals, order, shares);
  double seconds = cost_.draft[best.drafts];
  for (int m = 0; m < best.drafts; ++m) seconds += shares[order[m]];
  return best.surplus > (kMargin - 1) * price_ * seconds;
}

ForestPlanner::BestPlan ForestPlanner::BestDrafts(absl::Span<const DraftProposal> proposals,
                                                  absl::Span<const int> order,
                                                  absl::Span<const double> shares) {
  const auto count = static_cast<int>(order.size());
  // totals[m]: the first m requests of `order` draft. catch_up[m]: the time beyond D(m) that counts
  // for these drafts; their drafts really take catch_up_now[m].
  std::vector<Totals> totals(count + 1);
  std::vector<double> catch_up(count + 1, 0.0), catch_up_now(count + 1, 0.0);
  for (const DraftProposal& proposal : proposals)
    totals[0].Add(proposal, proposal.without, price_, 1);
  for (int m = 1; m <= count; ++m) {
    const DraftProposal& proposal = proposals[order[m - 1]];
    totals[m] = totals[m - 1];
    totals[m].Add(proposal, proposal.without, price_, -1);
    totals[m].Add(proposal, proposal.with, price_, 1);
    catch_up[m] = catch_up[m - 1] + shares[order[m - 1]];
    catch_up_now[m] = catch_up_now[m - 1] + proposal.catch_up_seconds;
  }
  const double max_nodes = cost_.max_nodes();
  BestPlan plan;
  // Without a known speedup, the price is the best ratio of this cycle (Dinkelbach's method).
  for (int step = 0; step < (knows_price() ? 1 : kPriceSteps); ++step) {
    Ratio best = {live_, cost_.verify[0]};
    plan = {};
    for (int m = 0; m <= count; ++m) {
      for (int bin = 0; bin <= kBins; ++bin) {
        const double nodes = std::max(0.0, totals[m].nodes[bin]);
        if (nodes > max_nodes) break;
        const double seconds = cost_.Seconds(m, nodes);
        if (seconds + catch_up_now[m] > cost_.max_seconds) break;
        const Ratio ratio = {live_ + totals[m].values[bin], seconds + catch_up[m]};
        const double surplus = ratio.Surplus(price_) - best.Surplus(price_);
        if (surplus <= 0) continue;
        best = ratio;
        plan = {m, plan.surplus + surplus};
      }
    }
    if (!knows_price()) {
      price_ = std::max(PlainRate(), best.tokens / (best.seconds - cost_.prompt_seconds));
    }
  }
  return plan;
}

double ForestPlanner::ExpectedDrafts(const DraftProposal& proposal, int tokens) const {
  const double rate = draft_rate_.bottom > 0 ? draft_rate_.value() : 1.0;
  const double verified = verified_.bottom > 0 ? verified_.value() : 1.0;
  const double tokens_per_cycle =
      1 + verified * (rate * proposal.with.Sum() + (1 - rate) * proposal.without.Sum());
  return std::max(1.0, rate * tokens / tokens_per_cycle);
}

std::vector<double> ForestPlanner::SharesOf(absl::Span<const DraftProposal> proposals) const {
  std::vector<double> shares;
  for (const DraftProposal& proposal : proposals) {
    shares.push_back(proposal.later_seconds +
                     proposal.catch_up_seconds / ExpectedDrafts(proposal, proposal.tokens_left));
  }
  return shares;
}

void ForestPlanner::ObserveDraftRate(absl::Span<const DraftProposal> proposals,
                                     absl::Span<const double> gains) {
  const auto count = static_cast<int>(proposals.size());
  const double price = price_ * cost_.draft[count] / count;
  int drafts = 0, requests = 0;
  for (int i = 0; i < count; ++i) {
    if (proposals[i].first) continue;
    ++requests;
    drafts += gains[i] > price ? 1 : 0;
  }
  if (requests > 0) draft_rate_.Add(drafts, requests, kMemory);
}

std::vector<bool> ForestPlanner::ChooseRounds(absl::Span<const RoundProposal> proposals,
                                              const DraftCost& costs) {
  std::vector<double> gains;
  for (const RoundProposal& proposal : proposals) {
    const double price = LowestPrice(proposal.mask_seconds) / proposal.weight;
    gains.push_back(proposal.weight *
                    (proposal.with.Surplus(price) - proposal.without.Surplus(price)));
  }
  std::vector<int> order(proposals.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return gains[a] * proposals[b].paths > gains[b] * proposals[a].paths;
  });
  double gain = 0, best_surplus = 0, best_seconds = 0;
  size_t chosen = 0;
  int paths = 0;
  const double others = cost_.verify[0] + catch_up_seconds_;
  for (size_t n = 0; n < order.size(); ++n) {
    gain += gains[order[n]];
    paths += proposals[order[n]].paths;
    const double seconds = absl::ToDoubleSeconds(costs.Predict(paths));
    if (others + seconds > cost_.max_seconds) break;
    if (gain - price_ * seconds <= best_surplus) continue;
    best_surplus = gain - price_ * seconds;
    best_seconds = seconds;
    chosen = n + 1;
  }
  catch_up_seconds_ += best_seconds;
  std::vector<bool> rounds(proposals.size(), false);
  for (size_t n = 0; n < chosen; ++n) rounds[order[n]] = true;
  return rounds;
}

void ForestPlanner::Explore(absl::Span<const DraftProposal> proposals,
                            absl::Span<const double> gains, int drafted, DraftPlan* plan) {
  for (; drafted < static_cast<int>(proposals.size()); ++drafted) {
    const double draft = cost_.draft[drafted + 1] - cost_.draft[drafted];
    int best = -1;
    double best_price = 0;
    for (int i = 0; i < static_cast<int>(proposals.size()); ++i) {
      if (plan->drafts[i]) continue;
      const double cost = draft + proposals[i].catch_up_seconds + proposals[i].later_seconds;
      const double price = std::max(kLeastLoss * cost, cost - gains[i] / price_);
      if (best < 0 || proposals[i].cycles_since_draft * best_price >
                          proposals[best].cycles_since_draft * price) {
        best = i;
        best_price = price;
      }
    }
    if (exploration_ < best_price) return;
    const double longest = cost_.Seconds(drafted + 1, 0) + catch_up_seconds_;
    if (longest + proposals[best].catch_up_seconds > cost_.max_seconds) return;
    exploration_ -= best_price;
    catch_up_seconds_ += proposals[best].catch_up_seconds;
    plan->drafts[best] = true;
    plan->explored.push_back(best);
    explored_ = true;
  }
}

void ForestPlanner::EndRest(int sequences, const EndedCycle& cycle) {
  SaveForExploration(cycle.seconds);
  rests_.EndRest(sequences, cycle);
}

void ForestPlanner::EndCycle(double seconds, double tokens) {
  SaveForExploration(seconds);
  speedup_.Add(tokens, PlainRate() * (planned_seconds_ - cost_.prompt_seconds), kMemory);
  rests_.EndCycle(
      cost_.sequences,
      {.seconds = seconds - cost_.prompt_seconds, .tokens = tokens, .typical = !explored_},
      {.tokens = live_,
       .seconds = cost_.verify[0] - cost_.prompt_seconds,
       .known = cost_.plain_known,
       .planning_seconds = cost_.planning_seconds});
}

NodePlan ForestPlanner::ChooseNodes(absl::Span<const TreeProposal> proposals, int drafted) {
  const std::vector<RankedNode> ranked = RankNodes(proposals, cost_.max_nodes(), price_);
  const std::vector<double>& verify = cost_.VerifyWith(drafted);
  // With the first n ranked nodes: tokens[n], and the seconds of the masks and the verify forward.
  std::vector<double> tokens, seconds;
  tokens.reserve(ranked.size() + 1);
  seconds.reserve(ranked.size() + 1);
  tokens.push_back(live_);
  seconds.push_back(verify[0]);
  double mask_seconds = 0;
  for (const auto& [value, proposal, index] : ranked) {
    tokens.push_back(tokens.back() +
                     proposals[proposal].weight * proposals[proposal].values[index]);
    mask_seconds += proposals[proposal].mask_seconds;
    seconds.push_back(verify[seconds.size()] + mask_seconds);
  }
  const double spent = cost_.draft[drafted];
  if (!knows_price()) {
    for (size_t n = 0; n < tokens.size(); ++n) {
      price_ = std::max(price_, tokens[n] / (seconds[n] + spent - cost_.prompt_seconds));
    }
  }
  size_t best = 0;
  double best_surplus = tokens[0] - kMargin * price_ * seconds[0];
  for (size_t n = 1;
       n < tokens.size() && seconds[n] + spent + catch_up_seconds_ <= cost_.max_seconds; ++n) {
    const double surplus = tokens[n] - kMargin * price_ * seconds[n];
    if (surplus <= best_surplus) continue;
    best = n;
    best_surplus = surplus;
  }
  planned_seconds_ = seconds[best] + spent + catch_up_seconds_;
  planned_nodes_ = best;
  planned_drafts_ = drafted;
  NodePlan plan;
  plan.nodes.assign(proposals.size(), 0);
  for (size_t n = 0; n < best; ++n) ++plan.nodes[ranked[n].proposal];
  double offered = 0;  // Tokens.
  for (const TreeProposal& proposal : proposals) {
    for (const double value : proposal.values) offered += proposal.weight * value;
  }
  verified_.Add(tokens[best] - live_, offered, kMemory);
  for (size_t i = 0; i < proposals.size(); ++i) {
    const bool cut = plan.nodes[i] < static_cast<int>(proposals[i].values.size());
    plan.reasons.push_back(cut ? BudgetReason::kCost : proposals[i].end);
  }
  return plan;
}

int ForestPlanner::ChooseFurtherNodes(const TreeProposal& proposal) {
  const std::vector<double>& verify = cost_.VerifyWith(planned_drafts_);
  const size_t most = std::min(proposal.values.size(), verify.size() - 1 - planned_nodes_);
  size_t best = 0;
  double value = 0, best_surplus = 0, best_seconds = 0;
  for (size_t n = 1; n <= most; ++n) {
    value += proposal.weight * proposal.values[n - 1];
    const double seconds = verify[planned_nodes_ + n] - verify[planned_nodes_] +
                           static_cast<double>(n) * proposal.mask_seconds;
    if (planned_seconds_ + seconds > cost_.max_seconds) break;
    const double surplus = value - kMargin * price_ * seconds;
    if (surplus <= best_surplus) continue;
    best = n;
    best_surplus = surplus;
    best_seconds = seconds;
  }
  planned_nodes_ += best;
  planned_seconds_ += best_seconds;
  return static_cast<int>(best);
}

}  // namespace bastion
