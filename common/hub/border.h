// The Rust border in C++ terms: statuses become absl::Status, memory becomes values. Internal to
// common/hub. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_BORDER_H_
#define BASTION_COMMON_HUB_BORDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/hub/ffi.h"

namespace bastion::hub {

[[nodiscard]] BastionHubBytes Borrow(std::string_view text);

// These take what Rust handed out, and free it.
[[nodiscard]] absl::Status Take(BastionHubStatus status);
[[nodiscard]] std::string Take(BastionHubText text);
[[nodiscard]] std::vector<TokenId> Take(BastionHubIds ids);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_BORDER_H_
