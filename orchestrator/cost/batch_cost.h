// BatchCost: what a cycle of one batch costs, by the number of nodes to verify and of requests to
// draft for. Plain data: the planner's view of the cost model in one cycle.
#ifndef BASTION_ORCHESTRATOR_COST_BATCH_COST_H_
#define BASTION_ORCHESTRATOR_COST_BATCH_COST_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace bastion {

struct BatchCost {
  // T(0), T(1), …: seconds of a cycle without drafts that verifies all rows that are certain
  // (roots, prompt tokens, trees of named size) and n further nodes. Transfer and commit included,
  // planning not. Never decreases. At least one element.
  std::vector<double> verify;
  // The same for a cycle with drafts. A draft evicts weights of the target from the caches, so the
  // verify after it may be slower, never faster.
  std::vector<double> verify_after_draft;
  // D(0) = 0, D(1), …: seconds to draft for m requests.
  std::vector<double> draft;
  int sequences = 1;
  // True if T(0) was measured while batches of about this size were decoded without speculation.
  bool plain_known = true;
  // Planning and growing trees take this time in addition. Plain decoding does not need it.
  double planning_seconds = 0;
  // The part of T(0) that the prompt tokens take.
  double prompt_seconds = 0;
  // What plain decoding would commit per second if the requests whose prompts are not processed yet
  // decoded too, relative to the requests that decode. At least 1.
  double waiting_factor = 1;
  // The cycle must not take longer than this if it can be avoided.
  double max_seconds = std::numeric_limits<double>::infinity();

  [[nodiscard]] int max_nodes() const { return static_cast<int>(verify.size()) - 1; }
  // T(0), T(1), … of a cycle that drafts for `drafts` requests.
  [[nodiscard]] const std::vector<double>& VerifyWith(int drafts) const {
    return drafts > 0 ? verify_after_draft : verify;
  }
  // A cycle that drafts for `drafts` requests and verifies a mean number of nodes, which may be a
  // fraction. REQUIRES: 0 <= nodes <= max_nodes().
  [[nodiscard]] double Seconds(int drafts, double nodes) const {
    const std::vector<double>& curve = VerifyWith(drafts);
    const auto low = std::min(static_cast<size_t>(nodes), curve.size() - 1);
    const size_t high = std::min(low + 1, curve.size() - 1);
    return draft[drafts] + curve[low] +
           (nodes - static_cast<double>(low)) * (curve[high] - curve[low]);
  }
  // [max_nodes] For each n: the lowest cost per node, in seconds, of any number of nodes added to
  // the first n. This is the first slope of the largest convex curve below the costs from n on.
  //
  // With several sequences, the node may come after any number of nodes of others, where nodes may
  // be cheaper. One flat place anywhere in a measured curve would make all nodes look free. So the
  // cost is at least half of the slope of the largest convex curve below all costs: a node below
  // that gains little even where it is free.
  [[nodiscard]] std::vector<double> LowestNodeSeconds() const {
    const auto slope = [this](int from, int to) {
      return (verify[to] - verify[from]) / (to - from);
    };
    std::vector<double> seconds(max_nodes());
    std::vector<int> corners = {max_nodes()};  // Corners of the convex curve, from right to left.
    for (int nodes = max_nodes() - 1; nodes >= 0; --nodes) {
      while (corners.size() >= 2 &&
             slope(nodes, corners.back()) >= slope(corners.back(), corners[corners.size() - 2])) {
        corners.pop_back();
      }
      seconds[nodes] = slope(nodes, corners.back());
      corners.push_back(nodes);
    }
    if (sequences == 1) return seconds;
    for (int n = max_nodes() - 2; n >= 0; --n) seconds[n] = std::min(seconds[n], seconds[n + 1]);
    for (size_t i = corners.size(); i-- > 1;) {
      const double least = 0.5 * slope(corners[i], corners[i - 1]);
      for (int n = corners[i]; n < corners[i - 1]; ++n) seconds[n] = std::max(seconds[n], least);
    }
    return seconds;
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_BATCH_COST_H_
