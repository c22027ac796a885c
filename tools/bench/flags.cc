#include "tools/bench/flags.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/flags/sampling.h"
#include "common/base/status.h"
#include "engine/program/flags.h"
#include "orchestrator/policy/policy.h"
#include "tools/bench/flag_values.h"
#include "tools/bench/prompts.h"

ABSL_FLAG(std::string, target, "",
          "Folder or GGUF file of the target model. With --endpoint only its tokenizer is read.");
ABSL_FLAG(std::string, drafter, "",
          "Folder of the drafter. Not used with --endpoint. Policies ar and ngram need none.");
ABSL_FLAG(std::string, prior, "",
          "Transition table for +prior: a file or a folder. Empty: the one in the drafter's "
          "folder, if it has one.");
ABSL_FLAG(std::string, drafter_weights, "", bastion::nn::kDrafterWeightsHelp);
ABSL_FLAG(int, draft_vocabulary, 0,
          "Draft only this many tokens, the most frequent ones in the drafter's transition table, "
          "with a smaller LM head. Without --endpoint only. 0: all tokens.");
ABSL_FLAG(std::string, endpoint, "",
          "Address of a running orchestrator to measure. Empty: run both engines in this process.");
ABSL_FLAG(
    std::string, prompts, "",
    "File of JSON lines with an \"id\" and \"text\", \"token_ids\", \"messages\" or \"turns\".");
ABSL_FLAG(
    std::string, template_args, "{}",
    "JSON object of further variables of the chat template, e.g. {\"enable_thinking\": false}.");
ABSL_FLAG(std::vector<std::string>, policies, {},
          "Speculation policies to compare, separated by commas; NAME=VALUE is an option of the "
          "policy before it. Include ar: speedups are relative to it. Default: "
          "ar,chain,fixed:16,fixed:64,adaptive, or those of the suite.");
ABSL_FLAG(std::optional<int>, max_new_tokens, std::nullopt,
          "Limit for the tokens of an answer. Default: 128, or that of the suite.");
ABSL_FLAG(std::optional<int>, warmup, std::nullopt,
          "Prompts that each policy runs first and that do not count. Default: 0, or those of the "
          "suite.");
ABSL_FLAG(std::optional<int>, max_rows, std::nullopt,
          "Rows of the largest verify forward without --endpoint. A tree has at most one node "
          "less. Default: 512, or those of the suite.");
ABSL_FLAG(std::vector<std::string>, concurrency, {},
          "Closed loop: requests that are live at the same time. A list runs several levels. "
          "Default: 1, or those of the suite.");
ABSL_FLAG(std::vector<std::string>, rate, {},
          "Open loop: mean arrivals per second (a Poisson process). A list runs several levels. "
          "Replaces --concurrency.");
ABSL_FLAG(std::string, arrivals, "",
          "Open loop: file of JSON lines {\"at_seconds\", \"id\" or \"text\" or "
          "\"token_ids\", \"max_new_tokens\"}. Replaces --concurrency.");
ABSL_FLAG(int, repeat, 1, "Number of times that each level runs every prompt.");
ABSL_FLAG(double, duration, 0,
          "Seconds after which no further request starts. The prompts repeat until then. 0: no "
          "limit.");
ABSL_FLAG(std::optional<int>, rounds, std::nullopt,
          "Number of rounds. In each round all policies run all levels; their order rotates. "
          "Default: 1, or those of the suite.");
ABSL_FLAG(bool, cold, false,
          "Forget at each round what the policies learned. Without --endpoint only.");
ABSL_FLAG(int, max_running, 32,
          "Open loop without --endpoint: requests that are decoded together. Further ones wait.");
ABSL_FLAG(double, latency_target, 0,
          "Milliseconds. Goodput counts requests whose 99th percentile of gaps between outputs is "
          "at most this. 0: no limit.");
