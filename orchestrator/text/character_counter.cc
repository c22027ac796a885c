#include "orchestrator/text/character_counter.h"

namespace bastion {
namespace {

constexpr uint8_t kLeastContinuation = 0x80, kMostContinuation = 0xBF;

}  // namespace

int64_t CharacterCounter::Add(std::string_view bytes) {
  int64_t start = complete_;
  if (!bytes.empty() && missing_ > 0 && !Continues(static_cast<uint8_t>(bytes[0]))) ++start;
  for (const char byte : bytes) AddByte(static_cast<uint8_t>(byte));
  return start;
}

void CharacterCounter::AddByte(uint8_t byte) {
  if (Continues(byte)) {
    if (--missing_ == 0) ++complete_;
    least_ = kLeastContinuation;
    most_ = kMostContinuation;
    return;
  }
  if (missing_ > 0) ++complete_;  // The incomplete character becomes U+FFFD.
  missing_ = byte < 0xC2 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : byte < 0xF5 ? 3 : 0;
  if (missing_ == 0) ++complete_;  // ASCII, or a byte that begins no character.
  // The first continuation excludes overlong forms, surrogates, and codes above U+10FFFF.
  least_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : kLeastContinuation;
  most_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : kMostContinuation;
}

}  // namespace bastion
