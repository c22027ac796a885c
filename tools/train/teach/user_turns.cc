#include "tools/train/teach/user_turns.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/progress.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/hub/chat_template.h"
#include "common/hub/tokenizer.h"
#include "tools/train/teach/target_writer.h"

namespace bastion::train {
namespace {

constexpr char kMarker[] = "7c1f0e6a9b";  // The user's message.

// The seed of turn `index`. All turns have one prompt, so with seed + index, the runs with seeds 1
// and 2 would write the same turns.
uint64_t TurnSeed(uint64_t seed, int index) {
  const PhiloxCounter words = KeyedWords(seed, index, /*group=*/0xFFFFFFFF);
  return uint64_t{words[0]} << 32 | words[1];
}

// What the target wrote, without the token that ended it. Empty if it did not end.
absl::StatusOr<std::string> TurnOf(const TeacherText& text, const std::vector<TokenId>& stops,
                                   const hub::Tokenizer& tokenizer) {
  if (std::find(stops.begin(), stops.end(), text.tokens.back()) == stops.end()) return "";
  const absl::Span<const TokenId> written =
      absl::MakeConstSpan(text.tokens).subspan(text.prompt_tokens);
  ASSIGN_OR_RETURN(const std::string turn, tokenizer.Decode(written, /*skip_special=*/true));
  return std::string(absl::StripAsciiWhitespace(turn));
}

}  // namespace

absl::StatusOr<std::string> TextBeforeUserTurn(const std::string& target,
                                               const std::string& template_args) {
  ASSIGN_OR_RETURN(const hub::ChatTemplate chat, hub::ChatTemplate::Load(target));
  const hub::ChatMessage message = {.role = "user", .content = kMarker};
  ASSIGN_OR_RETURN(const std::string text,
                   chat.Render({message}, /*add_generation_prompt=*/true, template_args));
  const size_t end = text.find(kMarker);
  if (end == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        target,
        ": the chat template does not show a user's message as it is; write the prompts "
        "yourself (--prompts of bastion-train teach)"));
  }
  return text.substr(0, end);
}

absl::Status WriteUserTurns(const TurnsOptions& options) {
  ASSIGN_OR_RETURN(const std::string before,
                   TextBeforeUserTurn(options.target, options.template_args));
  ASSIGN_OR_RETURN(const hub::Tokenizer tokenizer, hub::Tokenizer::Load(options.target));
  ASSIGN_OR_RETURN(const std::vector<TokenId> prompt,
                   tokenizer.Encode(before, /*add_special=*/false));
  if (prompt.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.target, ": the chat template writes nothing before a user's message"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<TargetWriter> writer,
                   TargetWriter::Create({.target = options.target,
                                         .formats = options.formats,
                                         .device = options.device,
                                         .live = options.live,
                                         .max_prompt_tokens = static_cast<int>(prompt.size()),
                                         .max_new_tokens = options.max_new_tokens}));
  std::ofstream file(options.out, std::ios::binary | std::ios::trunc);
  std::set<std::string> turns;
  ProgressBar bar("user turns");
  for (int first = 0; first < options.count && file.good();) {
    bar.Show(first, options.count);
    const int end = std::min(options.count, first + writer->group());
    std::vector<WantedText> wanted;
    for (int i = first; i < end; ++i) {
      wanted.push_back({{absl::StrCat("turn", i), prompt, static_cast<int>(prompt.size())},
                        {.temperature = options.temperature, .seed = TurnSeed(options.seed, i)}});
    }
    RETURN_IF_ERROR(writer->Write(absl::MakeSpan(wanted)));
    for (const WantedText& entry : wanted) {
      ASSIGN_OR_RETURN(const std::string turn,
                       TurnOf(entry.text, writer->stop_tokens(), tokenizer));
      if (turn.empty() || !turns.insert(turn).second) continue;
      const nlohmann::json message = {{"role", "user"}, {"content", turn}};
      const nlohmann::json line = {{"id", entry.text.id}, {"messages", {message}}};
      file << line.dump() << '\n';
    }
    first = end;
    bar.Show(first, options.count);
  }
  file.close();
  if (file.fail()) return absl::UnavailableError(absl::StrCat("cannot write ", options.out));
  std::cout << options.out << ": wrote " << turns.size() << " of " << options.count
            << " user turns; the others were repeated, empty or too long\n";
  return absl::OkStatus();
}

}  // namespace bastion::train
