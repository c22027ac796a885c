#include "tools/bench/text_files.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "drafter_service/replay/known_texts.h"
#include "tools/bench/later_turns.h"

namespace bastion {
namespace {

// The requests with the longest answers, by the id of their prompt.
std::map<std::string, PlannedRequest> LongestRequests(const std::vector<LoadPlan>& plans) {
  std::map<std::string, PlannedRequest> longest;
  for (const LoadPlan& plan : plans) {
    for (const PlannedRequest& request : plan.requests) {
      PlannedRequest& kept = longest.emplace(request.prompt->id, request).first->second;
      kept.max_new_tokens = std::max(kept.max_new_tokens, request.max_new_tokens);
    }
  }
  return longest;
}

}  // namespace

absl::Status LearnTexts(const std::vector<LoadPlan>& plans, const BenchSettings& settings,
                        const std::vector<BenchSession*>& sessions) {
  LocalStages* const stages = sessions.front()->stages();
  if (stages == nullptr || stages->known_texts() == nullptr) return absl::OkStatus();
  for (BenchSession* const session : sessions) session->stages()->known_texts()->Clear();
  ASSIGN_OR_RETURN(const std::unique_ptr<Arm> plain, sessions.front()->arms()("ar"));
  const auto requests = LongestRequests(plans);
  ProgressBar bar("writing the texts");
  int64_t done = 0;
  for (const auto& [id, request] : requests) {
    bar.Show(done++, static_cast<int64_t>(requests.size()));
    BenchSettings limited = settings;
    limited.max_new_tokens = request.max_new_tokens;
    std::vector<TokenId> text = request.prompt->tokens;
    ASSIGN_OR_RETURN(const std::vector<TokenId> answer, Answer(*request.prompt, limited, *plain));
    text.insert(text.end(), answer.begin(), answer.end());
    for (BenchSession* const session : sessions) session->stages()->known_texts()->Add(text);
  }
  bar.Show(done, done);
  return absl::OkStatus();
}

absl::Status WriteTexts(const std::vector<LoadPlan>& plans, const std::vector<LevelResults>& levels,
                        const std::string& path) {
  std::map<std::string, std::vector<TokenId>> answers;
  for (const LevelResults& level : levels) {
    for (const ArmResults& arm : level.arms) {
      for (const LoadRun& run : arm.rounds) {
        for (const PromptMeasurement& request : run.requests) {
          std::vector<TokenId>& answer = answers[request.id];
          if (request.output.size() > answer.size()) answer = request.output;
        }
      }
    }
  }
  std::ofstream file(path);
  for (const auto& [id, request] : LongestRequests(plans)) {
    std::vector<TokenId> text = request.prompt->tokens;
    text.insert(text.end(), answers[id].begin(), answers[id].end());
    const nlohmann::json line = {
        {"id", id}, {"prompt_tokens", request.prompt->tokens.size()}, {"token_ids", text}};
    file << line.dump() << '\n';
  }
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path, "; is the disk full?"));
}

}  // namespace bastion
