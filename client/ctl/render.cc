#include "client/ctl/render.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "bastion/durations.h"

namespace bastion {
namespace {

std::string Reason(const v1::Finished& finished) {
  if (!finished.stop_string().empty()) return "stop string";
  if (finished.reason() == v1::FINISH_REASON_STOP) return "end of text";
  return "length";
}

}  // namespace

std::string StatisticsLine(const v1::Finished& finished) {
  const v1::Timings& times = finished.timings();
  const v1::SpeculationStats& stats = finished.speculation();
  const double seconds = std::max(1e-9, Milliseconds(times.decode()) / 1e3);
  const double cycles = std::max(1u, stats.cycles());
  return absl::StrFormat(
      "[%d tokens, %.1f tokens/s, τ %.2f over %d cycles (%s), per cycle: draft %.2f tree %.2f "
      "verify %.2f commit %.2f transfer %.2f ms; first token %.1f ms; ended by %s; seed %d]",
      finished.usage().completion_tokens(), finished.usage().completion_tokens() / seconds,
      stats.mean_committed_length(), stats.cycles(), stats.policy(),
      Milliseconds(times.draft()) / cycles, Milliseconds(times.tree()) / cycles,
      Milliseconds(times.verify()) / cycles, Milliseconds(times.commit()) / cycles,
      Milliseconds(times.transfer()) / cycles, Milliseconds(times.first_token()), Reason(finished),
      finished.seed());
}

std::string ModelTable(const v1::ListModelsResponse& models) {
  std::string table = absl::StrFormat("%-24s %10s %10s %6s  %s\n", "model", "vocabulary", "context",
                                      "chat", "drafter");
  for (const v1::Model& model : models.models()) {
    absl::StrAppendFormat(&table, "%-24s %10d %10d %6s  %s\n", model.name(), model.vocabulary(),
                          model.max_context(), model.has_chat_template() ? "yes" : "no",
                          model.drafter().empty() ? "-" : model.drafter());
  }
  return table;
}

}  // namespace bastion
