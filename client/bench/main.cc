// bastion-bench: compares speculation policies on the same requests, in this process or through
// running services.
#include <algorithm>
#include <iostream>

#include "client/bench/arm.h"
#include "client/bench/cycle_trace.h"
#include "client/bench/flags.h"
#include "client/bench/load_comparison.h"
#include "client/bench/prompts.h"
#include "client/bench/report.h"
#include "client/bench/roofline.h"
#include "client/bench/rounding.h"
#include "client/bench/trace_replay.h"
#include "client/inprocess/local_stages.h"
#include "common/base/check.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "orchestrator/cost/calibration.h"

namespace bastion {
namespace {

constexpr char kExample[] =
    "--target deploy/demo_model/target --drafter deploy/demo_model/drafter "
    "--prompts deploy/demo_model/prompts.jsonl --policies ar,fixed:16,default";

// The most sequences that are open at the same time.
int MaxLive(const std::vector<LoadPlan>& plans) {
  int most = 1;
  for (const LoadPlan& plan : plans) most = std::max(most, plan.max_live);
  return most;
}

// The files that in-process arms use, if the flags name them.
struct ArmFiles {
  std::unique_ptr<TraceRecorder> recorder;
  std::optional<AcceptanceFiles> acceptance;

  // Call it when all arms are gone.
  absl::Status Close() {
    if (recorder != nullptr) {
      RETURN_IF_ERROR(recorder->Close());
    }
    return acceptance.has_value() ? acceptance->after.Save() : absl::OkStatus();
  }
};

// Makes in-process arms. Opens their files, which must outlive them.
absl::StatusOr<ArmFactory> LocalArms(LocalStages& stages, const BenchFlags& flags,
                                     ArmFiles* files) {
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(flags.local.target_folder));
  ASSIGN_OR_RETURN(const CalibrationTable calibration,
                   CalibrateWithBar(stages.verifier(), "calibrating the verifier",
                                    {.session = uint64_t{1} << 63}));
  ArmStages arm = {&stages.verifier(), &stages.drafter(), stages.table()};
  if (!flags.files.record.empty()) {
    ASSIGN_OR_RETURN(const TargetInfo target, stages.verifier().Info());
    ASSIGN_OR_RETURN(files->recorder,
                     TraceRecorder::Create(flags.files.record, {target, calibration}));
    arm.recorder = files->recorder.get();
  }
  if (const std::string& path = flags.files.acceptance_calibration; !path.empty()) {
    ASSIGN_OR_RETURN(AcceptanceFile before, AcceptanceFile::Open(path, config.dims.vocabulary));
    ASSIGN_OR_RETURN(AcceptanceFile after, AcceptanceFile::Open(path, config.dims.vocabulary));
    files->acceptance.emplace(std::move(before), std::move(after));
    arm.acceptance = &*files->acceptance;
  }
  return [=, stops = config.special.eos](const std::string& policy) {
    return MakeLocalArm(policy, arm, calibration, stops);
  };
}

absl::Status RunComparison(const BenchFlags& flags) {
  std::vector<BenchPrompt> prompts;
  std::vector<TracedArrival> arrivals;
  std::vector<LoadPlan> plans;
  const std::string& target = flags.local.target_folder;
  if (!flags.prompts.empty()) {
    ASSIGN_OR_RETURN(prompts, LoadPrompts(flags.prompts, target));
  }
  if (flags.load.arrivals.empty()) {
    ASSIGN_OR_RETURN(plans, PlanLoads(flags.load, prompts, flags.settings));
  } else {
    ASSIGN_OR_RETURN(arrivals, LoadArrivals(flags.load.arrivals, target, prompts));
    plans = {PlanArrivals(flags.load, arrivals, flags.settings)};
  }
  BenchReport report;
  report.settings = flags.settings;
  report.targets = flags.targets;
  report.counts_differ =
      flags.load.concurrency.empty() || flags.load.duration < absl::InfiniteDuration();
  report.target = flags.local.target_folder;
  report.drafter = flags.local.drafter_folder;
  std::unique_ptr<LocalStages> stages;
  ArmFiles files;
  ArmFactory make_arm;
  if (flags.endpoint.empty()) {
    LocalOptions local = flags.local;
    local.memory.max_sequences = MaxLive(plans) + 4;
    ASSIGN_OR_RETURN(stages, LocalStages::Create(local));
    ASSIGN_OR_RETURN(const TargetInfo info, stages->verifier().Info());
    ASSIGN_OR_RETURN(make_arm, LocalArms(*stages, flags, &files));
    report.device = info.device;
    report.mode = "in process";
    if (!local.drafter_dtype.empty()) {
      absl::StrAppend(&report.mode, ", drafter ", local.drafter_dtype);
    }
  } else {
    make_arm = [&](const std::string& policy) { return MakeRemoteArm(policy, flags.endpoint); };
    ASSIGN_OR_RETURN(report.device, RemoteDevice(flags.endpoint));
    report.mode = flags.endpoint;
  }
  ASSIGN_OR_RETURN(report.levels, CompareLoads(plans, flags.comparison, flags.settings, make_arm));
  RETURN_IF_ERROR(files.Close());
  report.policies = PoliciesOf(report.levels.front());
  std::cout << ReportTables(report) << '\n' << AblationTable(report) << std::flush;
  if (!flags.report.empty()) {
    RETURN_IF_ERROR(WriteReport(report, flags.report));
    if (const absl::Status drawn = DrawPlots(flags.report); !drawn.ok()) LOG(WARNING) << drawn;
  }
  RETURN_IF_ERROR(CheckSameTexts(report));
  std::cout << "Every policy generated the same tokens.\n";
  return absl::OkStatus();
}

absl::Status RunRoofline(const BenchFlags& flags) {
  LocalOptions local = flags.local;
  local.memory.max_sequences = 5;
  ASSIGN_OR_RETURN(const auto stages, LocalStages::Create(local));
  ASSIGN_OR_RETURN(const RooflineReport report, MeasureRoofline(*stages, flags.roofline));
  std::cout << report.Markdown();
  return flags.report.empty() ? absl::OkStatus() : WriteRoofline(report, flags.report);
}

absl::Status RunRounding(const BenchFlags& flags) {
  LocalOptions local = flags.local;
  local.memory.max_sequences = 5;
  local.dtype = "bf16";
  ASSIGN_OR_RETURN(const auto exact, LocalStages::Create(local));
  local.dtype = "int8";
  ASSIGN_OR_RETURN(const auto rounded, LocalStages::Create(local));
  ASSIGN_OR_RETURN(const auto prompts, LoadPrompts(flags.prompts, local.target_folder));
  ASSIGN_OR_RETURN(const RoundingError error,
                   MeasureRounding(exact->verifier(), rounded->verifier(), prompts,
                                   flags.settings.max_new_tokens));
  std::cout << error.ToString() << '\n';
  return absl::OkStatus();
}

absl::Status RunReplay(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const Trace trace, ReadTrace(flags.replay));
  ASSIGN_OR_RETURN(const ReplayReport report, ReplayTrace(trace));
  std::cout << report.Markdown();
  if (flags.report.empty()) return absl::OkStatus();
  return WriteReportFile(flags.report, "replay.json", report.Json());
}

absl::Status Run() {
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
          "         bastion-bench --replay FILE [flags]",
      .example = bastion::kExample,
      .groups = {
          {"Models",
           {"target DIR", "drafter DIR", "prior PATH", "dtype TYPE", "drafter_dtype TYPE",
            "endpoint ADDRESS"}},
          {"Work", {"prompts FILE", "policies LIST", "max_new_tokens N", "ignore_eos"}},
          {"Load",
           {"concurrency LIST", "rate LIST", "arrivals FILE", "repeat N", "duration SECONDS",
            "rounds N", "cold", "max_running N", "latency_target MS", "ttft_target MS"}},
          {"Sampling", {"temperature T", "seed N", "sampling LIST"}},
          {"Device (without --endpoint)",
           {"device KIND", "backend NAME", "threads N", "gpu INDEX", "gemm_table FILE"}},
          {"Report", {"report DIR", "reliability", "acceptance_calibration FILE", "record FILE"}},
          {"Other measurements",
           {"replay FILE", "roofline", "contexts LIST", "rows LIST", "rounding"}}}};
  return bastion::RunProgram(argc, argv, info, [](const auto&) { return bastion::Run(); });
}
