// Conversions at the boundary to Rust: BastionHubStatus to absl::Status, and Rust's memory to C++
// values. Internal to common/hub. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_RUST_BOUNDARY_H_
#define BASTION_COMMON_HUB_RUST_BOUNDARY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/hub/ffi.h"

namespace bastion::hub {

[[nodiscard]] BastionHubBytes Borrow(std::string_view text);

// Converts a value that Rust returned, and frees it.
[[nodiscard]] absl::Status Take(BastionHubStatus status);
[[nodiscard]] std::string Take(BastionHubText text);
[[nodiscard]] std::vector<TokenId> Take(BastionHubIds ids);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_RUST_BOUNDARY_H_
