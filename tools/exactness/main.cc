// bastion-verify-exactness (bastionctl verify-exactness): checks that speculation changes no
// token on your machine and with your models. The exit status is 0 only if no difference was found.
#include <algorithm>
#include <iostream>
#include <optional>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/flags/sampling.h"
#include "common/base/program.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "engine/program/flags.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/profile/verify_profile.h"
#include "tools/bench/arm.h"
#include "tools/bench/prompts.h"
#include "tools/exactness/report.h"
#include "tools/inprocess/local_stages.h"

ABSL_FLAG(std::string, target, "",
          "Folder or GGUF file of the target model. With --endpoint, only its tokenizer and config "
          "are read.");
ABSL_FLAG(std::string, drafter, "", "Folder of the drafter. Not used with --endpoint.");
ABSL_FLAG(std::string, endpoint, "",
          "Address of a running orchestrator to check. Only its texts are compared, not its "
          "distributions. Empty: run both engines in this process.");
ABSL_FLAG(std::string, prompts, BASTION_SOURCE_DIR "/deploy/demo_model/prompts.jsonl",
          "File of JSON lines {\"id\", \"text\"} or {\"id\", \"token_ids\"}.");
ABSL_FLAG(int, synthetic_prompts, 0, "Additional prompts of random tokens.");
ABSL_FLAG(
    int, max_prompts, 2,
    "Maximum number of prompts per batch size. A larger batch size runs as many prompts as it "
    "has places.");
ABSL_FLAG(int, prompt_tokens, 32,
          "Maximum tokens per prompt. Longer prompts keep only their last tokens.");
ABSL_FLAG(int, shared_prefix, 0,
          "Tokens that are put before every prompt, the same for all. The requests of this process "
          "then share the pages of this prefix. 0: none.");
ABSL_FLAG(int, max_new_tokens, 16, "Tokens to generate for each prompt.");
ABSL_FLAG(std::vector<std::string>, policies,
          std::vector<std::string>({"chain", "fixed:16+prior", "fixed:64", "adaptive",
                                    "chain+coupled", "fixed:64+coupled+prior", "default",
                                    "ngram:8"}),
          "Speculation policies to compare with plain decoding, separated by commas; NAME=VALUE is "
          "an option of the policy before it.");
ABSL_FLAG(std::vector<std::string>, temperatures,
          std::vector<std::string>({"0", "0.7", "1", "1.5"}),
          "Temperatures of the text check, separated by commas. 0: greedy.");
ABSL_FLAG(std::string, settings,
          ";top_k=40,top_p=0.9;repetition_penalty=1.1,presence_penalty=0.5,frequency_penalty=0.2,"
          "min_p=0.02",
          "Sampling settings of the text check, separated by semicolons. An empty setting is plain "
          "sampling.");
ABSL_FLAG(std::vector<std::string>, batch_sizes, std::vector<std::string>({"1", "8"}),
          "Batch sizes of the text check, separated by commas.");
ABSL_FLAG(uint64_t, seed, 1, "First random seed. Each setting and each walk uses its own seed.");
ABSL_FLAG(
    double, rounding, 0,
    "A difference counts as a rounding error if the gap between the two tokens, in logits, is "
    "below this. Use 0 on a CPU. A GPU and --backend torch compute logits only up to rounding.");
ABSL_FLAG(
    int, kv_tokens, 65536,
    "Capacity of each model's cache in tokens. With fewer tokens than the requests of a batch "
    "need, some are preempted. Not used with --endpoint.");
ABSL_FLAG(int, walks, 50400, "Total number of walks in the distribution check. 0: skip the check.");
ABSL_FLAG(int, tree_nodes, 6,
          "Nodes of the draft tree in the distribution check, without the root.");

namespace bastion {
namespace {

constexpr int kThreads = 2;  // Without --threads.

constexpr char kExample[] =
    "--target deploy/demo_model/target --drafter deploy/demo_model/drafter --weights fp32";

// First session ids. They are far apart, so that no two parts of the check use the same session.
// The arms use ids from 1.
constexpr uint64_t kProfileSession = uint64_t{1} << 61;
constexpr uint64_t kLogProbSession = uint64_t{1} << 62;
constexpr uint64_t kWalkSession = uint64_t{1} << 63;
constexpr int kWalkBatchSize = 32;
constexpr size_t kWalkPromptTokens = 2;

// The engines to check. `stages` is null if they run behind an endpoint.
struct Subject {
  std::unique_ptr<LocalStages> stages;
  std::vector<std::unique_ptr<Arm>> arms;
  std::unique_ptr<LogProbSource> log_probs;
  std::string device;
};

absl::StatusOr<std::vector<int>> BatchSizes() {
  std::vector<int> sizes;
  for (const std::string& text : absl::GetFlag(FLAGS_batch_sizes)) {
    if (!absl::SimpleAtoi(text, &sizes.emplace_back()) || sizes.back() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--batch_sizes: \"", text, "\" is not a positive integer"));
    }
  }
  if (sizes.empty())
    return absl::InvalidArgumentError("--batch_sizes is empty; list at least one number");
  return sizes;
}

