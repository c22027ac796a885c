#include "tools/train/prior/training_texts.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/hub/tokenizer.h"

namespace bastion::drafter {
namespace {

using Use = absl::FunctionRef<absl::Status(absl::Span<const TokenId>)>;
using Progress = absl::FunctionRef<void(int64_t, int64_t)>;

absl::StatusOr<int64_t> TotalBytes(const std::vector<std::string>& files) {
  int64_t total = 0;
  for (const std::string& file : files) {
    if (!absl::EndsWith(file, ".txt") && !absl::EndsWith(file, ".jsonl")) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": must be a .txt or .jsonl file"));
    }
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(file, error);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": cannot read the file: ", error.message()));
    }
    total += static_cast<int64_t>(bytes);
  }
  return total;
}

absl::Status ReadError(const std::string& file) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": cannot read the file"));
}

absl::StatusOr<std::vector<TokenId>> ParseTokenIds(const nlohmann::json& list) {
  std::vector<TokenId> tokens;
  tokens.reserve(list.size());
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer()) return absl::InvalidArgumentError("token_ids must be integers");
    const int64_t number = id.get<int64_t>();
    if (number < 0 || number > std::numeric_limits<TokenId>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids: ", id.dump(), " is not a token id"));
    }
    tokens.push_back(static_cast<TokenId>(number));
  }
  return tokens;
}

class TextReader {
 public:
  TextReader(std::string target_folder, int64_t total, Use use, Progress progress)
      : target_folder_(std::move(target_folder)), total_(total), use_(use), progress_(progress) {}

  absl::Status Read(const std::string& file) {
    return absl::EndsWith(file, ".txt") ? ReadWhole(file) : ReadLines(file);
  }

 private:
  absl::Status ReadWhole(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    if (!stream.is_open() || stream.bad()) return ReadError(file);
    const absl::StatusOr<std::vector<TokenId>> tokens = Encode(text);
    RETURN_IF_ERROR(Annotate(tokens.ok() ? use_(*tokens) : tokens.status(), file));
    Advance(text.size());
    return absl::OkStatus();
  }

  absl::Status ReadLines(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    int64_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (!line.empty()) {
        const absl::StatusOr<std::vector<TokenId>> tokens = Parse(line);
        RETURN_IF_ERROR(Annotate(tokens.ok() ? use_(*tokens) : tokens.status(),
                                 absl::StrCat(file, ":", number)));
      }
      Advance(line.size() + 1);
    }
    if (!stream.is_open() || stream.bad()) return ReadError(file);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<TokenId>> Parse(const std::string& line) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_object()) {
      const auto text = object.find("text");
      if (text != object.end() && text->is_string()) return Encode(text->get<std::string>());
      const auto ids = object.find("token_ids");
      if (ids != object.end() && ids->is_array()) return ParseTokenIds(*ids);
    }
    return absl::InvalidArgumentError("must be a JSON object with \"text\" or \"token_ids\"");
  }

  absl::StatusOr<std::vector<TokenId>> Encode(const std::string& text) {
    if (!tokenizer_) {
      ASSIGN_OR_RETURN(tokenizer_, hub::Tokenizer::Load(target_folder_));
    }
    return tokenizer_->Encode(text, /*add_special=*/true);
  }

  // Counts `bytes` as read. Reports progress about 200 times in total.
  void Advance(size_t bytes) {
    done_ += static_cast<int64_t>(bytes);
    if (done_ < total_ && done_ - reported_ < total_ / 200) return;
    reported_ = done_;
    progress_(std::min(done_, total_), total_);
  }

  const std::string target_folder_;
  const int64_t total_;
  const Use use_;
  const Progress progress_;
  int64_t done_ = 0, reported_ = 0;
  std::optional<hub::Tokenizer> tokenizer_;
};

}  // namespace

absl::Status ForEachText(const std::vector<std::string>& files, const std::string& target_folder,
                         Use use, Progress progress) {
  ASSIGN_OR_RETURN(const int64_t total, TotalBytes(files));
  TextReader reader(target_folder, total, use, progress);
  for (const std::string& file : files) RETURN_IF_ERROR(reader.Read(file));
  return absl::OkStatus();
}

}  // namespace bastion::drafter
