// OpenAiAnswers: the answers to one call as JSON of OpenAI's API, in one object or as server-sent
// events. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_OPENAI_OPENAI_ANSWERS_H_
#define BASTION_ORCHESTRATOR_OPENAI_OPENAI_ANSWERS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "orchestrator/intake/served_model.h"
#include "orchestrator/openai/chat_answer.h"
#include "orchestrator/openai/openai_logprobs.h"
#include "orchestrator/openai/openai_request.h"
#include "orchestrator/schedule/request_stream.h"

namespace bastion {

class OpenAiAnswers {
 public:
  // `request` and `model` must outlive this object; `form` is for chats. `id` is the id of the
  // request, `created` the time of its arrival.
  OpenAiAnswers(const OpenAiRequest& request, const ServedModel& model, const std::string& id,
                absl::Time created, const AnswerForm& form = {});

  // Returns the event of `delta`. An answer's first event also has its role. Empty if `delta` only
  // has tokens whose text is not complete yet.
  [[nodiscard]] std::string Events(const OutputDelta& delta);
  // Returns the events after the end of all answers.
  [[nodiscard]] std::string LastEvents() const;

  // Adds `delta` to the object.
  void Add(const OutputDelta& delta);
  // Returns the object, when all answers have ended.
  [[nodiscard]] std::string Object();

 private:
  using Json = nlohmann::ordered_json;  // People read it, so keep the order of fields.

  [[nodiscard]] bool is_chat() const { return request_.kind == OpenAiKind::kChat; }
  // An object or event with these choices.
  [[nodiscard]] Json Envelope(const char* type, Json choices) const;
  [[nodiscard]] Json Usage() const;
  // Sets how an answer ended; null before its end. An answer that calls tools ends for that reason.
  void SetFinish(const OutputDelta& delta, Json* choice) const;
  // The log-probabilities that are due with a delta; null if they are not wanted.
  [[nodiscard]] Json Logprobs(const OutputDelta& delta);
  // Records that `delta` has been sent.
  void Count(const OutputDelta& delta);
  // The answer of a chat. REQUIRES: is_chat().
  [[nodiscard]] ChatAnswer& ChatOf(int answer);

  struct Answer {
    bool has_begun = false;
    OpenAiLogprobs logprobs;
    std::string text = {};  // The text of a completion.
    std::optional<ChatAnswer> chat = {};
    Json lists = {};  // Null, or the lists of log-probabilities so far.
    Json finish = {};
  };

  const OpenAiRequest& request_;
  const ServedModel& model_;
  const std::string id_;
  const int64_t created_;  // Unix seconds.
  const AnswerForm form_;
  const int answers_per_prompt_;
  std::vector<Answer> answers_;  // Those to the first prompt come first.
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, completion_tokens_ = 0;
};

// The JSON of an error with the HTTP status `http_status`. `parameter` is the one that the error is
// about, or empty.
[[nodiscard]] std::string OpenAiErrorJson(int http_status, const std::string& message,
                                          const std::string& parameter = "");
// The JSON of an error of `request` that a client may see.
[[nodiscard]] std::string OpenAiErrorJson(const OpenAiRequest& request, const absl::Status& status);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_OPENAI_ANSWERS_H_
