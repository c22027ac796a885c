// Formats the results of the checks as text. Thread-safe: no state.
#ifndef BASTION_CLIENT_EXACTNESS_REPORT_H_
#define BASTION_CLIENT_EXACTNESS_REPORT_H_

#include <optional>
#include <string>

#include "client/exactness/distribution_check.h"
#include "client/exactness/text_check.h"

namespace bastion {

// A line for each policy and batch size, then a line for each of the first 40 differences.
[[nodiscard]] std::string TextTable(const TextReport& report);

// A line for each test.
[[nodiscard]] std::string DistributionTable(const DistributionReport& report);

// "EXACT: …" or "NOT EXACT: …" and a summary of the results. `distribution` is null if that check
// did not run.
[[nodiscard]] std::string Verdict(const TextReport& texts,
                                  const std::optional<DistributionReport>& distribution);

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_REPORT_H_
