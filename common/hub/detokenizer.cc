#include "common/hub/detokenizer.h"

#include <vector>

#include "common/base/check.h"
#include "common/hub/ffi.h"
#include "common/hub/rust_boundary.h"

namespace bastion::hub {

void Detokenizer::Free::operator()(BastionHubDetokenizer* handle) const {
  bastion_hub_detokenizer_free(handle);
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer)
    : handle_(bastion_hub_detokenizer_new(tokenizer.handle())) {}

std::string Detokenizer::Push(absl::Span<const TokenId> ids) {
  // A negative id becomes a large unsigned id, which has no token.
  const std::vector<uint32_t> unsigned_ids(ids.begin(), ids.end());
  return Take(
      bastion_hub_detokenizer_push(handle_.get(), unsigned_ids.data(), unsigned_ids.size()));
}

std::string Detokenizer::FlushIncomplete() {
  return Take(bastion_hub_detokenizer_finish(handle_.get()));
}

}  // namespace bastion::hub
