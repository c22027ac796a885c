#include "common/hub/grammar.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/hub/ffi.h"
#include "common/hub/rust_boundary.h"

namespace bastion::hub {
namespace {

// REQUIRES: `limit` is not negative.
uint64_t Nanoseconds(absl::Duration limit) {
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(limit));
}

bool IsCanceled(const void* is_canceled) {
  return (*static_cast<const std::function<bool()>*>(is_canceled))();
}

}  // namespace

void GrammarState::Free::operator()(BastionHubGrammarState* handle) const {
  bastion_hub_grammar_state_free(handle);
}

absl::StatusOr<GrammarState> GrammarState::Copy() const {
  BastionHubGrammarState* copy = nullptr;
  RETURN_IF_ERROR(Take(bastion_hub_grammar_state_copy(handle_.get(), &copy)));
  return GrammarState(Handle(copy), vocabulary_);
}

absl::StatusOr<TokenSet> GrammarState::Allowed(absl::Duration limit) {
  TokenSet allowed(vocabulary_);
  RETURN_IF_ERROR(Take(bastion_hub_grammar_state_allowed(handle_.get(), Nanoseconds(limit),
                                                         allowed.words().data())));
  return allowed;
}

absl::StatusOr<std::string> GrammarState::Forced() {
  BastionHubText forced;
  RETURN_IF_ERROR(Take(bastion_hub_grammar_state_forced(handle_.get(), &forced)));
  return Take(forced);
}

absl::Status GrammarState::Push(TokenId token, absl::Duration limit) {
  return Take(bastion_hub_grammar_state_push(handle_.get(), Nanoseconds(limit),
                                             static_cast<uint32_t>(token)));
}

absl::Status GrammarState::Pop(int tokens) {
  return Take(bastion_hub_grammar_state_pop(handle_.get(), static_cast<size_t>(tokens)));
}

bool GrammarState::complete() const { return bastion_hub_grammar_state_complete(handle_.get()); }

size_t GrammarState::bytes() const { return bastion_hub_grammar_state_bytes(handle_.get()); }

void GrammarCompiler::Free::operator()(BastionHubGrammarCompiler* handle) const {
  bastion_hub_grammar_compiler_free(handle);
}

absl::StatusOr<GrammarCompiler> GrammarCompiler::Create(const Tokenizer& tokenizer, int vocabulary,
                                                        absl::Span<const TokenId> ends) {
  const std::vector<uint32_t> unsigned_ends(ends.begin(), ends.end());
  BastionHubGrammarCompiler* compiler = nullptr;
  RETURN_IF_ERROR(Take(
      bastion_hub_grammar_compiler_new(tokenizer.handle(), static_cast<uint32_t>(vocabulary),
                                       unsigned_ends.data(), unsigned_ends.size(), &compiler)));
  return GrammarCompiler(Handle(compiler), vocabulary);
}

absl::StatusOr<GrammarState> GrammarCompiler::Compile(
    GrammarKind kind, std::string_view text, const std::function<bool()>& is_canceled) const {
  const BastionHubCancellation cancellation = {&IsCanceled, is_canceled ? &is_canceled : nullptr};
  BastionHubGrammarState* state = nullptr;
  RETURN_IF_ERROR(Take(bastion_hub_grammar_compile(handle_.get(), static_cast<uint32_t>(kind),
                                                   Borrow(text), cancellation, &state)));
  return GrammarState(GrammarState::Handle(state), vocabulary_);
}

}  // namespace bastion::hub
