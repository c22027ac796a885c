#include "common/base/peer_text.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace bastion {
namespace {

constexpr absl::string_view kCut = "...";

// A character and its length in bytes; 0 if the text does not begin with valid UTF-8.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character FirstOf(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  uint32_t code = first & (0xffU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // Shorter forms are invalid.
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {code, bytes};
}

bool IsPrintable(uint32_t code) {
  const auto is_in = [code](uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  return code >= 0x20 && !is_in(0x7f, 0x9f) && code != 0x61c && !is_in(0x200e, 0x200f) &&
         !is_in(0x2028, 0x202e) && !is_in(0x2066, 0x2069) && code != 0xfeff;
}

}  // namespace

std::string PeerText(absl::string_view text, size_t max_bytes) {
  std::string result;
  size_t whole = 0;  // How much of the result remains if it is cut.
  while (!text.empty() && result.size() <= max_bytes) {
    const Character next = FirstOf(text);
    const size_t bytes = next.bytes == 0 ? 1 : next.bytes;
    if (next.bytes > 0 && IsPrintable(next.code)) {
      result.append(text.data(), bytes);
    } else {
      for (const char byte : text.substr(0, bytes)) {
        absl::StrAppendFormat(&result, "\\x%02x", static_cast<uint8_t>(byte));
      }
    }
    text.remove_prefix(bytes);
    if (result.size() + kCut.size() <= max_bytes) whole = result.size();
  }
  if (result.size() <= max_bytes) return result;
  result.resize(whole);
  result.append(kCut.data(), kCut.size());
  return result;
}

}  // namespace bastion
