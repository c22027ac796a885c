#include "orchestrator/text/string_matcher.h"

#include <utility>

#include "common/base/check.h"

namespace bastion {

StringMatcher::StringMatcher(std::string pattern) {
  CHECK_GE(pattern.size(), 1u);
  std::vector<uint32_t> borders(pattern.size(), 0);
  size_t border = 0;
  for (size_t i = 1; i < pattern.size(); ++i) {
    while (border > 0 && pattern[i] != pattern[border]) border = borders[border - 1];
    if (pattern[i] == pattern[border]) ++border;
    borders[i] = static_cast<uint32_t>(border);
  }
  shared_ = std::make_shared<const Shared>(Shared{std::move(pattern), std::move(borders)});
}

bool StringMatcher::Push(char byte) {
  const std::string& pattern = shared_->pattern;
  while (begun_ > 0 && pattern[begun_] != byte) begun_ = shared_->borders[begun_ - 1];
  if (pattern[begun_] == byte) ++begun_;
  if (begun_ < pattern.size()) return false;
  begun_ = shared_->borders[begun_ - 1];
  return true;
}

}  // namespace bastion
