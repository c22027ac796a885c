#include "tools/bench/later_turns.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "tools/bench/conversation.h"

namespace bastion {
namespace {

// Appends the prompts of the later turns of `first`.
absl::Status AddTurns(const BenchPrompt& first, PromptText& text, AnswerFunction answer,
                      std::vector<BenchPrompt>* prompts) {
  const Conversation& conversation = *first.conversation;
  std::vector<hub::ChatMessage> messages = conversation.messages;
  BenchPrompt turn = first;
  int number = 1;
  for (const std::string& said : conversation.later_turns) {
    ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, answer(turn));
    ASSIGN_OR_RETURN(std::string answered, text.Decode(tokens));
    messages.push_back({"assistant", std::move(answered)});
    messages.push_back({"user", said});
    turn.id = absl::StrCat(first.id, "-turn-", ++number);
    turn.conversation = nullptr;
    ASSIGN_OR_RETURN(turn.tokens, text.EncodeChat(messages, conversation.template_args));
    prompts->push_back(turn);
  }
  return absl::OkStatus();
}

}  // namespace

bool HasLaterTurns(const std::vector<BenchPrompt>& prompts) {
  return std::any_of(prompts.begin(), prompts.end(),
                     [](const BenchPrompt& prompt) { return prompt.conversation != nullptr; });
}

absl::StatusOr<std::vector<TokenId>> Answer(const BenchPrompt& prompt,
                                            const BenchSettings& settings, Arm& arm) {
  const LoadPlan plan = {
      {.concurrency = 1}, {{&prompt, settings.max_new_tokens, absl::ZeroDuration()}}, 1};
  ASSIGN_OR_RETURN(LoadRun run, arm.Run(plan, settings));
  return std::move(run.requests.at(0).output);
}

absl::StatusOr<std::vector<BenchPrompt>> WithLaterTurns(const std::vector<BenchPrompt>& prompts,
                                                        PromptText& text, AnswerFunction answer) {
  if (!HasLaterTurns(prompts)) return prompts;
  ProgressBar bar("answering the first turns");
  std::vector<BenchPrompt> all;
  for (size_t i = 0; i < prompts.size(); ++i) {
    all.push_back(prompts[i]);
    all.back().conversation = nullptr;
    if (prompts[i].conversation != nullptr) {
      RETURN_IF_ERROR(Annotate(AddTurns(prompts[i], text, answer, &all),
                               absl::StrCat("later turns of prompt ", prompts[i].id)));
    }
    bar.Show(static_cast<int>(i) + 1, static_cast<int>(prompts.size()));
  }
  return all;
}

}  // namespace bastion