absl::StatusOr<std::vector<TextSetting>> Settings() {
  std::vector<TextSetting> settings;
  for (const std::string& temperature : absl::GetFlag(FLAGS_temperatures)) {
    for (const absl::string_view sampling : absl::StrSplit(absl::GetFlag(FLAGS_settings), ';')) {
      TextSetting& setting = settings.emplace_back();
      ASSIGN_OR_RETURN(setting.sampling, ParseSampling(sampling));
      if (!absl::SimpleAtof(temperature, &setting.sampling.temperature)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--temperatures: \"", temperature, "\" is not a number"));
      }
      setting.sampling.seed = absl::GetFlag(FLAGS_seed) + settings.size();
      setting.name = absl::StrCat("T ", temperature, sampling.empty() ? "" : ",", sampling);
    }
  }
  if (settings.empty())
    return absl::InvalidArgumentError("--temperatures is empty; list at least one number");
  return settings;
}

// The first `count` tokens of all prompts, one after the other and repeated as often as needed.
std::vector<TokenId> SharedPrefix(const std::vector<BenchPrompt>& prompts, int count) {
  std::vector<TokenId> prefix;
  while (!prompts.empty() && static_cast<int>(prefix.size()) < count) {
    for (const BenchPrompt& prompt : prompts) {
      prefix.insert(prefix.end(), prompt.tokens.begin(), prompt.tokens.end());
    }
  }
  prefix.resize(std::min<size_t>(prefix.size(), std::max(0, count)));
  return prefix;
}

absl::StatusOr<std::vector<BenchPrompt>> Prompts() {
  ASSIGN_OR_RETURN(auto prompts,
                   LoadPrompts(absl::GetFlag(FLAGS_prompts), absl::GetFlag(FLAGS_target)));
  const std::vector<TokenId> prefix = SharedPrefix(prompts, absl::GetFlag(FLAGS_shared_prefix));
  const auto max_tokens = static_cast<size_t>(std::max(1, absl::GetFlag(FLAGS_prompt_tokens)));
  for (BenchPrompt& prompt : prompts) {
    const size_t kept = std::min(max_tokens, prompt.tokens.size());
    prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - kept);
  }
  ASSIGN_OR_RETURN(const hub::ModelConfig config,
                   hub::ReadModelConfig(absl::GetFlag(FLAGS_target)));
  const auto synthetic =
      SyntheticPrompts(absl::GetFlag(FLAGS_synthetic_prompts), config.dims.vocabulary, /*seed=*/1);
  prompts.insert(prompts.end(), synthetic.begin(), synthetic.end());
  for (BenchPrompt& prompt : prompts) {
    prompt.tokens.insert(prompt.tokens.begin(), prefix.begin(), prefix.end());
  }
  return prompts;
}

absl::StatusOr<LatencyProfile> QuickProfile(Verifier& verifier) {
  ProfileOptions options;
  options.row_counts = {1, 2, 4, 8, 16, 32, 64};
  options.further_row_counts.clear();
  options.contexts = {64};
  options.repetitions = 2;
  options.session = kProfileSession;
  return MeasureProfile(verifier, Clock::Real(), options);
}

absl::StatusOr<Subject> LocalSubject(const std::vector<std::string>& policies, int max_batch_size) {
  Subject subject;
  LocalOptions options;
  options.target_folder = absl::GetFlag(FLAGS_target);
  options.drafter_folder = absl::GetFlag(FLAGS_drafter);
  options.formats = nn::FormatFlags();
  options.device = nn::DeviceFlags(kThreads);
  options.memory = {.max_sequences = max_batch_size + 4,
                    .kv_tokens = absl::GetFlag(FLAGS_kv_tokens),
                    .reuse_prefixes = true};
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(options.target_folder));
  ASSIGN_OR_RETURN(subject.stages, LocalStages::Create(options));
  Verifier& verifier = subject.stages->verifier();
  ASSIGN_OR_RETURN(const TargetInfo info, verifier.Info());
  ASSIGN_OR_RETURN(const LatencyProfile profile, QuickProfile(verifier));
  for (const std::string& policy : policies) {
    ASSIGN_OR_RETURN(
        subject.arms.emplace_back(),
        MakeLocalArm(policy, {&verifier, &subject.stages->drafter(), subject.stages->table()},
                     profile, config.special.eos));
  }
  subject.log_probs = MakeLocalLogProbs(&verifier, kLogProbSession);
  subject.device = info.device;
  return subject;
}

