// UTF-8 as the Unicode standard's table 3-7 defines it: no surrogates, no overlong forms, nothing
// above U+10FFFF. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_UTF8_H_
#define BASTION_COMMON_HUB_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace bastion::hub {

// What stands at the front of some bytes.
struct Utf8Front {
  enum class Kind {
    kCharacter,   // A whole character of `length` bytes.
    kIncomplete,  // All the bytes there are begin a character; more are needed. Also: no bytes.
    kBroken,      // `length` bytes that no character can begin with; one U+FFFD stands for them.
  };
  Kind kind;
  size_t length;
};
[[nodiscard]] Utf8Front ReadUtf8(std::string_view bytes);

// Offset of the first byte that is not UTF-8; npos where all of it is.
[[nodiscard]] size_t FindInvalidUtf8(std::string_view text);

// INVALID_ARGUMENT with the offset where `text` is not UTF-8; `what` names it.
[[nodiscard]] absl::Status CheckUtf8(std::string_view text, std::string_view what);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_UTF8_H_
