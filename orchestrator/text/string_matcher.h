// StringMatcher: finds one pattern in a stream of bytes, with the algorithm of Knuth, Morris and
// Pratt. A byte costs O(1) amortized time, whatever the pattern and the text are.
//
// Copies share the pattern's table. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TEXT_STRING_MATCHER_H_
#define BASTION_ORCHESTRATOR_TEXT_STRING_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bastion {

class StringMatcher {
 public:
  // REQUIRES: `pattern` is not empty and has less than 2^32 bytes.
  explicit StringMatcher(std::string pattern);

  // Adds a byte to the text. Returns true if the text now ends with the pattern.
  bool Push(char byte);

  // The number of bytes at the end of the text that begin the pattern without completing it.
  [[nodiscard]] size_t begun() const { return begun_; }
  [[nodiscard]] const std::string& pattern() const { return shared_->pattern; }

 private:
  struct Shared {
    std::string pattern;
    // borders[i]: length of the longest proper prefix of the first i + 1 bytes of the pattern that
    // is also their suffix.
    std::vector<uint32_t> borders;
  };

  std::shared_ptr<const Shared> shared_;
  size_t begun_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TEXT_STRING_MATCHER_H_
