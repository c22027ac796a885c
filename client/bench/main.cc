// bastion-bench: policies against each other on the same prompts, in process or through services.
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/bench/arm.h"
#include "client/bench/prompts.h"
#include "client/bench/report.h"
#include "client/bench/roofline.h"
#include "client/bench/rounding.h"
#include "client/cpp/sampling.h"
#include "client/inprocess/local_stages.h"
#include "common/base/check.h"
#include "common/base/program.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "orchestrator/cost/calibration.h"

ABSL_FLAG(std::string, target, "", "Folder of the target model (tokenizer; weights in process)");
ABSL_FLAG(std::string, drafter, "", "Folder of the drafter");
ABSL_FLAG(std::string, prompts, "", "JSON lines {\"id\", \"text\"} or {\"id\", \"token_ids\"}");
ABSL_FLAG(std::string, policies, "ar,chain,fixed:16,fixed:64,adaptive", "Comma-separated policies");
ABSL_FLAG(float, temperature, 0, "0: greedy");
ABSL_FLAG(uint64_t, seed, 1, "Of the keyed choice at temperature > 0");
ABSL_FLAG(std::string, sampling, "", "More of it: \"top_k=40,top_p=0.9,repetition_penalty=1.1\"");
ABSL_FLAG(int, max_new_tokens, 128, "Tokens to generate for each prompt");
ABSL_FLAG(int, concurrency, 1, "Prompts that run together");
ABSL_FLAG(std::string, device, "auto",
          "cpu, cuda, or auto: a GPU where this build has CUDA and this machine a GPU; in process");
ABSL_FLAG(std::string, backend, "cpu",
          "Kernels for the CPU: cpu, the project's own, or torch, which run wherever libtorch does "
          "(in builds with it); in process");
ABSL_FLAG(int, gpu, 0, "Which GPU; in process");
ABSL_FLAG(std::string, gemm_table, "",
          "File that keeps how this GPU multiplies best; empty: found out anew; in process");
ABSL_FLAG(int, threads, 2, "Threads of the engine; in process: services have their own");
ABSL_FLAG(std::string, dtype, "bf16", "bf16, fp32 or int8; in process: services have their own");
ABSL_FLAG(std::string, drafter_dtype, "",
          "Of the drafter alone: fp32, bf16, int8 or auto; in process");
ABSL_FLAG(std::string, prior, "",
          "Transition table; empty: the one beside the drafter; in process");
ABSL_FLAG(std::string, report, "", "Folder for results.json, report.md and plots");
ABSL_FLAG(std::string, endpoint, "", "Address of a running orchestrator; empty: in process");
ABSL_FLAG(bool, rounding, false, "Compare the target in int8 with itself in bf16, nothing else");
ABSL_FLAG(bool, roofline, false,
          "Measure this machine and how near the target and the drafter come to it, nothing else");
ABSL_FLAG(std::vector<std::string>, contexts, {"256"}, "With --roofline: cached tokens, ascending");
ABSL_FLAG(std::vector<std::string>, rows,
          (std::vector<std::string>{"1", "2", "4", "8", "16", "32", "64", "128"}),
          "With --roofline: rows of a verify");
ABSL_FLAG(bool, ignore_eos, false, "Generate to the limit whatever the model says");

