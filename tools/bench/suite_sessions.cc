#include "tools/bench/suite_sessions.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/text_files.h"

namespace bastion {

std::vector<std::string> LeaveOutAbsentDrafters(Suite* suite) {
  std::vector<std::string> sentences;
  std::erase_if(suite->policies, [&](const std::string& text) {
    const std::string name = SplitPolicy(text).drafter;
    if (name.empty()) return false;
    const std::string& folder = suite->models.drafters.at(name);
    if (!folder.empty() && std::filesystem::exists(folder)) return false;
    sentences.push_back(absl::StrCat(
        text, " is left out: there is no drafter", folder.empty() ? "" : " in ", folder,
        "; train one (docs/training.md) and name it with --drafters ", name, "=DIR"));
    return true;
  });
  return sentences;
}

absl::StatusOr<SuiteSessions> SuiteSessions::Open(const Suite& suite,
                                                  const SessionOptions& options) {
  std::set<std::string> names = {""};
  for (const std::string& policy : suite.policies) names.insert(SplitPolicy(policy).drafter);
  if (names.size() > 1 && !options.endpoint.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("suite ", suite.name,
                     " drafts with several drafters; it needs engines in this process: remove "
                     "--endpoint, or name policies without @ with --policies"));
  }
  SuiteSessions opened;
  for (const std::string& name : names) {
    SessionOptions own = options;
    own.local.target_folder = suite.models.target;
    own.local.drafter_folder = name.empty() ? suite.models.drafter : suite.models.drafters.at(name);
    ASSIGN_OR_RETURN(opened.sessions_[name], BenchSession::Open(own));
  }
  return opened;
}

absl::StatusOr<std::unique_ptr<Arm>> SuiteSessions::MakeArm(const std::string& policy) {
  const auto [name, drafter] = SplitPolicy(policy);
  return sessions_.at(drafter)->arms()(name);
}

absl::Status SuiteSessions::Learn(const std::vector<LoadPlan>& plans,
                                  const BenchSettings& settings) {
  std::vector<BenchSession*> sessions;
  sessions.reserve(sessions_.size());
  for (const auto& [name, session] : sessions_) sessions.push_back(session.get());
  return LearnTexts(plans, settings, sessions);
}

std::vector<DrafterAccuracy> SuiteSessions::accuracies() const {
  std::vector<DrafterAccuracy> found;
  for (const auto& [name, session] : sessions_) {
    if (session->stages() == nullptr) continue;
    const drafter::BlockAccuracy* const accuracy = session->stages()->accuracy();
    if (accuracy != nullptr) found.push_back({name, *accuracy});
  }
  return found;
}

absl::Status SuiteSessions::Close() {
  for (const auto& [name, session] : sessions_) {
    RETURN_IF_ERROR(session->Close());
  }
  return absl::OkStatus();
}

}  // namespace bastion
