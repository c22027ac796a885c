// bastion-verify-exactness (bastionctl verify-exactness): the proof, on one's own machine and
// models, that speculation changes no token. Exit status 0 only when nothing was found.
#include <algorithm>
#include <iostream>
#include <optional>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/bench/arm.h"
#include "client/bench/prompts.h"
#include "client/cpp/sampling.h"
#include "client/exactness/report.h"
#include "client/inprocess/local_stages.h"
#include "common/base/program.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "orchestrator/cost/calibration.h"

ABSL_FLAG(std::string, target, "", "Folder of the target model (tokenizer; weights in process)");
ABSL_FLAG(std::string, drafter, "", "Folder of the drafter; in process");
ABSL_FLAG(std::string, endpoint, "",
          "Address of a running orchestrator, for the text check alone; empty: in process");
ABSL_FLAG(std::string, dtype, "bf16", "bf16 or fp32; in process: services have their own");
ABSL_FLAG(std::string, backend, "cpu",
          "Kernels for the CPU: cpu, the project's own, or torch, which run wherever libtorch does "
          "(in builds with it); in process: services have their own");
ABSL_FLAG(int, threads, 2, "Threads of the engines; in process: services have their own");
ABSL_FLAG(std::string, prompts, BASTION_SOURCE_DIR "/deploy/demo_model/prompts.jsonl",
          "JSON lines {\"id\", \"text\"} or {\"id\", \"token_ids\"}");
ABSL_FLAG(int, synthetic_prompts, 0, "So many prompts of made-up tokens come after these");
ABSL_FLAG(int, max_prompts, 2, "Prompts at each batch size; a larger batch is filled nevertheless");
ABSL_FLAG(int, prompt_tokens, 32, "Of a longer prompt the last so many tokens are kept");
ABSL_FLAG(int, max_new_tokens, 16, "Tokens to generate for each prompt");
ABSL_FLAG(std::vector<std::string>, policies,
          std::vector<std::string>({"chain", "fixed:16+prior", "fixed:64", "adaptive",
                                    "chain+coupled", "fixed:64+coupled+prior", "default",
                                    "ngram:8"}),
          "Speculation policies to compare with plain decoding");
ABSL_FLAG(std::vector<std::string>, temperatures,
          std::vector<std::string>({"0", "0.7", "1", "1.5"}), "Of the text check; 0: greedy");
ABSL_FLAG(std::string, settings,
          ";top_k=40,top_p=0.9;repetition_penalty=1.1,presence_penalty=0.5,frequency_penalty=0.2,"
          "min_p=0.02",
          "More sampling settings of the text check, a semicolon between two; empty: plain");
ABSL_FLAG(std::vector<std::string>, batch_sizes, std::vector<std::string>({"1", "8"}),
          "Prompts that run together");
ABSL_FLAG(uint64_t, seed, 1, "Of the keyed choice");
ABSL_FLAG(
    double, rounding, 0,
    "Differences with a smaller gap between the two tokens' values count as rounding. fp32 "
    "needs none; where bf16 kernels of several machines meet, 0.01 is what rounding can flip");
ABSL_FLAG(int, walks, 50400, "Walks of the distribution check; 0: leave it out");
ABSL_FLAG(int, tree_nodes, 6, "Nodes of the tree that is walked, beside its root");

namespace bastion {
namespace {

// Each part's sessions are its own; arms count from 1.
constexpr uint64_t kCalibrationSession = uint64_t{1} << 61;
constexpr uint64_t kOpinionSession = uint64_t{1} << 62;
constexpr uint64_t kWalkSession = uint64_t{1} << 63;
constexpr int kTogether = 32;
constexpr size_t kWalkPromptTokens = 2;

// What the arms run on; the stages are empty behind an endpoint.
struct Subject {
  std::unique_ptr<LocalStages> stages;
  std::vector<std::unique_ptr<Arm>> arms;
  std::unique_ptr<TokenOpinion> opinion;
  std::string device;
};

absl::StatusOr<std::vector<int>> BatchSizes() {
  std::vector<int> sizes;
  for (const std::string& written : absl::GetFlag(FLAGS_batch_sizes)) {
    if (!absl::SimpleAtoi(written, &sizes.emplace_back()) || sizes.back() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--batch_sizes: \"", written, "\": want numbers from 1 on"));
    }
  }
  if (sizes.empty()) return absl::InvalidArgumentError("--batch_sizes: want at least one");
  return sizes;
}

