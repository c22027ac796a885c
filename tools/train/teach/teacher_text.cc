#include "tools/train/teach/teacher_text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::train {
namespace {

constexpr int kLoopWindow = 32;
constexpr int kLoopStep = 4;
constexpr int kGram = 4;
constexpr double kDistinctShare = 0.35;

std::string InfoPath(const std::string& folder) { return folder + "/teacher.json"; }
std::string TextsPath(const std::string& folder) { return folder + "/texts.jsonl"; }

absl::Status CannotWrite(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, "; is the disk full?"));
}

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot read the file; bastion-train teach writes teacher text"));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Calls use(line, number) for each line that ends, from line 1.
template <typename Use>
absl::Status ForEachLine(const std::string& text, Use use) {
  int64_t number = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    RETURN_IF_ERROR(use(text.substr(begin, end - begin), ++number));
  }
  return absl::OkStatus();
}

// Whether `json` is an integer in [low, high]. json.get<int>() accepts fractions, and drops the
// high bits of large numbers.
bool IsIntegerIn(const nlohmann::json& json, int64_t low, int64_t high) {
  if (!json.is_number_integer()) return false;
  // An unsigned number above the range of int64_t becomes negative.
  const auto number = json.get<int64_t>();
  return number >= low && number <= high && !(json.is_number_unsigned() && number < 0);
}

absl::StatusOr<TeacherText> ParseText(const std::string& line, int vocabulary) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("id") || !json["id"].is_string() ||
      !json.contains("prompt_tokens") || !json.contains("token_ids") ||
      !json["token_ids"].is_array()) {
    return absl::InvalidArgumentError(
        "must be a JSON object with \"id\", \"prompt_tokens\" and \"token_ids\"");
  }
  TeacherText text;
  text.id = json["id"].get<std::string>();
  for (const nlohmann::json& token : json["token_ids"]) {
    if (!IsIntegerIn(token, 0, int64_t{vocabulary} - 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token.dump(), " is not in the target's vocabulary of ", vocabulary,
                       "; was another target the teacher?"));
    }
    text.tokens.push_back(token.get<TokenId>());
  }
  const nlohmann::json& prompt_tokens = json["prompt_tokens"];
  if (!IsIntegerIn(prompt_tokens, 1, static_cast<int64_t>(text.tokens.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_tokens is ", prompt_tokens.dump(),
                                                   "; it must be between 1 and the number of "
                                                   "tokens, ",
                                                   text.tokens.size()));
  }
  text.prompt_tokens = prompt_tokens.get<int>();
  return text;
}

// Whether fewer than kDistinctShare of the sequences of kGram tokens differ.
bool IsLoop(absl::Span<const TokenId> window) {
  std::set<std::array<TokenId, kGram>> distinct;
  const size_t grams = window.size() - kGram + 1;
  for (size_t i = 0; i < grams; ++i) {
    distinct.insert({window[i], window[i + 1], window[i + 2], window[i + 3]});
  }
  return static_cast<double>(distinct.size()) < kDistinctShare * static_cast<double>(grams);
}

}  // namespace

absl::StatusOr<TeacherInfo> ReadTeacherInfo(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text, ReadAll(InfoPath(folder)));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    return TeacherInfo{json.at("target"),  json.at("weights"),       json.at("activations"),
                       json.at("prompts"), json.at("template_args"), json.at("temperatures"),
                       json.at("seed"),    json.at("max_new_tokens")};
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat(InfoPath(folder), ": the file is damaged"));
  }
}

absl::Status WriteTeacherInfo(const TeacherInfo& info, const std::string& folder) {
  const nlohmann::json json = {{"target", info.target},
                               {"weights", info.weights},
                               {"activations", info.activations},
                               {"prompts", info.prompts},
                               {"template_args", info.template_args},
                               {"temperatures", info.temperatures},
                               {"seed", info.seed},
                               {"max_new_tokens", info.max_new_tokens}};
  std::ofstream file(InfoPath(folder), std::ios::binary | std::ios::trunc);
  file << json.dump(2) << '\n';
  file.close();
  return file.fail() ? CannotWrite(InfoPath(folder)) : absl::OkStatus();
}

absl::StatusOr<std::vector<TeacherText>> ReadTeacherTexts(const std::string& folder,
                                                          int vocabulary) {
  ASSIGN_OR_RETURN(const std::string lines, ReadAll(TextsPath(folder)));
  std::vector<TeacherText> texts;
  RETURN_IF_ERROR(ForEachLine(lines, [&](const std::string& line, int64_t number) -> absl::Status {
    absl::StatusOr<TeacherText> text = ParseText(line, vocabulary);
    RETURN_IF_ERROR(Annotate(text.status(), absl::StrCat(TextsPath(folder), ":", number)));
    texts.push_back(*std::move(text));
    return absl::OkStatus();
  }));
  return texts;
}

std::vector<TokenId> FrequentTokens(absl::Span<const TeacherText> texts, int vocabulary,
                                    int count) {
  std::vector<int64_t> counts(vocabulary);
  for (const TeacherText& text : texts) {
    for (size_t i = text.prompt_tokens; i < text.tokens.size(); ++i) ++counts[text.tokens[i]];
  }
  std::vector<TokenId> tokens(vocabulary);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](TokenId a, TokenId b) { return counts[a] > counts[b]; });
  tokens.resize(count);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

absl::StatusOr<int64_t> RepairTeacherTexts(const std::string& folder) {
  const std::string path = TextsPath(folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return 0;
  ASSIGN_OR_RETURN(const std::string text, ReadAll(path));
  int64_t lines = 0;
  RETURN_IF_ERROR(ForEachLine(text, [&](const std::string&, int64_t number) {
    lines = number;
    return absl::OkStatus();
  }));
  const size_t end = text.rfind('\n');
  std::filesystem::resize_file(path, end == std::string::npos ? 0 : end + 1, error);
  if (error) return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  return lines;
}

absl::Status AppendTeacherTexts(absl::Span<const TeacherText> texts, const std::string& folder) {
  std::ofstream file(TextsPath(folder), std::ios::binary | std::ios::app);
  for (const TeacherText& text : texts) {
    const nlohmann::json json = {
        {"id", text.id}, {"prompt_tokens", text.prompt_tokens}, {"token_ids", text.tokens}};
    file << json.dump() << '\n';
  }
  file.close();
  return file.fail() ? CannotWrite(TextsPath(folder)) : absl::OkStatus();
}

int UsefulLength(absl::Span<const TokenId> written) {
  const auto size = static_cast<int>(written.size());
  for (int begin = 0; begin + kLoopWindow <= size; begin += kLoopStep) {
    if (IsLoop(written.subspan(begin, kLoopWindow))) return begin + kLoopWindow / 2;
  }
  return size;
}

}  // namespace bastion::train
