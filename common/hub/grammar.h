// Grammars that limit the text of an answer: JSON schemas, regular expressions and Lark grammars,
// with llguidance. GrammarCompiler compiles them, GrammarState knows what a text has matched and
// which tokens may follow. The memory and the CPU time of all of it are limited
// (rust/src/budget.rs).
#ifndef BASTION_COMMON_HUB_GRAMMAR_H_
#define BASTION_COMMON_HUB_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hub/tokenizer.h"
#include "common/stages/token_set.h"

struct BastionHubGrammarCompiler;
struct BastionHubGrammarState;

namespace bastion::hub {

// kSchemaGrammar is a JSON object: {"grammar": a Lark grammar, "schemas": {its further rules: JSON
// schemas, as texts}}.
enum class GrammarKind : uint32_t { kJsonSchema = 0, kRegex = 1, kLark = 2, kSchemaGrammar = 3 };

// Thread-compatible.
class GrammarState {
 public:
  // The same state, independent of this one.
  [[nodiscard]] absl::StatusOr<GrammarState> Copy() const;

  // The tokens that may follow, the end tokens included. RESOURCE_EXHAUSTED if the grammar is too
  // complex to find them, DEADLINE_EXCEEDED if that takes more CPU time than `limit`. After an
  // error, this object must not be used. Every state that is not complete() allows at least one
  // token.
  [[nodiscard]] absl::StatusOr<TokenSet> Allowed(absl::Duration limit = absl::InfiniteDuration());
  // The text that must follow, or its first 256 bytes; less if finding it takes more than 1 ms.
  // UTF-8. Empty inside a character.
  [[nodiscard]] absl::StatusOr<std::string> Forced();
  // Appends a token. INVALID_ARGUMENT if the grammar does not allow it; other errors as above.
  // REQUIRES: it is no end token.
  [[nodiscard]] absl::Status Push(TokenId token, absl::Duration limit = absl::InfiniteDuration());
  // Removes the last `tokens` tokens.
  [[nodiscard]] absl::Status Pop(int tokens);
  // True if only an end token may follow.
  [[nodiscard]] bool complete() const;
  // The memory that it takes, with the compiled grammar.
  [[nodiscard]] size_t bytes() const;

 private:
  friend class GrammarCompiler;
  struct Free {
    void operator()(BastionHubGrammarState* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubGrammarState, Free>;
  GrammarState(Handle handle, int vocabulary)
      : handle_(std::move(handle)), vocabulary_(vocabulary) {}

  Handle handle_;
  int vocabulary_;
};

// Thread-safe: immutable after Create.
class GrammarCompiler {
 public:
  // `vocabulary` is that of the model. `ends` are the tokens that end an answer. INVALID_ARGUMENT
  // if there are none.
  [[nodiscard]] static absl::StatusOr<GrammarCompiler> Create(const Tokenizer& tokenizer,
                                                              int vocabulary,
                                                              absl::Span<const TokenId> ends);

  // The state before the first token. INVALID_ARGUMENT, with the place if there is one, for a text
  // that is no such grammar, that is too large or takes too long, or that nothing matches.
  // CANCELLED soon after `is_canceled` returns true. It may be null; other threads may call it.
  [[nodiscard]] absl::StatusOr<GrammarState> Compile(
      GrammarKind kind, std::string_view text,
      const std::function<bool()>& is_canceled = nullptr) const;

 private:
  struct Free {
    void operator()(BastionHubGrammarCompiler* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubGrammarCompiler, Free>;
  GrammarCompiler(Handle handle, int vocabulary)
      : handle_(std::move(handle)), vocabulary_(vocabulary) {}

  Handle handle_;
  int vocabulary_;
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_GRAMMAR_H_
