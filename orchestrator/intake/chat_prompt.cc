#include "orchestrator/intake/chat_prompt.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

// Complaints about prompts are cut to this length in messages.
constexpr size_t kMaxComplaintBytes = 512;

// The names and strings of a JSON text, without building its values: they may be nested deeply.
class TextCollector : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextCollector(std::string* texts) : texts_(*texts) {}
  bool key(string_t& name) override { return string(name); }
  bool string(string_t& text) override {
    absl::StrAppend(&texts_, text, "\n");
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  // The chat template refuses such a text.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  std::string& texts_;
};

std::string TextsOfJson(const std::string& text) {
  std::string texts;
  TextCollector collector(&texts);
  if (!text.empty()) nlohmann::json::sax_parse(text, &collector);
  return texts;
}

// The same for what JSON may not express.
void AppendTexts(const google::protobuf::Value& value, std::string* texts) {
  absl::StrAppend(texts, value.string_value(), "\n");
  for (const auto& item : value.list_value().values()) AppendTexts(item, texts);
  for (const auto& [name, field] : value.struct_value().fields()) {
    absl::StrAppend(texts, name, "\n");
    AppendTexts(field, texts);
  }
}

// The arguments of the template as JSON.
absl::StatusOr<std::string> Arguments(const v1::ChatMessages& chat) {
  if (!chat.has_template_args()) {
    return chat.template_args_json().empty() ? "{}" : chat.template_args_json();
  }
  if (!chat.template_args_json().empty()) {
    return FieldError("chat.template_args", "and chat.template_args_json are set; use the latter");
  }
  std::string arguments;
  if (!google::protobuf::util::MessageToJsonString(chat.template_args(), &arguments).ok()) {
    return FieldError("chat.template_args", "has a value that JSON cannot express; remove it");
  }
  return arguments;
}

}  // namespace

absl::Status PromptError(absl::string_view field, const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) {
    return FieldError(field, ShortenedToBytes(status.message(), kMaxComplaintBytes));
  }
  LOG(ERROR) << field << " cannot become tokens: " << status;
  return FieldError(field, "cannot become tokens");
}

absl::StatusOr<std::string> RenderChat(const hub::ChatTemplate& chat_template,
                                       const v1::ChatMessages& chat) {
  std::vector<hub::ChatMessage> messages;
  for (const v1::ChatMessage& message : chat.messages()) {
    hub::ChatMessage& added = messages.emplace_back();
    added.role = message.role();
    added.content = message.content();
    if (!message.fields_json().empty()) added.fields = message.fields_json();
  }
  ASSIGN_OR_RETURN(const std::string arguments, Arguments(chat));
  absl::StatusOr<std::string> text =
      chat_template.Render(messages, /*add_generation_prompt=*/true, arguments, chat.tools_json());
  if (!text.ok()) return PromptError("chat", text.status());
  return text;
}

std::vector<std::pair<std::string, std::string>> TextsOfChat(const v1::ChatMessages& chat) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const std::string field = absl::StrCat("chat.messages[", i, "]");
    texts.emplace_back(field + ".role", chat.messages(i).role());
    texts.emplace_back(field + ".content", chat.messages(i).content());
    texts.emplace_back(field + ".fields_json", TextsOfJson(chat.messages(i).fields_json()));
  }
  texts.emplace_back("chat.tools_json", TextsOfJson(chat.tools_json()));
  texts.emplace_back("chat.template_args_json", TextsOfJson(chat.template_args_json()));
  google::protobuf::Value arguments;
  *arguments.mutable_struct_value() = chat.template_args();
  texts.emplace_back("chat.template_args", "");
  AppendTexts(arguments, &texts.back().second);
  return texts;
}

}  // namespace bastion
