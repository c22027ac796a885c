#include "orchestrator/openai/openai_logprobs.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hub/utf8.h"

namespace bastion {
namespace {

// E.g. " \xf0\x9f", with backslashes.
std::string Escaped(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    if (byte >= ' ' && byte <= '~') {
      text += byte;
    } else {
      absl::StrAppend(&text, "\\x", absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
    }
  }
  return text;
}

std::string IdName(TokenId token) { return absl::StrCat("token_id:", token); }

}  // namespace

std::string OpenAiLogprobs::NameOf(TokenId token) const {
  const std::string_view bytes = tokenizer_.TokenBytes(token);
  if (bytes.empty()) {
    const std::string special = tokenizer_.Decode({token}, /*skip_special=*/false).value_or("");
    return special.empty() ? IdName(token) : special;
  }
  if (hub::FindInvalidUtf8(bytes) == std::string_view::npos) return std::string(bytes);
  // The names of OpenAI's API for parts of characters.
  return absl::StrCat(kind_ == OpenAiKind::kChat ? "" : "bytes:", Escaped(bytes));
}

OpenAiLogprobs::Json OpenAiLogprobs::Add(const OutputDelta& delta) {
  for (size_t i = 0; i < delta.logprobs.size(); ++i) {
    const TokenId id = delta.tokens[i];
    waiting_.push_back({id, delta.logprobs[i], counter_.Add(tokenizer_.TokenBytes(id))});
  }
  sent_.Add(delta.text);
  const int64_t sent = sent_.Add("");
  const auto is_due = [&](const Token& token) {
    const bool adds_nothing = tokenizer_.TokenBytes(token.id).empty();
    return delta.end || token.offset < sent || (adds_nothing && token.offset == sent);
  };
  std::vector<Token> due;
  while (!waiting_.empty() && is_due(waiting_.front())) {
    due.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    // A stop string has cut the text.
    due.back().offset = std::min(due.back().offset, sent);
  }
  return kind_ == OpenAiKind::kChat ? ChatLists(due) : CompletionLists(due);
}

OpenAiLogprobs::Json OpenAiLogprobs::ChatEntry(TokenId token, float logprob) const {
  Json bytes = Json::array();
  for (const char byte : tokenizer_.TokenBytes(token)) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return {{"token", NameOf(token)}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

OpenAiLogprobs::Json OpenAiLogprobs::ChatLists(const std::vector<Token>& tokens) const {
  Json content = Json::array();
  for (const Token& token : tokens) {
    Json entry = ChatEntry(token.id, token.logprobs.chosen);
    entry["top_logprobs"] = Json::array();
    for (const auto& [other, logprob] : token.logprobs.top) {
      entry["top_logprobs"].push_back(ChatEntry(other, logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

OpenAiLogprobs::Json OpenAiLogprobs::TopOf(const Token& token) const {
  const std::string chosen = NameOf(token.id);
  Json top = Json::object();
  for (const auto& [other, logprob] : token.logprobs.top) {
    std::string name = other == token.id ? chosen : NameOf(other);
    if (other != token.id && (name == chosen || top.contains(name))) name = IdName(other);
    top[name] = logprob;
  }
  if (!top.contains(chosen)) top[chosen] = token.logprobs.chosen;
  return top;
}

OpenAiLogprobs::Json OpenAiLogprobs::CompletionLists(const std::vector<Token>& tokens) const {
  Json names = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const Token& token : tokens) {
    names.push_back(NameOf(token.id));
    logprobs.push_back(token.logprobs.chosen);
    tops.push_back(TopOf(token));
    offsets.push_back(token.offset);
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace bastion
