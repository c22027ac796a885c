// bastion-bench: compares speculation policies on the same requests, in this process or through
// running services.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/flags.h"
#include "tools/bench/later_turns.h"
#include "tools/bench/load_comparison.h"
#include "tools/bench/measurements_json.h"
#include "tools/bench/prompts.h"
#include "tools/bench/rejection_sampling.h"
#include "tools/bench/report_script.h"
#include "tools/bench/roofline.h"
#include "tools/bench/rounding.h"
#include "tools/bench/same_texts.h"
#include "tools/bench/suite_runner.h"
#include "tools/bench/text_files.h"
#include "tools/bench/trace_replay.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

constexpr char kExample[] =
    "--target deploy/demo_model/target --drafter deploy/demo_model/drafter "
    "--prompts deploy/demo_model/prompts.jsonl --policies ar,fixed:16,default";

// The most requests that are live at the same time.
int MaxLive(const std::vector<LoadPlan>& plans) {
  int most = 1;
  for (const LoadPlan& plan : plans) most = std::max(most, plan.max_live);
  return most;
}

// Adds the later turns of conversations. Their first turns are answered before the measurement.
absl::Status AddLaterTurns(const BenchFlags& flags, std::vector<BenchPrompt>* prompts) {
  if (!HasLaterTurns(*prompts)) return absl::OkStatus();
  SessionOptions options = flags.session;
  options.files = {};
  ASSIGN_OR_RETURN(const auto session, BenchSession::Open(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Arm> arm, session->arms()("ar"));
  PromptText text(flags.session.local.target_folder);
  ASSIGN_OR_RETURN(*prompts, WithLaterTurns(*prompts, text, [&](const BenchPrompt& prompt) {
    return Answer(prompt, flags.settings, *arm);
  }));
  return absl::OkStatus();
}

// OK for different texts if they are expected; the report counts them.
absl::Status Expected(const absl::Status& same, bool texts_may_differ) {
  if (!texts_may_differ || !absl::IsDataLoss(same)) return same;
  std::cout << same.message() << '\n';
  return absl::OkStatus();
}

// The folder of the sources, with the scripts that make reports. Programs from tests/gpu/pack.sh
// run on other machines than they were built on, and there it is where the variable says.
std::string SourceFolder() {
  const char* const folder = std::getenv("BASTION_TEST_SOURCE_DIR");
  return folder == nullptr ? BASTION_SOURCE_DIR : folder;
}

absl::Status RunComparison(const BenchFlags& flags) {
  std::vector<BenchPrompt> prompts;
  std::vector<TracedArrival> arrivals;
  std::vector<LoadPlan> plans;
  const std::string& target = flags.session.local.target_folder;
  if (!flags.prompts.file.empty()) {
    ASSIGN_OR_RETURN(prompts, LoadPrompts(flags.prompts.file, target, flags.prompts.template_args));
    RETURN_IF_ERROR(AddLaterTurns(flags, &prompts));
  }
  if (flags.load.arrivals.empty()) {
    ASSIGN_OR_RETURN(plans, PlanLoads(flags.load, prompts, flags.settings));
  } else {
    ASSIGN_OR_RETURN(arrivals, LoadArrivals(flags.load.arrivals, target, prompts));
    plans = {PlanArrivals(flags.load, arrivals, flags.settings)};
  }
  SessionOptions options = flags.session;
  options.max_live = MaxLive(plans);
  ASSIGN_OR_RETURN(const auto session, BenchSession::Open(options));
  RETURN_IF_ERROR(LearnTexts(plans, flags.settings, {session.get()}));
  Comparison comparison = {session->device(),
                           target,
                           flags.session.local.drafter_folder,
                           session->mode(),
                           flags.settings,
                           flags.targets,
                           {},
                           session->latency_model()};
  ASSIGN_OR_RETURN(comparison.levels,
                   CompareLoads(plans, flags.comparison, flags.settings, session->arms()));
  RETURN_IF_ERROR(session->Close());
  if (!flags.texts.empty()) {
    RETURN_IF_ERROR(WriteTexts(plans, comparison.levels, flags.texts));
  }
  // Arms may run different numbers of requests in an open loop, and with --duration.
  const bool counts_differ =
      flags.load.concurrency.empty() || flags.load.duration < absl::InfiniteDuration();
  const absl::Status same = CheckSameTexts(comparison.levels, counts_differ);
  absl::Status made =
      MakeReport("comparison", ComparisonJson(comparison, same), flags.report, SourceFolder());
  if (same.ok()) std::cout << "Every policy generated the same tokens.\n";
  RETURN_IF_ERROR(Expected(same, flags.texts_may_differ));
  return made;
}

absl::Status RunRoofline(const BenchFlags& flags) {
  LocalOptions local = flags.session.local;
  local.memory.max_sequences = 5;
  ASSIGN_OR_RETURN(const auto stages, LocalStages::Create(local));
  ASSIGN_OR_RETURN(const RooflineReport report, MeasureRoofline(*stages, flags.roofline));
  return MakeReport("roofline", report.Json(), flags.report, SourceFolder());
}

absl::Status RunRounding(const BenchFlags& flags) {
  LocalOptions local = flags.session.local;
  local.memory.max_sequences = 5;
  local.formats.weights = "bf16";
  ASSIGN_OR_RETURN(const auto exact, LocalStages::Create(local));
  local.formats.weights = "int8";
  ASSIGN_OR_RETURN(const auto rounded, LocalStages::Create(local));
  ASSIGN_OR_RETURN(const auto prompts, LoadPrompts(flags.prompts.file, local.target_folder));
  ASSIGN_OR_RETURN(const RoundingError error,
                   MeasureRounding(exact->verifier(), rounded->verifier(), prompts,
                                   flags.settings.max_new_tokens));
  std::cout << error.ToString() << '\n';
  return absl::OkStatus();
}

// INVALID_ARGUMENT if p or q of this run would not be those of the models.
absl::Status CheckDistributions(const BenchFlags& flags) {
  const char* wrong = nullptr;
  if (!flags.session.local.replayed_profile.empty()) wrong = "--replayed_profile";
  if (!flags.session.endpoint.empty()) wrong = "--endpoint";
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      wrong, " has no distributions of the models; remove it or --rejection_sampling"));
}