ABSL_FLAG(double, ttft_target, 0,
          "Milliseconds. Goodput counts requests whose first output comes within this time. 0: no "
          "limit.");
ABSL_FLAG(bool, ignore_eos, false,
          "Ignore the end-of-text token: always generate --max_new_tokens.");
ABSL_FLAG(float, temperature, 0, "Sampling temperature. 0: greedy.");
ABSL_FLAG(uint64_t, seed, 1, "Random seed for sampling.");
ABSL_FLAG(std::vector<std::string>, temperatures, {},
          "With suite: sampling temperatures, separated by commas. Default: those of the suite.");
ABSL_FLAG(std::vector<std::string>, seeds, {},
          "With suite: random seeds, separated by commas. Default: those of the suite.");
ABSL_FLAG(std::vector<std::string>, prompt_tokens, {},
          "With suite: lengths to which prompts are cut or filled up, separated by commas. "
          "Default: those of the suite.");
ABSL_FLAG(std::vector<std::string>, drafters, {},
          "With suite: folders of the further drafters that its policies name after @, e.g. "
          "\"medusa=DIR,eagle3=DIR\".");
ABSL_FLAG(std::optional<int>, prompts_per_dataset, std::nullopt,
          "With suite: use the first prompts of each dataset only. 0: all. Default: that of the "
          "suite.");
ABSL_FLAG(bool, quick, false,
          "With suite: one prompt of each dataset and few tokens, to see in minutes that the suite "
          "works. Other flags still replace these numbers.");
ABSL_FLAG(std::string, sampling, "",
          "Further sampling parameters, e.g. \"top_k=40,top_p=0.9,repetition_penalty=1.1\".");
ABSL_FLAG(
    int, kv_tokens, 65536,
    "Capacity of each model's KV cache in tokens, for all requests. Without --endpoint only.");
ABSL_FLAG(int64_t, feature_bytes, int64_t{1} << 30,
          "Bytes of host memory for the features of all open requests. Without --endpoint only.");
ABSL_FLAG(int, attention_sinks, 0,
          "Tokens at the begin of a text that the target always attends to. Requires "
          "--attention_window. Without --endpoint only.");
ABSL_FLAG(int, attention_window, 0,
          "Last tokens that the target attends to besides the sinks (StreamingLLM). 0: all. "
          "Without --endpoint only.");
ABSL_FLAG(std::string, latency_profile, "",
          "File of measured verify times. If it exists, nothing is measured at the start, else it "
          "is written. It belongs to one target and one device. Without --endpoint only. Empty: "
          "measure at every start.");
ABSL_FLAG(
    bool, texts_may_differ, false,
    "Count outputs that differ from another policy's in the report, and do not fail because of "
    "them. On a GPU in fp32 or with --gemm cublaslt some do: products of more rows round "
    "differently.");
ABSL_FLAG(std::string, report, "",
          "Folder for the measurements, their report and plots. Empty: none.");
ABSL_FLAG(bool, reliability, false,
          "Report how calibrated acceptance probabilities are. Without --endpoint only.");
ABSL_FLAG(std::string, acceptance_calibration, "",
          "File of the calibration of acceptance. Policies begin with its counts, and it holds "
          "their counts afterwards. It is created if it does not exist. Without --endpoint only. "
          "Empty: begin without counts.");
ABSL_FLAG(std::string, record, "",
          "File to write a JSON line per cycle to: sizes, measured times and predictions. Without "
          "--endpoint only. Empty: none.");
ABSL_FLAG(std::string, replayed_profile, "",
          "Draft with the acceptance of this profile and the forwards of the drafter "
          "(docs/experiments.md). Without --endpoint only. Empty: the drafter's own drafts.");
ABSL_FLAG(std::string, record_acceptance, "",
          "File for a profile of the drafter's acceptance. Without --endpoint only. Empty: none.");
ABSL_FLAG(std::string, texts, "",
          "File for the generated texts, for bastion-drafter --replayed_texts. Empty: none.");
