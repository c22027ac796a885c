// What people read of the checks.
#ifndef BASTION_CLIENT_EXACTNESS_REPORT_H_
#define BASTION_CLIENT_EXACTNESS_REPORT_H_

#include <optional>
#include <string>

#include "client/exactness/distribution_check.h"
#include "client/exactness/text_check.h"

namespace bastion {

// A line for each policy and batch size, then one for each difference (the first 40 of them).
[[nodiscard]] std::string TextTable(const TextReport& report);

// A line for each test.
[[nodiscard]] std::string DistributionTable(const DistributionReport& report);

// "EXACT: …" or "NOT EXACT: …" with what was found. `distribution` is absent where that check could
// not be made.
[[nodiscard]] std::string Verdict(const TextReport& texts,
                                  const std::optional<DistributionReport>& distribution);

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_REPORT_H_
