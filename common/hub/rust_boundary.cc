#include "common/hub/rust_boundary.h"

namespace bastion::hub {

BastionHubBytes Borrow(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

absl::Status Take(BastionHubStatus status) {
  const std::string message = Take(status.message);
  return absl::Status(static_cast<absl::StatusCode>(status.code), message);
}

std::string Take(BastionHubText text) {
  std::string copy(reinterpret_cast<const char*>(text.data), text.size);
  bastion_hub_text_free(text);
  return copy;
}

std::vector<TokenId> Take(BastionHubIds ids) {
  std::vector<TokenId> copy(ids.data, ids.data + ids.size);
  bastion_hub_ids_free(ids);
  return copy;
}

}  // namespace bastion::hub