ABSL_FLAG(std::string, replay, "",
          "Only compare the latency estimators on a file of --record. Needs no models.");
ABSL_FLAG(bool, roofline, false,
          "Only measure how close forwards come to the limits of this machine's memory and "
          "arithmetic.");
ABSL_FLAG(std::vector<std::string>, contexts, {"256"},
          "With --roofline: cached tokens, in ascending order, separated by commas.");
ABSL_FLAG(std::vector<std::string>, rows,
          (std::vector<std::string>{"1", "2", "4", "8", "16", "32", "64", "128"}),
          "With --roofline: rows of a verify forward, separated by commas.");
ABSL_FLAG(bool, rounding, false, "Only compare the int8 target with the bf16 target.");
ABSL_FLAG(bool, rejection_sampling, false,
          "Only compare the keyed acceptance of chains with rejection sampling (linear:K, chain).");

namespace bastion {
namespace {

// Live requests of a load. Through services, each has a thread in this process.
constexpr int kMaxLive = 4096;
constexpr char kDefaultPolicies[] = "ar,chain,fixed:16,fixed:64,adaptive";
constexpr char kDefaultChains[] = "linear:4,linear:6";
constexpr int kDefaultNewTokens = 128;
constexpr int kThreads = 2;  // Without --threads.

absl::Status AtLeast(const char* flag, std::optional<int64_t> value, int least) {
  if (!value.has_value() || *value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is ", *value, "; it must be at least ", least));
}

// INVALID_ARGUMENT if a number that suites have, too, is out of range.
absl::Status CheckCounts() {
  RETURN_IF_ERROR(AtLeast("--max_new_tokens", absl::GetFlag(FLAGS_max_new_tokens), 1));
  RETURN_IF_ERROR(AtLeast("--rounds", absl::GetFlag(FLAGS_rounds), 1));
  RETURN_IF_ERROR(AtLeast("--warmup", absl::GetFlag(FLAGS_warmup), 0));
  RETURN_IF_ERROR(AtLeast("--max_rows", absl::GetFlag(FLAGS_max_rows), 2));
  RETURN_IF_ERROR(AtLeast("--kv_tokens", absl::GetFlag(FLAGS_kv_tokens), 1));
  RETURN_IF_ERROR(AtLeast("--draft_vocabulary", absl::GetFlag(FLAGS_draft_vocabulary), 0));
  RETURN_IF_ERROR(AtLeast("--feature_bytes", absl::GetFlag(FLAGS_feature_bytes), 0));
  return AtLeast("--prompts_per_dataset", absl::GetFlag(FLAGS_prompts_per_dataset), 0);
}

// INVALID_ARGUMENT if the flags contradict each other or a number is out of range.
absl::Status CheckLoadFlags() {
  const bool rate = !absl::GetFlag(FLAGS_rate).empty();
  const bool arrivals = !absl::GetFlag(FLAGS_arrivals).empty();
  if (rate && arrivals) {
    return absl::InvalidArgumentError("--rate and --arrivals are both given; give one of them");
  }
  if (arrivals && (absl::GetFlag(FLAGS_duration) > 0 || absl::GetFlag(FLAGS_repeat) != 1)) {
    return absl::InvalidArgumentError(
        "--duration and --repeat have no effect with --arrivals; remove them");
  }
  RETURN_IF_ERROR(CheckCounts());
  RETURN_IF_ERROR(AtLeast("--repeat", absl::GetFlag(FLAGS_repeat), 1));
  RETURN_IF_ERROR(AtLeast("--max_running", absl::GetFlag(FLAGS_max_running), 1));
  const std::pair<const char*, double> limits[] = {
      {"--duration", absl::GetFlag(FLAGS_duration)},
      {"--latency_target", absl::GetFlag(FLAGS_latency_target)},
      {"--ttft_target", absl::GetFlag(FLAGS_ttft_target)}};
  for (const auto& [flag, value] : limits) {
    if (value >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " is ", value, "; it must be positive, or 0 for no limit"));
  }
  return absl::OkStatus();
}

// Options of policies have commas, too.
std::vector<std::string> PoliciesFlag() {
  return SplitPolicies(absl::StrJoin(absl::GetFlag(FLAGS_policies), ","));
}

absl::StatusOr<ComparisonOptions> ReadComparison() {
  ComparisonOptions comparison = {PoliciesFlag(), absl::GetFlag(FLAGS_rounds).value_or(1),
                                  absl::GetFlag(FLAGS_cold),
                                  absl::GetFlag(FLAGS_warmup).value_or(0)};
  const bool chains = absl::GetFlag(FLAGS_rejection_sampling);
  const char* const policies = chains ? kDefaultChains : kDefaultPolicies;
  if (comparison.policies.empty()) comparison.policies = absl::StrSplit(policies, ',');
  if (!absl::GetFlag(FLAGS_endpoint).empty()) return comparison;  // The services check the names.
  for (const std::string& policy : comparison.policies) {
    RETURN_IF_ERROR(Policy::Parse(policy).status());
  }
  return comparison;
}

// Infinite for 0.
double Limit(double value) { return value > 0 ? value : std::numeric_limits<double>::infinity(); }

LocalOptions ReadLocalOptions() {
  LocalOptions local;
  local.target_folder = absl::GetFlag(FLAGS_target);
  local.drafter_folder = absl::GetFlag(FLAGS_drafter);
  local.formats = nn::FormatFlags();
  local.drafter_weights = absl::GetFlag(FLAGS_drafter_weights);
  local.draft_vocabulary = absl::GetFlag(FLAGS_draft_vocabulary);
  local.prior = absl::GetFlag(FLAGS_prior);
  local.replayed_profile = absl::GetFlag(FLAGS_replayed_profile);
  local.records_acceptance = !absl::GetFlag(FLAGS_record_acceptance).empty();
  local.device = nn::DeviceFlags(kThreads);
  local.show_progress = true;
  local.memory.max_rows = absl::GetFlag(FLAGS_max_rows).value_or(local.memory.max_rows);
  local.memory.kv_tokens = absl::GetFlag(FLAGS_kv_tokens);
  local.memory.feature_bytes = absl::GetFlag(FLAGS_feature_bytes);
  local.memory.streaming = {absl::GetFlag(FLAGS_attention_sinks),
                            absl::GetFlag(FLAGS_attention_window)};
  return local;
}

absl::StatusOr<LoadOptions> ReadLoadOptions() {
  RETURN_IF_ERROR(CheckLoadFlags());
  LoadOptions load;
  ASSIGN_OR_RETURN(load.rates, ParseNumbers<double>("--rate", absl::GetFlag(FLAGS_rate)));
  load.arrivals = absl::GetFlag(FLAGS_arrivals);
  if (load.rates.empty() && load.arrivals.empty()) {
    ASSIGN_OR_RETURN(
        load.concurrency,
        ParseNumbers<int>("--concurrency", absl::GetFlag(FLAGS_concurrency), kMaxLive));
    if (load.concurrency.empty()) load.concurrency = {1};
  }
  load.repeat = absl::GetFlag(FLAGS_repeat);
  if (absl::GetFlag(FLAGS_duration) > 0) {
    load.duration = absl::Seconds(absl::GetFlag(FLAGS_duration));
  }
  load.max_running =
      absl::GetFlag(FLAGS_endpoint).empty() ? absl::GetFlag(FLAGS_max_running) : kMaxLive;
  return load;
}

absl::StatusOr<BenchSettings> ReadSettings() {
  BenchSettings settings;
  ASSIGN_OR_RETURN(settings.sampling, ParseSampling(absl::GetFlag(FLAGS_sampling)));
  settings.sampling.temperature = absl::GetFlag(FLAGS_temperature);
  settings.sampling.seed = absl::GetFlag(FLAGS_seed);
  settings.max_new_tokens = absl::GetFlag(FLAGS_max_new_tokens).value_or(kDefaultNewTokens);
  settings.reliability = absl::GetFlag(FLAGS_reliability);
  settings.ignore_eos = absl::GetFlag(FLAGS_ignore_eos);
  return settings;
}

// Whether a policy of --policies drafts with a model.
bool PoliciesDraft() {
  const std::vector<std::string> policies = PoliciesFlag();
  return policies.empty() || std::any_of(policies.begin(), policies.end(), [](const auto& policy) {
           const std::string name = policy.substr(0, policy.find_first_of(":+"));
           return name != "ar" && name != "ngram";
         });
}

// INVALID_ARGUMENT if a flag that `mode` needs is empty.
absl::Status CheckRequired(BenchMode mode, const std::string& example) {
  if (mode == BenchMode::kReplay) return absl::OkStatus();
  const bool local = absl::GetFlag(FLAGS_endpoint).empty() || mode == BenchMode::kRoofline;
  const bool needs_prompts = mode != BenchMode::kRoofline && absl::GetFlag(FLAGS_arrivals).empty();
  const char* missing = nullptr;
  if (needs_prompts && absl::GetFlag(FLAGS_prompts).empty()) missing = "--prompts";
  const bool drafts = mode != BenchMode::kCompare || PoliciesDraft() ||
                      !absl::GetFlag(FLAGS_replayed_profile).empty() ||
                      !absl::GetFlag(FLAGS_record_acceptance).empty();
  if (local && drafts && absl::GetFlag(FLAGS_drafter).empty()) missing = "--drafter";
  if (absl::GetFlag(FLAGS_target).empty()) missing = "--target";
  if (missing != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(missing, " is missing. Example: bastion-bench ", example));
  }
  const char* local_only = nullptr;
  if (!absl::GetFlag(FLAGS_record).empty()) local_only = "--record";
  if (!absl::GetFlag(FLAGS_acceptance_calibration).empty()) local_only = "--acceptance_calibration";
  if (!absl::GetFlag(FLAGS_latency_profile).empty()) local_only = "--latency_profile";
  if (absl::GetFlag(FLAGS_attention_window) != 0) local_only = "--attention_window";
  if (absl::GetFlag(FLAGS_draft_vocabulary) != 0) local_only = "--draft_vocabulary";
  if (!absl::GetFlag(FLAGS_replayed_profile).empty()) local_only = "--replayed_profile";
  if (!absl::GetFlag(FLAGS_record_acceptance).empty()) local_only = "--record_acceptance";
  if (absl::GetFlag(FLAGS_reliability)) local_only = "--reliability";
  if (absl::GetFlag(FLAGS_cold)) local_only = "--cold";
  if (local || local_only == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(local_only, " needs engines in this process; remove it or --endpoint"));
}

}  // namespace

