#include "orchestrator/text/incremental_detokenizer.h"

#include <string_view>

#include "common/hub/utf8.h"

namespace bastion {

std::string IncrementalDetokenizer::Push(absl::Span<const TokenId> ids) {
  for (const TokenId id : ids) {
    if (!skip_special_ || !tokenizer_.IsSpecial(id)) held_ += tokenizer_.Bytes(id);
  }
  using Kind = hub::Utf8Front::Kind;
  std::string text;
  std::string_view rest = held_;
  hub::Utf8Front front = hub::ReadUtf8(rest);
  while (front.kind != Kind::kIncomplete) {
    text +=
        front.kind == Kind::kCharacter ? rest.substr(0, front.length) : hub::kReplacementCharacter;
    rest.remove_prefix(front.length);
    front = hub::ReadUtf8(rest);
  }
  held_ = std::string(rest);
  return text;
}

std::string IncrementalDetokenizer::FlushIncomplete() {
  const bool broken = !held_.empty();
  held_.clear();
  return broken ? std::string(hub::kReplacementCharacter) : std::string();
}

}  // namespace bastion