namespace bastion {
namespace {

absl::Status RunArms(const std::vector<std::unique_ptr<Arm>>& arms,
                     const std::vector<BenchPrompt>& prompts, BenchReport& report) {
  ProgressBar bar("measuring");
  const auto width = static_cast<size_t>(report.settings.concurrency);
  const size_t groups = (prompts.size() + width - 1) / width;
  int done = 0;
  for (size_t group = 0; group < groups; ++group) {
    const size_t begin = group * width;
    const std::vector<BenchPrompt> together(
        prompts.begin() + begin, prompts.begin() + std::min(prompts.size(), begin + width));
    for (size_t turn = 0; turn < arms.size(); ++turn) {
      // Another arm begins each time: none always comes first or after the same one.
      const size_t arm = (turn + group) % arms.size();
      ASSIGN_OR_RETURN(auto results, arms[arm]->Run(together, report.settings));
      auto& kept = report.policies[arm].prompts;
      std::move(results.begin(), results.end(), std::back_inserter(kept));
      bar.Show(++done, static_cast<int>(groups * arms.size()));
    }
  }
  return absl::OkStatus();
}

// One arm a policy, on stages of this process.
absl::StatusOr<std::vector<std::unique_ptr<Arm>>> MakeLocalArms(
    LocalStages& stages, const std::string& target_folder,
    const std::vector<std::string>& policies) {
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(target_folder));
  const auto stops = absl::GetFlag(FLAGS_ignore_eos) ? std::vector<TokenId>{} : config.special.eos;
  ASSIGN_OR_RETURN(const CalibrationTable table,
                   CalibrateWithBar(stages.verifier(), "calibrating the verifier",
                                    {.session = uint64_t{1} << 63}));
  std::vector<std::unique_ptr<Arm>> arms;
  for (const std::string& policy : policies) {
    const ArmStages arm = {&stages.verifier(), &stages.drafter(), stages.table()};
    ASSIGN_OR_RETURN(arms.emplace_back(), MakeLocalArm(policy, arm, table, stops));
  }
  return arms;
}

LocalOptions LocalOptionsFromFlags(int concurrency) {
  LocalOptions local;
  local.target_folder = absl::GetFlag(FLAGS_target);
  local.drafter_folder = absl::GetFlag(FLAGS_drafter);
  local.dtype = absl::GetFlag(FLAGS_dtype);
  local.drafter_dtype = absl::GetFlag(FLAGS_drafter_dtype);
  local.prior = absl::GetFlag(FLAGS_prior);
  local.device = absl::GetFlag(FLAGS_device);
  local.backend = absl::GetFlag(FLAGS_backend);
  local.gpu = absl::GetFlag(FLAGS_gpu);
  local.gemm_table = absl::GetFlag(FLAGS_gemm_table);
  local.threads = absl::GetFlag(FLAGS_threads);
  local.show_progress = true;
  local.max_sequences = concurrency + 4;
  return local;
}

absl::StatusOr<std::vector<int>> ParseNumbers(const std::string& flag,
                                              const std::vector<std::string>& texts) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    int number = 0;
    if (!absl::SimpleAtoi(text, &number) || number <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(flag, " ", text, ": want whole numbers"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::Status RunRoofline() {
  RooflineOptions options;
  ASSIGN_OR_RETURN(options.rows, ParseNumbers("--rows", absl::GetFlag(FLAGS_rows)));
  ASSIGN_OR_RETURN(options.contexts, ParseNumbers("--contexts", absl::GetFlag(FLAGS_contexts)));
  ASSIGN_OR_RETURN(const auto stages, LocalStages::Create(LocalOptionsFromFlags(1)));
  ASSIGN_OR_RETURN(const RooflineReport report, MeasureRoofline(*stages, options));
  std::cout << report.Markdown();
  const std::string folder = absl::GetFlag(FLAGS_report);
  return folder.empty() ? absl::OkStatus() : WriteRoofline(report, folder);
}

absl::Status RunRounding() {
  LocalOptions options = LocalOptionsFromFlags(1);
  options.dtype = "bf16";
  ASSIGN_OR_RETURN(const auto exact, LocalStages::Create(options));
  options.dtype = "int8";
  ASSIGN_OR_RETURN(const auto rounded, LocalStages::Create(options));
  ASSIGN_OR_RETURN(const auto prompts,
                   LoadPrompts(absl::GetFlag(FLAGS_prompts), options.target_folder));
  ASSIGN_OR_RETURN(const RoundingError error,
                   MeasureRounding(exact->verifier(), rounded->verifier(), prompts,
                                   absl::GetFlag(FLAGS_max_new_tokens)));
  std::cout << error.ToString() << '\n';
  return absl::OkStatus();
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_rounding)) return RunRounding();
  if (absl::GetFlag(FLAGS_roofline)) return RunRoofline();
  BenchReport report;
  ASSIGN_OR_RETURN(SamplingParams sampling, ParseSampling(absl::GetFlag(FLAGS_sampling)));
  sampling.temperature = absl::GetFlag(FLAGS_temperature);
  sampling.seed = absl::GetFlag(FLAGS_seed);
  report.settings = {sampling, absl::GetFlag(FLAGS_max_new_tokens),
                     absl::GetFlag(FLAGS_concurrency)};
  if (report.settings.concurrency < 1 || report.settings.max_new_tokens < 1) {
    return absl::InvalidArgumentError("--concurrency and --max_new_tokens want at least 1");
  }
  ASSIGN_OR_RETURN(const auto prompts,
                   LoadPrompts(absl::GetFlag(FLAGS_prompts), absl::GetFlag(FLAGS_target)));
  const std::vector<std::string> policies =
      absl::StrSplit(absl::GetFlag(FLAGS_policies), ',', absl::SkipEmpty());
  const std::string endpoint = absl::GetFlag(FLAGS_endpoint);
  std::unique_ptr<LocalStages> stages;
  std::vector<std::unique_ptr<Arm>> arms;
  if (endpoint.empty()) {
    const LocalOptions local = LocalOptionsFromFlags(report.settings.concurrency);
    ASSIGN_OR_RETURN(stages, LocalStages::Create(local));
    ASSIGN_OR_RETURN(const TargetInfo info, stages->verifier().Info());
    ASSIGN_OR_RETURN(arms, MakeLocalArms(*stages, local.target_folder, policies));
    report.device = info.device;
    report.mode = "in process";
    if (!local.drafter_dtype.empty()) {
      absl::StrAppend(&report.mode, ", drafter ", local.drafter_dtype);
    }
  } else {
    for (const std::string& policy : policies) {
      ASSIGN_OR_RETURN(arms.emplace_back(), MakeRemoteArm(policy, endpoint));
    }
    ASSIGN_OR_RETURN(report.device, RemoteDevice(endpoint));
    report.mode = endpoint;
  }
  report.target = absl::GetFlag(FLAGS_target);
  report.drafter = absl::GetFlag(FLAGS_drafter);
  for (const std::string& policy : policies) report.policies.push_back({policy, {}});
  RETURN_IF_ERROR(RunArms(arms, prompts, report));
  std::cout << MarkdownTable(report) << '\n' << AblationTable(report);
  const std::string folder = absl::GetFlag(FLAGS_report);
  if (!folder.empty()) {
    RETURN_IF_ERROR(WriteReport(report, folder));
    if (const absl::Status drawn = DrawPlots(folder); !drawn.ok()) LOG(WARNING) << drawn;
  }
  RETURN_IF_ERROR(CheckSameTexts(report));
  std::cout << "Every policy wrote the same tokens.\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  return bastion::RunProgram(argc, argv, "Measures speculation policies on the same prompts.",
                             [](const auto&) { return bastion::Run(); });
}