absl::StatusOr<BenchFlags> ReadFlags(const std::string& example) {
  BenchFlags flags;
  if (absl::GetFlag(FLAGS_roofline)) flags.mode = BenchMode::kRoofline;
  if (absl::GetFlag(FLAGS_rounding)) flags.mode = BenchMode::kRounding;
  if (absl::GetFlag(FLAGS_rejection_sampling)) flags.mode = BenchMode::kRejection;
  if (!absl::GetFlag(FLAGS_replay).empty()) flags.mode = BenchMode::kReplay;
  RETURN_IF_ERROR(CheckRequired(flags.mode, example));
  flags.session.local = ReadLocalOptions();
  flags.session.endpoint = absl::GetFlag(FLAGS_endpoint);
  flags.session.files = {absl::GetFlag(FLAGS_record), absl::GetFlag(FLAGS_acceptance_calibration),
                         absl::GetFlag(FLAGS_latency_profile),
                         absl::GetFlag(FLAGS_record_acceptance)};
  flags.prompts = {absl::GetFlag(FLAGS_prompts), absl::GetFlag(FLAGS_template_args)};
  flags.report = ReportFlag();
  flags.texts_may_differ = absl::GetFlag(FLAGS_texts_may_differ);
  flags.replay = absl::GetFlag(FLAGS_replay);
  flags.texts = absl::GetFlag(FLAGS_texts);
  ASSIGN_OR_RETURN(flags.settings, ReadSettings());
  ASSIGN_OR_RETURN(flags.load, ReadLoadOptions());
  ASSIGN_OR_RETURN(flags.comparison, ReadComparison());
  flags.targets = {Limit(1e-3 * absl::GetFlag(FLAGS_latency_target)),
                   Limit(1e-3 * absl::GetFlag(FLAGS_ttft_target))};
  ASSIGN_OR_RETURN(flags.roofline.rows, ParseNumbers<int>("--rows", absl::GetFlag(FLAGS_rows)));
  ASSIGN_OR_RETURN(flags.roofline.contexts,
                   ParseNumbers<int>("--contexts", absl::GetFlag(FLAGS_contexts)));
  return flags;
}