absl::StatusOr<std::vector<TextSetting>> Settings() {
  std::vector<TextSetting> settings;
  for (const std::string& written : absl::GetFlag(FLAGS_temperatures)) {
    for (const absl::string_view more : absl::StrSplit(absl::GetFlag(FLAGS_settings), ';')) {
      TextSetting& setting = settings.emplace_back();
      ASSIGN_OR_RETURN(setting.sampling, ParseSampling(more));
      if (!absl::SimpleAtof(written, &setting.sampling.temperature)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--temperatures: \"", written, "\": want numbers"));
      }
      setting.sampling.seed = absl::GetFlag(FLAGS_seed) + settings.size();
      setting.name = absl::StrCat("T ", written, more.empty() ? "" : ",", more);
    }
  }
  if (settings.empty()) return absl::InvalidArgumentError("--temperatures: want at least one");
  return settings;
}

absl::StatusOr<std::vector<BenchPrompt>> Prompts() {
  ASSIGN_OR_RETURN(auto prompts,
                   LoadPrompts(absl::GetFlag(FLAGS_prompts), absl::GetFlag(FLAGS_target)));
  const auto most = static_cast<size_t>(std::max(1, absl::GetFlag(FLAGS_prompt_tokens)));
  for (BenchPrompt& prompt : prompts) {
    const size_t kept = std::min(most, prompt.tokens.size());
    prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - kept);
  }
  ASSIGN_OR_RETURN(const hub::ModelConfig config,
                   hub::ReadModelConfig(absl::GetFlag(FLAGS_target)));
  const auto synthetic =
      SyntheticPrompts(absl::GetFlag(FLAGS_synthetic_prompts), config.dims.vocabulary, /*seed=*/1);
  prompts.insert(prompts.end(), synthetic.begin(), synthetic.end());
  return prompts;
}

absl::StatusOr<CalibrationTable> QuickCalibration(Verifier& verifier) {
  CalibrationOptions options;
  options.row_counts = {1, 2, 4, 8, 16, 32, 64};
  options.contexts = {64};
  options.repetitions = 2;
  options.session = kCalibrationSession;
  return Calibrate(verifier, Clock::Real(), options);
}

absl::StatusOr<Subject> LocalSubject(const std::vector<std::string>& policies, int most_together) {
  Subject subject;
  LocalOptions options;
  options.target_folder = absl::GetFlag(FLAGS_target);
  options.drafter_folder = absl::GetFlag(FLAGS_drafter);
  options.dtype = absl::GetFlag(FLAGS_dtype);
  options.backend = absl::GetFlag(FLAGS_backend);
  options.threads = absl::GetFlag(FLAGS_threads);
  options.max_sequences = most_together + 4;
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(options.target_folder));
  ASSIGN_OR_RETURN(subject.stages, LocalStages::Create(options));
  Verifier& verifier = subject.stages->verifier();
  ASSIGN_OR_RETURN(const TargetInfo info, verifier.Info());
  ASSIGN_OR_RETURN(const CalibrationTable table, QuickCalibration(verifier));
  for (const std::string& policy : policies) {
    ASSIGN_OR_RETURN(
        subject.arms.emplace_back(),
        MakeLocalArm(policy, {&verifier, &subject.stages->drafter(), subject.stages->table()},
                     table, config.special.eos));
  }
  subject.opinion = MakeLocalOpinion(&verifier, kOpinionSession);
  subject.device = info.device;
  return subject;
}

absl::StatusOr<Subject> RemoteSubject(const std::vector<std::string>& policies,
                                      const std::string& endpoint) {
  Subject subject;
  for (const std::string& policy : policies) {
    ASSIGN_OR_RETURN(subject.arms.emplace_back(), MakeRemoteArm(policy, endpoint));
  }
  subject.opinion = MakeRemoteOpinion(endpoint);
  ASSIGN_OR_RETURN(subject.device, RemoteDevice(endpoint));
  return subject;
}

