// CharacterCounter: counts the characters of a text whose bytes arrive in pieces, also in the
// middle of characters. Bytes that cannot be part of a character count as the U+FFFD that the
// detokenizer puts in their place. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TEXT_CHARACTER_COUNTER_H_
#define BASTION_ORCHESTRATOR_TEXT_CHARACTER_COUNTER_H_

#include <cstdint>
#include <string_view>

namespace bastion {

class CharacterCounter {
 public:
  // Adds `bytes` and returns the index of the character in which they begin. Empty bytes begin
  // where the text ends.
  int64_t Add(std::string_view bytes);

 private:
  void AddByte(uint8_t byte);
  [[nodiscard]] bool Continues(uint8_t byte) const {
    return missing_ > 0 && byte >= least_ && byte <= most_;
  }

  int64_t complete_ = 0;          // Characters that are complete.
  int missing_ = 0;               // Bytes that the last character still needs.
  uint8_t least_ = 0, most_ = 0;  // The range of the next one of them.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TEXT_CHARACTER_COUNTER_H_