absl::StatusOr<SuiteFlags> ReadSuiteFlags() {
  RETURN_IF_ERROR(CheckCounts());
  if (!absl::GetFlag(FLAGS_record_acceptance).empty() || !absl::GetFlag(FLAGS_texts).empty()) {
    return absl::InvalidArgumentError("--record_acceptance and --texts do not work with suite");
  }
  SuiteFlags flags;
  flags.options.local = ReadLocalOptions();
  flags.options.endpoint = absl::GetFlag(FLAGS_endpoint);
  flags.options.template_args = absl::GetFlag(FLAGS_template_args);
  flags.options.ignore_eos = absl::GetFlag(FLAGS_ignore_eos);
  SuiteOverrides& overrides = flags.overrides;
  flags.quick = absl::GetFlag(FLAGS_quick);
  flags.texts_may_differ = absl::GetFlag(FLAGS_texts_may_differ);
  overrides.models = {absl::GetFlag(FLAGS_target), absl::GetFlag(FLAGS_drafter),
                      absl::GetFlag(FLAGS_prompts)};
  ASSIGN_OR_RETURN(overrides.models.drafters,
                   ParseFolders("--drafters", absl::GetFlag(FLAGS_drafters)));
  overrides.policies = PoliciesFlag();
  for (const std::string& text : absl::GetFlag(FLAGS_temperatures)) {
    float temperature = 0;
    if (!absl::SimpleAtof(text, &temperature) || !(temperature >= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--temperatures: \"", text, "\" is not a number of at least 0"));
    }
    overrides.temperatures.push_back(temperature);
  }
  ASSIGN_OR_RETURN(overrides.seeds, ParseNumbers<uint64_t>("--seeds", absl::GetFlag(FLAGS_seeds)));
  ASSIGN_OR_RETURN(overrides.concurrencies,
                   ParseNumbers<int>("--concurrency", absl::GetFlag(FLAGS_concurrency), kMaxLive));
  ASSIGN_OR_RETURN(overrides.prompt_tokens,
                   ParseNumbers<int>("--prompt_tokens", absl::GetFlag(FLAGS_prompt_tokens)));
  if (const auto limit = absl::GetFlag(FLAGS_max_new_tokens)) overrides.max_new_tokens = {*limit};
  overrides.warmup = absl::GetFlag(FLAGS_warmup);
  overrides.rounds = absl::GetFlag(FLAGS_rounds);
  overrides.prompts_per_dataset = absl::GetFlag(FLAGS_prompts_per_dataset);
  overrides.max_rows = absl::GetFlag(FLAGS_max_rows);
  flags.report = ReportFlag();
  return flags;
}

std::string ReportFlag() { return absl::GetFlag(FLAGS_report); }

}  // namespace bastion