absl::StatusOr<TextReport> RunTextCheck(TextCheck check) {
  ProgressBar bar("texts");
  check.max_prompts = absl::GetFlag(FLAGS_max_prompts);
  check.max_new_tokens = absl::GetFlag(FLAGS_max_new_tokens);
  check.rounding = absl::GetFlag(FLAGS_rounding);
  check.progress = [&](int done, int total) { bar.Show(done, total); };
  return CheckTexts(check);
}

absl::StatusOr<DistributionReport> RunDistributionCheck(LocalStages& stages,
                                                        const std::vector<BenchPrompt>& prompts) {
  ProgressBar bar("walks");
  DistributionCheck check;
  check.verifier = &stages.verifier();
  check.drafter = &stages.drafter();
  for (const BenchPrompt& prompt : prompts) {
    const size_t kept = std::min(kWalkPromptTokens, prompt.tokens.size());
    check.prompts.emplace_back(prompt.tokens.end() - kept, prompt.tokens.end());
  }
  for (const float temperature : {0.7f, 1.0f, 1.5f}) {
    for (const float top_p : {1.0f, 0.9f}) {
      ChoiceParams& setting = check.settings.emplace_back();
      setting.temperature = temperature;
      setting.top_p = top_p;
    }
  }
  check.tree_nodes = absl::GetFlag(FLAGS_tree_nodes);
  check.walks = absl::GetFlag(FLAGS_walks);
  check.together = kTogether;
  check.first_seed = absl::GetFlag(FLAGS_seed);
  check.first_session = kWalkSession;
  check.progress = [&](int done, int total) { bar.Show(done, total); };
  return CheckDistribution(check);
}

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_max_new_tokens) < 1 || absl::GetFlag(FLAGS_max_prompts) < 1 ||
      absl::GetFlag(FLAGS_tree_nodes) < 1) {
    return absl::InvalidArgumentError(
        "--max_new_tokens, --max_prompts and --tree_nodes want at least 1");
  }
  return absl::OkStatus();
}

absl::Status Run() {
  RETURN_IF_ERROR(CheckFlags());
  TextCheck texts;
  ASSIGN_OR_RETURN(texts.batch_sizes, BatchSizes());
  ASSIGN_OR_RETURN(texts.settings, Settings());
  ASSIGN_OR_RETURN(texts.prompts, Prompts());
  std::vector<std::string> policies = absl::GetFlag(FLAGS_policies);
  policies.insert(policies.begin(), "ar");
  const std::string endpoint = absl::GetFlag(FLAGS_endpoint);
  const int most_together =
      std::max(kTogether, *std::max_element(texts.batch_sizes.begin(), texts.batch_sizes.end()));
  ASSIGN_OR_RETURN(const Subject subject, endpoint.empty() ? LocalSubject(policies, most_together)
                                                           : RemoteSubject(policies, endpoint));
  std::cout << subject.device << "\n\n";
  for (size_t i = 0; i < policies.size(); ++i) {
    texts.policies.push_back({policies[i], subject.arms[i].get()});
  }
  texts.opinion = subject.opinion.get();
  ASSIGN_OR_RETURN(const TextReport text_report, RunTextCheck(texts));
  std::cout << "Texts against plain decoding, " << texts.settings.size() << " settings:\n"
            << TextTable(text_report) << std::endl;

  std::optional<DistributionReport> distribution;
  if (subject.stages == nullptr) {
    std::cout << "Distributions: not checked, they need the stages in process (no --endpoint).\n\n";
  } else if (absl::GetFlag(FLAGS_walks) <= 0) {
    std::cout << "Distributions: not checked (--walks=0).\n\n";
  } else {
    ASSIGN_OR_RETURN(distribution, RunDistributionCheck(*subject.stages, texts.prompts));
    std::cout << "Distributions of walks over a frozen tree:\n"
              << DistributionTable(*distribution) << std::endl;
  }
  std::cout << Verdict(text_report, distribution) << std::endl;
  if (text_report.exact() && (!distribution || distribution->exact())) return absl::OkStatus();
  return absl::DataLossError("speculation changes what the target writes");
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  return bastion::RunProgram(
      argc, argv,
      "Checks that speculation changes no token: texts against plain decoding, and the outcomes of "
      "walks over a frozen draft tree against the target's distribution.",
      [](const auto&) { return bastion::Run(); });
}
