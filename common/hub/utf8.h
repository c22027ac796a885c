// UTF-8 as defined by table 3-7 of the Unicode standard: no surrogates, no overlong forms, nothing
// above U+10FFFF. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_UTF8_H_
#define BASTION_COMMON_HUB_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace bastion::hub {

// The first character, or part of one, of a byte string.
struct Utf8Front {
  enum class Kind {
    kCharacter,   // A whole character of `length` bytes.
    kIncomplete,  // All `length` bytes are the beginning of a character, or there are no bytes.
    kBroken,      // `length` bytes that cannot begin a character. One U+FFFD replaces them.
  };
  Kind kind;
  size_t length;
};
[[nodiscard]] Utf8Front ReadUtf8(std::string_view bytes);

// Offset of the first byte that is not valid UTF-8, or npos.
[[nodiscard]] size_t FindInvalidUtf8(std::string_view text);

// INVALID_ARGUMENT with the offset if `text` is not UTF-8. `what` names the text in the message.
[[nodiscard]] absl::Status CheckUtf8(std::string_view text, std::string_view what);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_UTF8_H_
