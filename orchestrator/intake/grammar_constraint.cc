#include "orchestrator/intake/grammar_constraint.h"

#include <malloc.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/cores.h"
#include "common/base/status.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {
namespace {

constexpr size_t kMaxCompilerComplaintBytes = 512;
// A compile that fails after this time may have taken much memory.
constexpr absl::Duration kLongCompile = absl::Milliseconds(50);

// How many constraints are compiled at a time. At least two, so that one that takes long does not
// hold up all others. Each may take 32 MiB.
int MaxCompiles() { return std::clamp(static_cast<int>(UsableCores().size()) / 2, 2, 4); }

// A language of a request.
struct LanguageText {
  const char* field;
  hub::GrammarKind kind;
  std::string text;
};

// See hub::GrammarKind::kSchemaGrammar.
std::string GrammarText(const v1::SchemaGrammar& grammar) {
  nlohmann::json schemas = nlohmann::json::object();
  for (const auto& [name, schema] : grammar.json_schemas()) schemas[name] = schema;
  return nlohmann::json{{"grammar", grammar.grammar()}, {"schemas", std::move(schemas)}}.dump(
      -1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

// REQUIRES: there is one.
LanguageText LanguageOf(const v1::Constraint& constraint) {
  switch (constraint.language_case()) {
    case v1::Constraint::kJsonSchema:
      return {"constraint.json_schema", hub::GrammarKind::kJsonSchema, constraint.json_schema()};
    case v1::Constraint::kRegex:
      return {"constraint.regex", hub::GrammarKind::kRegex, constraint.regex()};
    case v1::Constraint::kSchemaGrammar:
      return {"constraint.schema_grammar", hub::GrammarKind::kSchemaGrammar,
              GrammarText(constraint.schema_grammar())};
    default:
      return {"constraint.grammar", hub::GrammarKind::kLark, constraint.grammar()};
  }
}

// What a client may know of an error.
absl::Status ErrorFor(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status) && !absl::IsDeadlineExceeded(status)) return status;
  return FieldError("constraint", absl::StrCat("is too complex: ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenConstraint>> GrammarConstraint::Copy() const {
  ASSIGN_OR_RETURN(hub::GrammarState copy, state_.Copy());
  return std::make_unique<GrammarConstraint>(std::move(copy), tokenizer_);
}

absl::StatusOr<TokenSet> GrammarConstraint::Allowed() {
  absl::StatusOr<TokenSet> allowed = state_.Allowed(limit_);
  if (absl::IsDeadlineExceeded(allowed.status())) return allowed;
  if (!allowed.ok()) return ErrorFor(allowed.status());
  return allowed;
}

std::vector<TokenId> GrammarConstraint::Forced() {
  const absl::StatusOr<std::string> text = state_.Forced();
  if (!text.ok() || text->empty()) return {};
  return tokenizer_->Encode(*text, /*add_special=*/false).value_or(std::vector<TokenId>());
}

absl::Status GrammarConstraint::Push(TokenId token) {
  const absl::Status pushed = state_.Push(token, limit_);
  return pushed.ok() ? pushed : ErrorFor(pushed);
}

const absl::StatusOr<hub::GrammarCompiler>& ConstraintCompiler::grammars() {
  absl::call_once(once_, [this] {
    const hub::ModelConfig& config = model_->config;
    grammars_.emplace(hub::GrammarCompiler::Create(model_->tokenizer, config.dims.vocabulary,
                                                   config.special.eos));
  });
  return *grammars_;
}

ConstraintCompiler::ConstraintCompiler(const ServedModel* model)
    : model_(model), compiling_(MaxCompiles(), std::numeric_limits<size_t>::max()) {}

absl::StatusOr<std::shared_ptr<const TokenConstraint>> ConstraintCompiler::Compile(
    const v1::GenerateRequest& request, absl::string_view cache_salt,
    const ConstraintCaller& caller, ReasoningStart reasoning) {
  const v1::Constraint& constraint = request.constraint();
  if (constraint.language_case() == v1::Constraint::LANGUAGE_NOT_SET) {
    return std::shared_ptr<const TokenConstraint>();
  }
  if (request.stop().min_tokens() > 0 || request.stop().ignore_eos()) {
    return FieldError("constraint", "cannot be combined with min_tokens or ignore_eos");
  }
  if (constraint.after_reasoning() && (constraint.has_regex() || constraint.has_grammar())) {
    return FieldError("constraint.after_reasoning", "cannot be combined with regex or grammar");
  }
  LanguageText language = LanguageOf(constraint);
  if (constraint.after_reasoning() && reasoning != ReasoningStart::kNone) {
    language.kind = hub::GrammarKind::kSchemaGrammar;
    language.text = GrammarText(AfterReasoning(constraint, reasoning));
  }
  const std::string key =
      absl::StrCat(cache_salt.size(), ":", cache_salt, language.field, ":", language.text);
  const ConstraintCache::Owner owner = {caller.client, caller.origin};
  ASSIGN_OR_RETURN(auto cached, cache_.Find(key, owner));
  if (cached != nullptr) return cached;
  ASSIGN_OR_RETURN(const WorkLimit::Permit permit,
                   compiling_.Wait(/*bytes=*/0, caller.deadline, caller.is_canceled,
                                   {caller.origin, caller.client}));
  const auto& compiler = grammars();
  if (!compiler.ok()) return FieldError("constraint", compiler.status().message());
  const auto is_over = [&] {
    return Clock::Real().Now() >= caller.deadline || (caller.is_canceled && caller.is_canceled());
  };
  return cache_.Get(key, owner, [&]() -> absl::StatusOr<ConstraintCache::Constraint> {
    StopWatch watch(Clock::Real());
    absl::StatusOr<hub::GrammarState> state =
        compiler->Compile(language.kind, language.text, is_over);
    if (state.ok()) {
      return std::make_shared<GrammarConstraint>(*std::move(state), &model_->tokenizer);
    }
    // The allocator would keep the memory for the next thread that compiles.
    if (watch.Lap() > kLongCompile) malloc_trim(0);
    if (absl::IsCancelled(state.status())) {
      return Clock::Real().Now() >= caller.deadline ? LiveRequest::DeadlineError()
                                                    : LiveRequest::CanceledError();
    }
    return FieldError(language.field,
                      ShortenedToBytes(state.status().message(), kMaxCompilerComplaintBytes));
  });
}

}  // namespace bastion
