// bastion-doctor (bastionctl doctor): says how well the services run on this machine, or whether a
// checkpoint would run. The exit status is 0 only on success; a checkpoint that does not run is an
// error.
#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/printable_text.h"
#include "common/base/program.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "engine/program/flags.h"
#include "tools/doctor/advice.h"
#include "tools/doctor/checkpoint_report.h"
#include "tools/doctor/prompt_file.h"
#include "tools/doctor/service_examiner.h"

ABSL_FLAG(std::string, endpoint, "127.0.0.1:7070", "Address of the orchestrator to examine.");
ABSL_FLAG(std::string, prompts, "",
          "File of JSON lines {\"text\"} or {\"token_ids\"}, as for bastion-bench. Empty: a few "
          "built-in prompts.");
ABSL_FLAG(
    std::vector<std::string>, concurrency,
    std::vector<std::string>({"1", "2", "4", "8", "16", "32"}),
    "Numbers of requests that decode together, separated by commas, in ascending order. Those "
    "that the server does not reach are left out.");
ABSL_FLAG(std::vector<std::string>, contexts, std::vector<std::string>({"128", "512", "2048"}),
          "Cached tokens for the table of forwards, separated by commas. Those beyond the context "
          "of the model are left out.");
ABSL_FLAG(int, max_new_tokens, 128, "Maximum number of tokens of an answer.");
ABSL_FLAG(double, temperature, 0, "Sampling temperature. 0: greedy.");
ABSL_FLAG(absl::Duration, recording_time, absl::Seconds(30),
          "Decode no further prompt one at a time after this time.");
ABSL_FLAG(std::string, target, "",
          "Folder or GGUF file of a target model to check. No service is needed. Empty: examine "
          "services.");
ABSL_FLAG(std::string, drafter, "", "Folder of the target's drafter, to check both.");
ABSL_FLAG(std::string, drafter_weights, "bf16", bastion::nn::kDrafterWeightsHelp);
ABSL_FLAG(int, kv_tokens, 65536, "Capacity of each KV cache in tokens.");
ABSL_FLAG(bool, json, false, "Print the report as one JSON object.");

namespace bastion {
namespace {

constexpr char kExample[] = "--prompts deploy/demo_model/prompts.jsonl";

// The numbers of a list, which must ascend from at least `least`.
absl::StatusOr<std::vector<int>> Numbers(const absl::Flag<std::vector<std::string>>& flag,
                                         int least) {
  std::vector<int> numbers;
  for (const std::string& text : absl::GetFlag(flag)) {
    const int previous = numbers.empty() ? least - 1 : numbers.back();
    if (!absl::SimpleAtoi(text, &numbers.emplace_back()) || numbers.back() <= previous) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.Name(), ": \"", text, "\" is not a number above ", previous));
    }
  }
  if (!numbers.empty()) return numbers;
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag.Name(), " is empty; list at least one number"));
}

absl::StatusOr<doctor::ServiceReport> Examine(doctor::ExamineOptions options) {
  std::optional<ProgressBar> bar;  // Empty until the server has answered.
  options.progress = [&bar](int done, int total) {
    if (!bar.has_value()) bar.emplace("examining");
    bar->Show(done, total);
  };
  return doctor::ExamineService(options);
}

absl::Status ExamineServices() {
  doctor::ExamineOptions options;
  options.endpoint = absl::GetFlag(FLAGS_endpoint);
  const std::string file = absl::GetFlag(FLAGS_prompts);
  options.built_in_prompts = file.empty();
  if (file.empty()) {
    options.prompts = doctor::BuiltInPrompts();
  } else {
    ASSIGN_OR_RETURN(options.prompts, doctor::ReadPrompts(file));
  }
  ASSIGN_OR_RETURN(options.concurrency, Numbers(FLAGS_concurrency, 1));
  ASSIGN_OR_RETURN(options.contexts, Numbers(FLAGS_contexts, 0));
  options.max_new_tokens = absl::GetFlag(FLAGS_max_new_tokens);
  options.temperature = absl::GetFlag(FLAGS_temperature);
  options.recording_time = absl::GetFlag(FLAGS_recording_time);
  ASSIGN_OR_RETURN(const doctor::ServiceReport report, Examine(std::move(options)));
  const std::vector<std::string> advice = doctor::AdviceOn(report);
  std::cout << (absl::GetFlag(FLAGS_json) ? doctor::ServiceJson(report, advice)
                                          : doctor::ServiceText(report, advice));
  return absl::OkStatus();
}

absl::Status CheckFolders() {
  ASSIGN_OR_RETURN(const nn::LocalDevice local, nn::OpenLocalDevice(nn::ThreadsFlag()));
  doctor::CheckpointOptions options;
  options.device = local.device;
  options.target = absl::GetFlag(FLAGS_target);
  options.drafter = absl::GetFlag(FLAGS_drafter);
  ASSIGN_OR_RETURN(options.formats, nn::ParseFormats(nn::FormatFlags()));
  const std::string drafter_weights = absl::GetFlag(FLAGS_drafter_weights);
  options.drafter_formats = options.formats;
  if (!drafter_weights.empty()) {
    ASSIGN_OR_RETURN(options.drafter_formats, nn::ParseDraftFormats({.weights = drafter_weights}));
  }
  options.kv_tokens = absl::GetFlag(FLAGS_kv_tokens);
  doctor::CheckpointReport report = doctor::CheckCheckpoints(options);
  report.limits = doctor::MeasureLimits(options);
  report.forwards = doctor::EstimateForwards(report);
  std::cout << (absl::GetFlag(FLAGS_json) ? doctor::CheckpointJson(report, options)
                                          : doctor::CheckpointText(report, options))
            << std::flush;
  for (const doctor::Verdict& verdict : report.verdicts) {
    if (verdict.status.ok()) continue;
    return absl::Status(
        verdict.status.code(),
        PrintableText(absl::StrCat(verdict.service, ": ", verdict.status.message())));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  if (!absl::GetFlag(FLAGS_target).empty()) return CheckFolders();
  if (absl::GetFlag(FLAGS_drafter).empty()) return ExamineServices();
  return absl::InvalidArgumentError(
      "--target is missing: the folder of the drafter's target. Example: bastionctl doctor "
      "--target deploy/demo_model/target --drafter deploy/demo_model/drafter");
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary =
          "Examines running services: the device, the times of forwards and drafts, the expected "
          "speedup, advice.\nWith --target, says whether a checkpoint will run on this machine.",
      .usage =
          "[--prompts FILE] [flags]\n"
          "         bastion-doctor --target DIR [--drafter DIR] [flags]",
      .example = bastion::kExample,
      .groups = {{"Running services",
                  {"endpoint ADDRESS", "prompts FILE", "concurrency LIST", "contexts LIST",
                   "max_new_tokens N", "temperature T", "recording_time DURATION"}},
                 {"Checkpoints (no service is needed)",
                  {"target DIR", "drafter DIR", "weights FORMAT", "dtype TYPE",
                   "drafter_weights FORMAT", "kv_tokens TOKENS", "threads N"}},
                 {"Output", {"json"}}}};
  return bastion::RunProgram(argc, argv, info, [](const auto&) { return bastion::Run(); });
}
