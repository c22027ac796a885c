// Formats the results of the checks as text. Thread-safe: no state.
#ifndef BASTION_TOOLS_EXACTNESS_REPORT_H_
#define BASTION_TOOLS_EXACTNESS_REPORT_H_

#include <optional>
#include <string>

#include "tools/exactness/distribution_check.h"
#include "tools/exactness/text_check.h"

namespace bastion {

// Returns a line for each policy and batch size, then a line for each of the first 40 differences.
[[nodiscard]] std::string TextTable(const TextReport& report);

// Returns a line for each test.
[[nodiscard]] std::string DistributionTable(const DistributionReport& report);

// Returns "EXACT: …" or "NOT EXACT: …" with a summary of the results. `distribution` is empty if
// the distribution check did not run.
[[nodiscard]] std::string Verdict(const TextReport& texts,
                                  const std::optional<DistributionReport>& distribution);

}  // namespace bastion

#endif  // BASTION_TOOLS_EXACTNESS_REPORT_H_
