// Conversation: a chat whose later turns follow the answers to the earlier ones. Plain data.
#ifndef BASTION_TOOLS_BENCH_CONVERSATION_H_
#define BASTION_TOOLS_BENCH_CONVERSATION_H_

#include <string>
#include <vector>

#include "common/hub/chat_template.h"

namespace bastion {

struct Conversation {
  std::vector<hub::ChatMessage> messages;  // Up to the first turn, which has no answer yet.
  std::vector<std::string> later_turns;    // What the user says after each answer. Not empty.
  std::string template_args = "{}";        // See hub::ChatTemplate::Render.
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_CONVERSATION_H_