absl::Status RunRejectionSampling(const BenchFlags& flags) {
  RETURN_IF_ERROR(CheckDistributions(flags));
  const LocalOptions& local = flags.session.local;
  ASSIGN_OR_RETURN(
      std::vector<BenchPrompt> prompts,
      LoadPrompts(flags.prompts.file, local.target_folder, flags.prompts.template_args));
  RETURN_IF_ERROR(AddLaterTurns(flags, &prompts));
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(local.target_folder));
  ASSIGN_OR_RETURN(const auto session, BenchSession::Open(flags.session));
  RejectionSetup setup = {{&session->stages()->verifier(), &session->stages()->drafter()}, {}};
  if (!flags.settings.ignore_eos) setup.stop_tokens = config.special.eos;
  RejectionReport report = {
      session->device(), local.target_folder, local.drafter_folder, flags.settings, {}};
  ASSIGN_OR_RETURN(report.chains, CompareChains(setup, prompts, flags.settings, flags.comparison,
                                                session->arms()));
  RETURN_IF_ERROR(session->Close());
  return MakeReport("rejection_sampling", report.Json(), flags.report, SourceFolder());
}

absl::Status RunReplay(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const Trace trace, ReadTrace(flags.replay));
  ASSIGN_OR_RETURN(const ReplayReport report, ReplayTrace(trace));
  return MakeReport("replay", report.Json(), flags.report, SourceFolder());
}

absl::Status RunSuiteCommand(const std::string& name) {
  ASSIGN_OR_RETURN(SuiteFlags flags, ReadSuiteFlags());
  flags.options.source_folder = SourceFolder();
  ASSIGN_OR_RETURN(Suite suite, FindSuite(name));
  if (flags.quick) Apply(QuickOverrides(), &suite);
  Apply(flags.overrides, &suite);
  if (!flags.report.empty()) {
    RETURN_IF_ERROR(CreateReportFolder(flags.report));
  }
  ASSIGN_OR_RETURN(const SuiteResults results, RunSuite(std::move(suite), flags.options));
  absl::Status made = MakeReport("suite", SuiteResultsJson(results), flags.report, SourceFolder());
  RETURN_IF_ERROR(Expected(results.texts, flags.texts_may_differ));
  return made;
}

