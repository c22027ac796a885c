// bastion-bench: compares speculation policies on the same prompts, in this process or through
// running services.
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

ABSL_FLAG(std::string, target, "",
          "Folder of the target model. With --endpoint only its tokenizer is read.");
ABSL_FLAG(std::string, drafter, "", "Folder of the drafter. Not used with --endpoint.");
ABSL_FLAG(std::string, prior, "",
          "Transition table for +prior: a file or a folder. Empty: the one in the drafter's "
          "folder, if it has one.");
ABSL_FLAG(std::string, dtype, "bf16", "Type of the target's weights: bf16, fp32 or int8.");
ABSL_FLAG(std::string, drafter_dtype, "",
          "Type of the drafter's weights: bf16, fp32, int8 or auto. Empty: the same as --dtype.");
ABSL_FLAG(std::string, endpoint, "",
          "Address of a running orchestrator to measure. Empty: run both engines in this process.");
ABSL_FLAG(std::string, prompts, "",
          "File of JSON lines {\"id\", \"text\"} or {\"id\", \"token_ids\"}.");
ABSL_FLAG(
    std::string, policies, "ar,chain,fixed:16,fixed:64,adaptive",
    "Speculation policies to compare, separated by commas. Include ar: speedups are relative to "
    "it.");
ABSL_FLAG(int, max_new_tokens, 128, "Tokens to generate for each prompt.");
ABSL_FLAG(int, concurrency, 1, "Number of prompts to decode together.");
ABSL_FLAG(bool, ignore_eos, false,
          "Ignore the end-of-text token: always generate --max_new_tokens.");
ABSL_FLAG(float, temperature, 0, "Sampling temperature. 0: greedy.");
ABSL_FLAG(uint64_t, seed, 1, "Random seed for sampling.");
ABSL_FLAG(std::string, sampling, "",
          "Further sampling parameters, e.g. \"top_k=40,top_p=0.9,repetition_penalty=1.1\".");
ABSL_FLAG(std::string, device, "auto",
          "cpu, cuda or auto. auto: a GPU if this build supports CUDA and the machine has one.");
ABSL_FLAG(
    std::string, backend, "cpu",
    "CPU kernels: cpu (the project's own) or torch (portable, in builds with BASTION_TORCH).");
ABSL_FLAG(int, gpu, 0, "Index of the GPU among those that CUDA_VISIBLE_DEVICES makes visible.");
ABSL_FLAG(std::string, gemm_table, "",
          "Cache file for GEMM autotuning on a GPU. Empty: tune again at every start.");
ABSL_FLAG(int, threads, 2, "Threads of the engines. 0: one per core.");
ABSL_FLAG(std::string, report, "", "Folder for results.json, report.md and plots. Empty: none.");
ABSL_FLAG(bool, roofline, false,
          "Only measure how close forwards come to the limits of this machine's memory and "
          "arithmetic.");
ABSL_FLAG(std::vector<std::string>, contexts, {"256"},
          "With --roofline: cached tokens, in ascending order, separated by commas.");
ABSL_FLAG(std::vector<std::string>, rows,
          (std::vector<std::string>{"1", "2", "4", "8", "16", "32", "64", "128"}),
          "With --roofline: rows of a verify forward, separated by commas.");
ABSL_FLAG(bool, rounding, false, "Only compare the int8 target with the bf16 target.");

