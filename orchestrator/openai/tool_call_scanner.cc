#include "orchestrator/openai/tool_call_scanner.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"

namespace bastion {

size_t ToolCallScanner::Push(absl::string_view text) {
  size_t read = 0;
  const bool had_name = has_name();
  while (read < text.size() && !ended_ && has_name() == had_name) Read(text[read++]);
  return read;
}

void ToolCallScanner::Read(char c) {
  const size_t at = text_.size();
  text_ += c;
  if (in_string_) {
    const bool ends = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
    if (!ends) return;
    in_string_ = false;
    if (depth_ > 1) return;
    string_.end = at + 1;
    if (is_key_) {
      key_ = StringAt(string_);
    } else {
      EndValue(at + 1);
    }
    return;
  }
  const bool begins_value = c == '"' || c == '{' || c == '[';
  if (begins_value && depth_ == 1 && !is_key_) BeginValue();
  if (c == '"') {
    in_string_ = true;
    if (depth_ == 1) string_ = {at};
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    if (depth_ == 1) EndValue(at);
    if (--depth_ == 1) EndValue(at + 1);
    ended_ = depth_ <= 0;
  } else if (depth_ == 1) {
    ReadTop(c);
  }
}

void ToolCallScanner::ReadTop(char c) {
  if (c == ':') {
    is_key_ = false;
  } else if (c == ',') {
    EndValue(text_.size() - 1);
    is_key_ = true;
  } else if (!is_key_ && !absl::ascii_isspace(static_cast<unsigned char>(c))) {
    BeginValue();
  }
}

// Called before the first byte of a value of the object, which is the last byte of the text.
void ToolCallScanner::BeginValue() {
  if (value_) return;
  value_ = Range{text_.size() - 1};
  if (key_ == "name" && !name_) name_ = value_;
  if ((key_ == "arguments" || key_ == "parameters") && !arguments_) arguments_ = value_;
}

void ToolCallScanner::EndValue(size_t end) {
  if (!value_) return;
  for (std::optional<Range>* field : {&name_, &arguments_}) {
    if (*field && (*field)->begin == value_->begin) (*field)->end = end;
  }
  value_.reset();
  is_key_ = true;
}

std::string ToolCallScanner::StringAt(const Range& range) const {
  const auto value =
      nlohmann::json::parse(text_.substr(range.begin, range.end - range.begin), nullptr,
                            /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : "";
}

std::optional<std::string> ToolCallScanner::name() const {
  if (!has_name()) return std::nullopt;
  std::string name = StringAt(*name_);
  if (name.empty()) return std::nullopt;
  return name;
}

std::string ToolCallScanner::TakeArguments() {
  if (!arguments_) return "";
  const bool is_complete = arguments_->end != std::string::npos;
  const bool is_object = text_[arguments_->begin] == '{';
  if (!is_object && !is_complete) return "";
  const size_t end = is_complete ? arguments_->end : text_.size();
  if (text_[arguments_->begin] == '"') {
    if (taken_ > 0) return "";
    taken_ = end - arguments_->begin;
    return StringAt(*arguments_);
  }
  const size_t begin = arguments_->begin + taken_;
  taken_ = end - arguments_->begin;
  std::string taken = text_.substr(begin, end - begin);
  if (!is_object) absl::StripTrailingAsciiWhitespace(&taken);
  return taken;
}

}  // namespace bastion
