#include "common/hub/utf8.h"

#include <algorithm>
#include <cstdint>

#include "common/base/status.h"

namespace bastion::hub {
namespace {

// An entry of table 3-7: the number of bytes of a character with this lead byte, and the valid
// range of its second byte.
struct Lead {
  size_t length;
  uint8_t second_low;
  uint8_t second_high;
};

Lead Classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Front ReadUtf8(std::string_view bytes) {
  using Kind = Utf8Front::Kind;
  if (bytes.empty()) return {Kind::kIncomplete, 0};
  const Lead lead = Classify(static_cast<uint8_t>(bytes[0]));
  if (lead.length == 0) return {Kind::kBroken, 1};
  const size_t present = std::min(lead.length, bytes.size());
  for (size_t i = 1; i < present; ++i) {
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Kind::kBroken, i};
  }
  if (present < lead.length) return {Kind::kIncomplete, present};
  return {Kind::kCharacter, lead.length};
}

size_t FindInvalidUtf8(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Front front = ReadUtf8(text.substr(offset));
    if (front.kind != Utf8Front::Kind::kCharacter) return offset;
    offset += front.length;
  }
  return std::string_view::npos;
}

absl::Status CheckUtf8(std::string_view text, std::string_view what) {
  const size_t offset = FindInvalidUtf8(text);
  if (offset == std::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(what), " is not UTF-8 at byte ", offset, " of ", text.size()));
}

}  // namespace bastion::hub