namespace bastion {
namespace {

constexpr char kExample[] =
    "--target deploy/demo_model/target --drafter deploy/demo_model/drafter "
    "--prompts deploy/demo_model/prompts.jsonl --policies ar,fixed:16,default";

absl::Status RunArms(const std::vector<std::unique_ptr<Arm>>& arms,
                     const std::vector<BenchPrompt>& prompts, BenchReport& report) {
  ProgressBar bar("measuring");
  const auto width = static_cast<size_t>(report.settings.concurrency);
  const size_t groups = (prompts.size() + width - 1) / width;
  int done = 0;
  for (size_t group = 0; group < groups; ++group) {
    const size_t begin = group * width;
    const std::vector<BenchPrompt> batch(prompts.begin() + begin,
                                         prompts.begin() + std::min(prompts.size(), begin + width));
    for (size_t turn = 0; turn < arms.size(); ++turn) {
      // Rotate the order of the arms, so that no arm is always first.
      const size_t arm = (turn + group) % arms.size();
      ASSIGN_OR_RETURN(auto results, arms[arm]->Run(batch, report.settings));
      auto& measured = report.policies[arm].prompts;
      std::move(results.begin(), results.end(), std::back_inserter(measured));
      bar.Show(++done, static_cast<int>(groups * arms.size()));
    }
  }
  return absl::OkStatus();
}

// Makes one in-process arm per policy.
absl::StatusOr<std::vector<std::unique_ptr<Arm>>> MakeLocalArms(
    LocalStages& stages, const std::string& target_folder,
    const std::vector<std::string>& policies) {
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(target_folder));
  const auto stops = absl::GetFlag(FLAGS_ignore_eos) ? std::vector<TokenId>{} : config.special.eos;
  ASSIGN_OR_RETURN(const CalibrationTable calibration,
                   CalibrateWithBar(stages.verifier(), "calibrating the verifier",
                                    {.session = uint64_t{1} << 63}));
  std::vector<std::unique_ptr<Arm>> arms;
  for (const std::string& policy : policies) {
    const ArmStages arm = {&stages.verifier(), &stages.drafter(), stages.table()};
    ASSIGN_OR_RETURN(arms.emplace_back(), MakeLocalArm(policy, arm, calibration, stops));
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
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": \"", text, "\" is not a positive integer"));
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

// INVALID_ARGUMENT if a flag that this mode needs is empty.
absl::Status CheckFlags() {
  const bool local = absl::GetFlag(FLAGS_endpoint).empty() || absl::GetFlag(FLAGS_roofline);
  const char* missing = nullptr;
  if (!absl::GetFlag(FLAGS_roofline) && absl::GetFlag(FLAGS_prompts).empty()) missing = "--prompts";
  if (local && absl::GetFlag(FLAGS_drafter).empty()) missing = "--drafter";
  if (missing == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(missing, " is missing. Example: bastion-bench ", kExample));
}

absl::Status Run() {
  RETURN_IF_ERROR(CheckFlags());
  if (absl::GetFlag(FLAGS_rounding)) return RunRounding();
  if (absl::GetFlag(FLAGS_roofline)) return RunRoofline();
  BenchReport report;
  ASSIGN_OR_RETURN(SamplingParams sampling, ParseSampling(absl::GetFlag(FLAGS_sampling)));
  sampling.temperature = absl::GetFlag(FLAGS_temperature);
  sampling.seed = absl::GetFlag(FLAGS_seed);
  report.settings = {sampling, absl::GetFlag(FLAGS_max_new_tokens),
                     absl::GetFlag(FLAGS_concurrency)};
  if (report.settings.concurrency < 1 || report.settings.max_new_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--concurrency is ", report.settings.concurrency, " and --max_new_tokens is ",
                     report.settings.max_new_tokens, "; both must be at least 1"));
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
  std::cout << "Every policy generated the same tokens.\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary = "Compares speculation policies on the same prompts: speed, acceptance and text.",
      .usage =
          "--target DIR --drafter DIR --prompts FILE [flags]\n"
          "         bastion-bench --target DIR --endpoint ADDRESS --prompts FILE [flags]",
      .example = bastion::kExample,
      .required = {"target"},
      .groups = {
          {"Models",
           {"target DIR", "drafter DIR", "prior PATH", "dtype TYPE", "drafter_dtype TYPE",
            "endpoint ADDRESS"}},
          {"Work",
           {"prompts FILE", "policies LIST", "max_new_tokens N", "concurrency N", "ignore_eos"}},
          {"Sampling", {"temperature T", "seed N", "sampling LIST"}},
          {"Device (without --endpoint)",
           {"device KIND", "backend NAME", "threads N", "gpu INDEX", "gemm_table FILE"}},
          {"Report", {"report DIR"}},
          {"Other measurements", {"roofline", "contexts LIST", "rows LIST", "rounding"}}}};
  return bastion::RunProgram(argc, argv, info, [](const auto&) { return bastion::Run(); });
}
