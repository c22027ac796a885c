// Chat templates render byte for byte as with `transformers`. The folder chat_templates has the
// templates, the conversations, and the texts that make_goldens.py has made of them.
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "common/hub/chat_template.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::ordered_json;
using testing::TempFolder;

constexpr char kFolder[] = BASTION_SOURCE_DIR "/tests/common/hub/chat_templates/";

ordered_json ReadJson(const std::string& name) {
  std::ifstream file(absl::StrCat(kFolder, name));
  return ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
}

std::vector<ChatMessage> Messages(const ordered_json& list) {
  std::vector<ChatMessage> messages;
  for (const ordered_json& entry : list) {
    ordered_json fields = entry;
    fields.erase("role");
    fields.erase("content");
    messages.push_back({entry["role"], entry["content"], fields.dump()});
  }
  return messages;
}

class ChatTemplateOracleTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TZ", "UTC", /*overwrite=*/1);  // The zone of the goldens.
    tzset();
  }

  absl::StatusOr<std::string> Render(const ChatTemplate& chat, const ordered_json& conversation) {
    ordered_json arguments = data_["arguments"];
    if (conversation.contains("arguments")) arguments.update(conversation["arguments"]);
    const absl::Time now =
        absl::FromCivil(absl::CivilSecond(2026, 3, 5, 7, 8, 9), absl::UTCTimeZone()) +
        absl::Microseconds(123);
    return chat.Render(Messages(conversation["messages"]),
                       conversation.value("add_generation_prompt", true), arguments.dump(),
                       conversation.contains("tools") ? data_["tools"].dump() : "", now);
  }

  const ordered_json data_ = ReadJson("conversations.json");
};

TEST_F(ChatTemplateOracleTest, TextsAreThoseOfTransformers) {
  const ordered_json goldens = ReadJson("goldens.json");
  ASSERT_GE(goldens.size(), 60u);
  const TempFolder folder;
  folder.Write("tokenizer_config.json", data_["special_tokens"].dump());
  for (const auto& [name, texts] : goldens.items()) {
    SCOPED_TRACE(name);
    std::filesystem::copy_file(absl::StrCat(kFolder, name, ".jinja"),
                               folder.path() + "/chat_template.jinja",
                               std::filesystem::copy_options::overwrite_existing);
    const auto chat = ChatTemplate::Load(folder.path());
    ASSERT_TRUE(chat.ok()) << chat.status();
    for (const auto& [conversation, text] : texts.items()) {
      SCOPED_TRACE(conversation);
      const auto rendered = Render(*chat, data_["conversations"][conversation]);
      if (text.is_null()) {
        EXPECT_TRUE(absl::IsInvalidArgument(rendered.status())) << *rendered;
      } else {
        EXPECT_EQ(rendered.ok() ? *rendered : rendered.status().ToString(),
                  text.get<std::string>());
      }
    }
  }
}

}  // namespace
}  // namespace bastion::hub
