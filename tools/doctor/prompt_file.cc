#include "tools/doctor/prompt_file.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::doctor {
namespace {

constexpr const char* kBuiltIn[] = {
    "def fibonacci(n):\n",
    "import json\nimport os\n\n\ndef read_config(path):\n    ",
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
    "The three most important things to know about the weather are",
    "Dear Ms. Miller,\n\nthank you for your letter of March 3.",
    "Q: How does a bicycle stay upright?\nA:",
    "for i in range(10):\n    print(",
    "Once upon a time, in a village by the sea, there was",
};

absl::Status ReadLine(const nlohmann::json& line, v1::GenerateRequest* request) {
  if (line.is_object() && line.contains("text") && line["text"].is_string()) {
    request->set_text(line["text"].get<std::string>());
    return absl::OkStatus();
  }
  if (!line.is_object() || !line.contains("token_ids") || !line["token_ids"].is_array()) {
    return absl::InvalidArgumentError("must be a JSON object with \"text\" or \"token_ids\"");
  }
  for (const auto& id : line["token_ids"]) {
    const int64_t value = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError("token_ids must be integers from 0 to 2147483647");
    }
    request->mutable_tokens()->add_ids(static_cast<int32_t>(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<v1::GenerateRequest>> ReadPrompts(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    return absl::NotFoundError(
        absl::StrCat("--prompts: cannot read ", file, "; check that the file exists"));
  }
  std::vector<v1::GenerateRequest> prompts;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const absl::Status read = ReadLine(json, &prompts.emplace_back());
    if (!read.ok()) return Annotate(read, absl::StrCat(file, ":", number));
  }
  if (!prompts.empty()) return prompts;
  return absl::InvalidArgumentError(absl::StrCat(file, ": the file has no prompts"));
}

std::vector<v1::GenerateRequest> BuiltInPrompts() {
  std::vector<v1::GenerateRequest> prompts;
  for (const char* text : kBuiltIn) prompts.emplace_back().set_text(text);
  return prompts;
}

}  // namespace bastion::doctor
