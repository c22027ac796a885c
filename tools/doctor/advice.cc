#include "tools/doctor/advice.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace bastion::doctor {
namespace {

// A smaller gain than this is within the error of the estimate.
constexpr double kClearGain = 1.1;
// Shares of the device's limits at one row.
constexpr double kHighShare = 0.8, kLowShare = 0.4;
// Shares of a forward of one row that a further row costs.
constexpr double kExpensiveRow = 0.05, kCheapRow = 0.02;
// A draft that takes this share of a plain cycle or more is expensive.
constexpr double kExpensiveDraft = 0.3;
// The share of prompts in the time of a request with plain decoding that is worth a word.
constexpr double kMuchPrefill = 0.25;
// An estimate that rests on fewer tokens is uncertain.
constexpr double kFewTokens = 1000;

std::string Requests(int count) {
  return count == 1 ? "1 request" : absl::StrFormat("%d requests", count);
}

bool Gains(const Level& level) { return level.decode_speedup >= kClearGain; }

void AdviseOnSpeedup(const ServiceReport& report, std::vector<std::string>* advice) {
  std::vector<std::string> gains;
  for (const Level& level : report.levels) {
    if (Gains(level)) {
      gains.push_back(absl::StrFormat("%.2fx at %s", level.speedup, Requests(level.requests)));
    }
  }
  if (gains.empty()) {
    advice->push_back("Speculation does not pay at any of these numbers of requests.");
  } else {
    advice->push_back("Speculation pays. Expected speedup: " + absl::StrJoin(gains, ", ") + ".");
  }
  const auto first = std::find_if(report.levels.begin(), report.levels.end(),
                                  [](const Level& level) { return !Gains(level); });
  if (first == report.levels.end()) return;
  const bool drafted = first->drafted.has_value();
  const Speculation& way = drafted ? *first->drafted : first->draft_free;
  advice->push_back(absl::StrFormat(
      "At %s it does not pay: a cycle %s drafts takes %.1f times as long as a plain one and "
      "commits "
      "%.1f tokens. Policy \"default\" turns speculation off by itself there.",
      Requests(first->requests), drafted ? "with" : "without", way.break_even, way.committed));
}

void AdviseOnDrafts(const ServiceReport& report, std::vector<std::string>* advice) {
  const Level& level = report.levels.front();
  if (!level.drafted.has_value()) {
    advice->push_back(
        "No drafter is connected, so only trees without drafts are possible. Start bastion-drafter "
        "with a drafter of this target, and pass its address to the orchestrator (--drafter).");
    return;
  }
  const double draft_share = level.draft_seconds / level.plain_seconds;
  if (level.draft_free.speedup > level.drafted->speedup) {
    advice->push_back(absl::StrFormat(
        "At %s, drafts are not worth their time: without them a cycle commits %.2f tokens in %.2f "
        "ms, with them %.2f tokens in %.2f ms.",
        Requests(level.requests), level.draft_free.committed, 1e3 * level.draft_free.cycle_seconds,
        level.drafted->committed, 1e3 * level.drafted->cycle_seconds));
  }
  if (draft_share >= kExpensiveDraft) {
    advice->push_back(absl::StrFormat(
        "A draft takes %.0f %% of a plain cycle. A drafter in int8 may be faster (bastion-drafter "
        "--weights auto), and shared memory saves time for messages (--shared_memory).",
        100 * draft_share));
  }
}

void AdviseOnTarget(const ServiceReport& report, std::vector<std::string>* advice) {
  const auto one = std::find_if(report.forwards.begin(), report.forwards.end(),
                                [](const ForwardTime& forward) { return forward.rows == 1; });
  if (one == report.forwards.end() || one->roofline_seconds == 0) return;
  const double share = 100 * one->share();
  if (one->share() > 1) {
    advice->push_back(
        absl::StrFormat("At one row the target reaches %.0f %% of the device's limits, because "
                        "caches hold a part of "
                        "its weights.",
                        share));
  } else if (one->share() >= kHighShare) {
    advice->push_back(absl::StrFormat(
        "At one row the target reaches %.0f %% of the device's limits. Only fewer bytes make plain "
        "decoding faster, e.g. bastion-verifier --weights int8.",
        share));
  } else if (one->share() < kLowShare) {
    advice->push_back(absl::StrFormat(
        "At one row the target reaches only %.0f %% of the device's limits. Check that no other "
        "program uses the machine, and that --threads of the services fits its cores.",
        share));
  }
  const auto eight = std::find_if(one, report.forwards.end(),
                                  [](const ForwardTime& forward) { return forward.rows == 8; });
  if (eight == report.forwards.end() || eight->context != one->context) return;
  const double row = (eight->seconds / one->seconds - 1) / 7;
  if (row >= kExpensiveRow) {
    advice->push_back(absl::StrFormat(
        "A further row costs %.0f %% of a forward of one row, so only small trees pay on this "
        "device.",
        100 * row));
  } else if (row < kCheapRow) {
    advice->push_back(absl::StrFormat(
        "A further row costs only %.0f %% of a forward of one row, so large trees may pay on this "
        "device.",
        100 * row));
  }
}

void AdviseOnPrompts(const ServiceReport& report, std::vector<std::string>* advice) {
  const RecordedPrompts& prompts = report.prompts;
  if (prompts.built_in) {
    advice->push_back(
        "The speedup depends on the text. These are built-in prompts: pass your own with "
        "--prompts.");
  }
  if (prompts.left_out > 0) {
    advice->push_back(
        absl::StrFormat("%d prompts were left out to save time. --recording_time raises the limit.",
                        prompts.left_out));
  }
  const double tokens = prompts.requests * prompts.output_tokens;
  if (tokens < kFewTokens) {
    advice->push_back(absl::StrFormat(
        "The estimate is uncertain: it rests on %.0f tokens. Use more prompts.", tokens));
  }
  const double share = prompts.prefill_seconds / (prompts.prefill_seconds + prompts.plain_seconds);
  if (share >= kMuchPrefill) {
    advice->push_back(absl::StrFormat(
        "With plain decoding, prompts take %.0f %% of the time of a request. Speculation does not "
        "make them faster.",
        100 * share));
  }
  if (!prompts.uses_table) {
    advice->push_back(
        "No draft token came from a transition table. Build one with bastion-train prior, and pass "
        "it to the orchestrator (--prior).");
  }
}

void AdviseOnServer(const ServiceReport& report, std::vector<std::string>* advice) {
  if (report.other_requests > 0) {
    advice->push_back(absl::StrFormat(
        "%s of others ran at the same time, so times may be too long. Run the doctor again on an "
        "idle server.",
        Requests(report.other_requests)));
  }
  if (!absl::StrContains(report.policy, "adaptive") && report.policy != "default") {
    advice->push_back(absl::StrFormat(
        "The server's default policy is %s. The expected speedups are those of \"default\", which "
        "adapts to the load.",
        report.policy));
  }
  if (report.unreached_requests > 0) {
    advice->push_back(absl::StrFormat(
        "The server does not decode %d requests together (bastion-orchestrator --max_running).",
        report.unreached_requests));
  }
  const double length = report.prompts.prompt_tokens + report.prompts.output_tokens;
  const int fit = static_cast<int>(report.kv_tokens / std::max(1.0, length));
  const int most = report.levels.back().requests;
  if (fit < most) {
    advice->push_back(absl::StrFormat(
        "The KV cache holds %s of this length (%.0f tokens), fewer than %d. Raise bastion-verifier "
        "--kv_tokens.",
        Requests(fit), length, most));
  }
}

}  // namespace

std::vector<std::string> AdviceOn(const ServiceReport& report) {
  std::vector<std::string> advice;
  AdviseOnSpeedup(report, &advice);
  AdviseOnDrafts(report, &advice);
  AdviseOnTarget(report, &advice);
  AdviseOnPrompts(report, &advice);
  AdviseOnServer(report, &advice);
  return advice;
}

}  // namespace bastion::doctor
