// A second implementation of DynaTree's Algorithm 1 (DRAFTTREE), line by line as printed in the
// paper's Appendix D. It shares no code with orchestrator/tree.
#ifndef BASTION_TESTS_SUPPORT_DYNATREE_REFERENCE_H_
#define BASTION_TESTS_SUPPORT_DYNATREE_REFERENCE_H_

#include <functional>
#include <utility>
#include <vector>

#include "common/base/ids.h"

namespace bastion::testing {

// M_D: the most probable next tokens after the prefix and `path`, with their probabilities, best
// first.
using DraftStep =
    std::function<std::vector<std::pair<TokenId, double>>(const std::vector<TokenId>& path)>;

// The algorithm's arguments, with the paper's names.
struct DynaTreeArguments {
  int b_min, b_mid, b_max;
  double tau_l, tau_h;
  int d_0, d_max;
  double rho_stop, rho_deep, tau;
  int n_max;
};

// The nodes of T as paths, in the order in which they are added. The first one is {u_0}. `steps`
// (optional) counts the cached steps of M_D, the first run included.
[[nodiscard]] std::vector<std::vector<TokenId>> DynaTreeReference(const DraftStep& step,
                                                                  const DynaTreeArguments& args,
                                                                  int* steps = nullptr);

// A second implementation of what the authors' code grows, level by level. `phase` 1: branches by
// confidence, and d_0 levels below u_0. 2 and 3: with the dynamic depth.
[[nodiscard]] std::vector<std::vector<TokenId>> DynaTreeAuthorsReference(
    const DraftStep& step, const DynaTreeArguments& args, int phase);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_DYNATREE_REFERENCE_H_
