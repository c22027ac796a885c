#include "orchestrator/policy/dynatree_history.h"

#include <algorithm>

namespace bastion {
namespace {

// The limits of the authors.
constexpr int kLowestBaseDepth = 2;
constexpr double kLowestHigh = 0.5, kHighestHigh = 0.95;
constexpr double kLowestDeep = 0.3, kHighestDeep = 0.8;

}  // namespace

std::shared_ptr<DynaTreeHistory::Generation> DynaTreeHistory::Begin() {
  // A generation without a cycle says nothing.
  std::erase_if(window_, [](const auto& generation) { return generation->cycles == 0; });
  while (window_.size() > kWindow) window_.pop_front();
  if (window_.size() >= kFewest) {
    double sum = 0;
    for (const auto& generation : window_) {
      sum += static_cast<double>(generation->committed) / (generation->cycles * tree_tokens_);
    }
    const double mean = sum / static_cast<double>(window_.size());
    if (mean > kHigh) {
      levels_.base_depth = std::min(levels_.base_depth + 1, max_depth_ - 1);
      levels_.high = std::max(levels_.high - kStep, kLowestHigh);
      levels_.deep = std::max(levels_.deep - kStep, kLowestDeep);
    } else if (mean < kLow) {
      levels_.base_depth = std::max(levels_.base_depth - 1, kLowestBaseDepth);
      levels_.high = std::min(levels_.high + kStep, kHighestHigh);
      levels_.deep = std::min(levels_.deep + kStep, kHighestDeep);
    }
  }
  window_.push_back(std::make_shared<Generation>());
  return window_.back();
}

}  // namespace bastion
