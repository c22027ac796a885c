#include "client/ctl/printable_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace bastion {
namespace {

struct Character {
  char32_t value = 0;
  size_t bytes = 0;  // 0: the text does not begin with a character in UTF-8.
};

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// The first character of `text`. REQUIRES: text is not empty.
Character FirstCharacter(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  char32_t value = first & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(text[i])) return {};
    value = value << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (overlong || surrogate || value > 0x10FFFF) return {};
  return {value, bytes};
}

bool In(char32_t value, char32_t first, char32_t last) { return value >= first && value <= last; }

// Control characters, line separators, and characters that change the direction of text.
bool IsUnsafe(char32_t value) {
  return value < 0x20 || In(value, 0x7F, 0x9F) || value == 0x61C || In(value, 0x200E, 0x200F) ||
         In(value, 0x2028, 0x202E) || In(value, 0x2066, 0x2069);
}

// Characters without width, and those that VisibleText uses as signs.
bool IsInvisible(char32_t value) {
  return value == 0xA0 || value == 0xAD || value == 0xB7 || In(value, 0x200B, 0x200D) ||
         In(value, 0x2060, 0x206F) || In(value, 0xFE00, 0xFE0F) || value == 0xFEFF ||
         In(value, 0xE0000, 0xE0FFF);
}

void AppendEscape(char32_t value, std::string* out) {
  if (value == '\n') {
    out->append("\\n");
  } else if (value == '\r') {
    out->append("\\r");
  } else if (value == '\t') {
    out->append("\\t");
  } else if (value == '\\') {
    out->append("\\\\");
  } else if (value < 0x80) {
    absl::StrAppendFormat(out, "\\x%02x", static_cast<uint32_t>(value));
  } else {
    absl::StrAppendFormat(out, "\\u{%x}", static_cast<uint32_t>(value));
  }
}

// Appends each character of `text` with `append`, and each byte that is not UTF-8 as an escape.
template <typename Append>
std::string Escaped(absl::string_view text, const Append& append) {
  std::string out;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    const size_t bytes = std::max<size_t>(character.bytes, 1);
    if (character.bytes == 0) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint8_t>(text[0]));
    } else {
      append(character.value, text.substr(0, bytes), &out);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace

std::string VisibleText(absl::string_view text) {
  return Escaped(text, [](char32_t value, absl::string_view bytes, std::string* out) {
    if (value == ' ') {
      out->append("·");
    } else if (value == '\\' || IsUnsafe(value) || IsInvisible(value)) {
      AppendEscape(value, out);
    } else {
      out->append(bytes.data(), bytes.size());
    }
  });
}

std::string PrintableText(absl::string_view text) {
  return Escaped(text, [](char32_t value, absl::string_view bytes, std::string* out) {
    if (value != '\n' && value != '\t' && IsUnsafe(value)) {
      AppendEscape(value, out);
    } else {
      out->append(bytes.data(), bytes.size());
    }
  });
}

std::string Shortened(absl::string_view text, size_t characters) {
  size_t count = 0, last = 0;  // Characters so far, and the offset of the last one that may stay.
  for (size_t at = 0; at < text.size(); ++at) {
    if (IsContinuation(text[at])) continue;
    if (count == characters - 1) last = at;
    if (++count > characters) return std::string(text.substr(0, last)) + "…";
  }
  return std::string(text);
}

}  // namespace bastion
