// OpenAiLogprobs: the log-probabilities of one answer as JSON of OpenAI's API. They come with the
// text: a token is listed when its text begins to be sent, so that offsets are inside the text also
// while the end of it is held back. Thread-compatible.
//
// All fields follow from the bytes of the tokens: joined, they spell the text. A token that is a
// part of a character has its bytes as its name. A special token adds nothing to the text.
#ifndef BASTION_ORCHESTRATOR_OPENAI_OPENAI_LOGPROBS_H_
#define BASTION_ORCHESTRATOR_OPENAI_OPENAI_LOGPROBS_H_

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/hub/tokenizer.h"
#include "orchestrator/openai/openai_request.h"
#include "orchestrator/schedule/request_stream.h"
#include "orchestrator/text/character_counter.h"

namespace bastion {

class OpenAiLogprobs {
 public:
  // `tokenizer` must outlive this object.
  OpenAiLogprobs(OpenAiKind kind, const hub::Tokenizer* tokenizer)
      : kind_(kind), tokenizer_(*tokenizer) {}

  // Adds the output in `delta`, and returns the lists of the tokens that are due; all that are left
  // if the answer ends.
  [[nodiscard]] nlohmann::ordered_json Add(const OutputDelta& delta);

 private:
  using Json = nlohmann::ordered_json;

  struct Token {
    TokenId id;
    TokenLogprobs logprobs;
    int64_t offset;  // Where it begins, in characters.
  };

  [[nodiscard]] std::string NameOf(TokenId token) const;
  [[nodiscard]] Json ChatEntry(TokenId token, float logprob) const;
  [[nodiscard]] Json ChatLists(const std::vector<Token>& tokens) const;
  // The tokens at the position of `token` by name, with the chosen one. Tokens with the same text
  // have different names.
  [[nodiscard]] Json TopOf(const Token& token) const;
  [[nodiscard]] Json CompletionLists(const std::vector<Token>& tokens) const;

  const OpenAiKind kind_;
  const hub::Tokenizer& tokenizer_;
  CharacterCounter counter_;  // Counts the characters of the tokens.
  CharacterCounter sent_;     // Those of the text that has been sent.
  std::deque<Token> waiting_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_OPENAI_LOGPROBS_H_