absl::Status RunMerge(const std::vector<std::string>& folders) {
  if (folders.empty()) {
    return absl::InvalidArgumentError(
        "merge: name the folders of the reports. Example: bastion-bench merge a100 h100 --report "
        "both");
  }
  std::vector<std::string> arguments = {"--merge"};
  if (const std::string report = ReportFlag(); !report.empty()) {
    arguments.push_back(absl::StrCat("--report=", report));
  }
  arguments.insert(arguments.end(), folders.begin(), folders.end());
  return RunReportScript(SourceFolder(), arguments);
}

// `words`: the arguments that are not flags.
absl::Status RunCommand(const std::vector<std::string>& words) {
  if (words[0] == "merge") return RunMerge({words.begin() + 1, words.end()});
  if (words[0] == "suite" && words.size() == 2) return RunSuiteCommand(words[1]);
  if (words[0] == "suite") {
    return absl::InvalidArgumentError(
        absl::StrCat("suite needs one name; the suites are ", absl::StrJoin(SuiteNames(), ", ")));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown command \"", words[0], "\"; use suite or merge, or flags only"));
}

absl::Status Run(const std::vector<char*>& arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (!words.empty()) return RunCommand(words);
  ASSIGN_OR_RETURN(const BenchFlags flags, ReadFlags(kExample));
  if (!flags.report.empty()) {
    RETURN_IF_ERROR(CreateReportFolder(flags.report));
  }
  switch (flags.mode) {
    case BenchMode::kCompare:
      return RunComparison(flags);
    case BenchMode::kRoofline:
      return RunRoofline(flags);
    case BenchMode::kRounding:
      return RunRounding(flags);
    case BenchMode::kRejection:
      return RunRejectionSampling(flags);
    case BenchMode::kReplay:
      return RunReplay(flags);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary = "Compares speculation policies on the same prompts: speed, acceptance and text.",
      .usage =
          "--target DIR --drafter DIR --prompts FILE [flags]\n"
          "         bastion-bench --target DIR --endpoint ADDRESS --prompts FILE [flags]\n"
          "         bastion-bench suite NAME [flags]\n"
          "         bastion-bench merge FOLDER... --report FOLDER\n"
          "         bastion-bench --replay FILE [flags]",
      .example = bastion::kExample,
      .groups = {{"Models",
                  {"target DIR", "drafter DIR", "prior PATH", "weights FORMAT", "dtype TYPE",
                   "drafter_weights FORMAT", "draft_vocabulary N", "replayed_profile FILE",
                   "endpoint ADDRESS"}},
                 {"Work",
                  {"prompts FILE", "template_args JSON", "policies LIST", "max_new_tokens N",
                   "ignore_eos", "warmup N", "max_rows ROWS", "texts_may_differ"}},
                 {"Load",
                  {"concurrency LIST", "rate LIST", "arrivals FILE", "repeat N", "duration SECONDS",
                   "rounds N", "cold", "max_running N", "latency_target MS", "ttft_target MS"}},
                 {"Sampling", {"temperature T", "seed N", "sampling LIST"}},
                 {"Suites (docs/experiments.md)",
                  {"drafters LIST", "temperatures LIST", "seeds LIST", "prompt_tokens LIST",
                   "prompts_per_dataset N", "quick"}},
                 {"Device (without --endpoint)",
                  {"device KIND", "backend NAME", "threads N", "gpu INDEX", "gemm KIND",
                   "gemm_table FILE", "kv_tokens N", "feature_bytes N", "attention_sinks N",
                   "attention_window N", "latency_profile FILE"}},
                 {"Report",
                  {"report DIR", "reliability", "acceptance_calibration FILE", "record FILE",
                   "texts FILE", "record_acceptance FILE"}},
                 {"Other measurements",
                  {"replay FILE", "roofline", "contexts LIST", "rows LIST", "rounding",
                   "rejection_sampling"}}}};
  return bastion::RunProgram(argc, argv, info,
                             [](const auto& arguments) { return bastion::Run(arguments); });
}