absl::StatusOr<Subject> RemoteSubject(const std::vector<std::string>& policies,
                                      const std::string& endpoint) {
  Subject subject;
  for (const std::string& policy : policies) {
    ASSIGN_OR_RETURN(subject.arms.emplace_back(), MakeRemoteArm(policy, endpoint));
  }
  subject.log_probs = MakeRemoteLogProbs(endpoint);
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
  check.batch_size = kWalkBatchSize;
  check.first_seed = absl::GetFlag(FLAGS_seed);
  check.first_session = kWalkSession;
  check.progress = [&](int done, int total) { bar.Show(done, total); };
  return CheckDistribution(check);
}

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_max_new_tokens) < 1 || absl::GetFlag(FLAGS_max_prompts) < 1 ||
      absl::GetFlag(FLAGS_tree_nodes) < 1) {
    return absl::InvalidArgumentError(
        "--max_new_tokens, --max_prompts and --tree_nodes must be at least 1");
  }
  if (absl::GetFlag(FLAGS_endpoint).empty() && absl::GetFlag(FLAGS_drafter).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--drafter is missing. Example: bastionctl verify-exactness ", kExample));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  RETURN_IF_ERROR(CheckFlags());
  TextCheck texts;
  ASSIGN_OR_RETURN(texts.batch_sizes, BatchSizes());
  ASSIGN_OR_RETURN(texts.settings, Settings());
  ASSIGN_OR_RETURN(texts.prompts, Prompts());
  std::vector<std::string> policies =
      SplitPolicies(absl::StrJoin(absl::GetFlag(FLAGS_policies), ","));
  policies.insert(policies.begin(), "ar");
  const std::string endpoint = absl::GetFlag(FLAGS_endpoint);
  const int max_batch_size = std::max(
      kWalkBatchSize, *std::max_element(texts.batch_sizes.begin(), texts.batch_sizes.end()));
  ASSIGN_OR_RETURN(const Subject subject, endpoint.empty() ? LocalSubject(policies, max_batch_size)
                                                           : RemoteSubject(policies, endpoint));
  std::cout << subject.device << "\n\n";
  for (size_t i = 0; i < policies.size(); ++i) {
    texts.policies.push_back({policies[i], subject.arms[i].get()});
  }
  texts.log_probs = subject.log_probs.get();
  ASSIGN_OR_RETURN(const TextReport text_report, RunTextCheck(texts));
  std::cout << "Texts compared with plain decoding, " << texts.settings.size() << " settings:\n"
            << TextTable(text_report) << "\n"
            << std::flush;

  std::optional<DistributionReport> distribution;
  if (subject.stages == nullptr) {
    std::cout << "Distributions: not checked, because the engines run behind --endpoint. Remove "
                 "--endpoint to check them.\n\n";
  } else if (absl::GetFlag(FLAGS_walks) <= 0) {
    std::cout << "Distributions: not checked (--walks=0).\n\n";
  } else {
    ASSIGN_OR_RETURN(distribution, RunDistributionCheck(*subject.stages, texts.prompts));
    std::cout << "Distributions of walks over a fixed draft tree:\n"
              << DistributionTable(*distribution) << "\n";
  }
  std::cout << Verdict(text_report, distribution) << "\n";
  if (text_report.exact() && (!distribution || distribution->exact())) return absl::OkStatus();
  return absl::DataLossError("speculation changes what the target generates");
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary =
          "Checks that speculation changes no token: it compares texts with plain decoding, and "
          "the outcomes of\nwalks over a fixed draft tree with the target's distribution.",
      .usage =
          "--target DIR --drafter DIR [flags]\n"
          "         bastion-verify-exactness --target DIR --endpoint ADDRESS [flags]",
      .example = bastion::kExample,
      .required = {"target"},
      .groups = {{"Models and policies",
                  {"target DIR", "drafter DIR", "endpoint ADDRESS", "weights FORMAT", "dtype TYPE",
                   "kv_tokens TOKENS", "policies LIST"}},
                 {"Texts",
                  {"prompts FILE", "synthetic_prompts N", "max_prompts N", "prompt_tokens N",
                   "shared_prefix N", "max_new_tokens N", "temperatures LIST", "settings LIST",
                   "batch_sizes LIST", "seed N", "rounding LOGITS"}},
                 {"Distributions", {"walks N", "tree_nodes N"}},
                 bastion::nn::DeviceFlagGroup()}};
  return bastion::RunProgram(argc, argv, info, [](const auto&) { return bastion::Run(); });
}
