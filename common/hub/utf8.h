// UTF-8 checks with Rust's standard library: no surrogates, no overlong forms, nothing above
// U+10FFFF. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_UTF8_H_
#define BASTION_COMMON_HUB_UTF8_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace bastion::hub {

// Offset of the first byte that is not UTF-8. npos if `text` is valid.
[[nodiscard]] size_t FindInvalidUtf8(std::string_view text);

// INVALID_ARGUMENT with the offset at which `text` stops being UTF-8; `what` names the text.
[[nodiscard]] absl::Status CheckUtf8(std::string_view text, std::string_view what);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_UTF8_H_
