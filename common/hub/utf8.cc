#include "common/hub/utf8.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/hub/ffi.h"
#include "common/hub/rust_boundary.h"

namespace bastion::hub {

size_t FindInvalidUtf8(std::string_view text) {
  const size_t valid = bastion_hub_utf8_valid_up_to(Borrow(text));
  return valid == text.size() ? std::string_view::npos : valid;
}

absl::Status CheckUtf8(std::string_view text, std::string_view what) {
  const size_t offset = FindInvalidUtf8(text);
  if (offset == std::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(what), " is not UTF-8 at byte ", offset, " of ", text.size()));
}

}  // namespace bastion::hub
