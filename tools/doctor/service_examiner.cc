#include "tools/doctor/service_examiner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "bastion/generation_client.h"
#include "bastion/inspection_client.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "tools/doctor/recording.h"

namespace bastion::doctor {
namespace {

// Recorded trees are as large as a cycle of this many times the time of a plain one allows. Larger
// trees rarely pay. Much larger ones would mislead: a cycle passes over all text that is easy to
// predict, and most cycles begin where the text is hard.
constexpr double kLongestCycle = 2;
constexpr int kLeastNodes = 8, kMostNodes = 64;
constexpr int kMaxNodes = 4096;  // Limit of GetCosts.

// Tokens of each request that teach the latency model what batches cost.
constexpr int kPlainTokens = 32;
constexpr int kSpeculativeTokens = 64;

constexpr int kForwardRows[] = {1, 2, 4, 8, 16, 32, 64, 128};

// The requests of one policy, one at a time.
struct Recording {
  std::string policy = {};
  bool keep_trees = false;
  // Sums over the requests.
  int requests = 0;
  double prompt_tokens = 0, output_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0, draft_seconds = 0;
  int table_nodes = 0;
  std::vector<RecordedTree> trees = {};

  [[nodiscard]] double seconds() const { return prefill_seconds + decode_seconds; }
  void Add(RecordedRequest request);
};

void Recording::Add(RecordedRequest request) {
  ++requests;
  prompt_tokens += request.prompt_tokens;
  output_tokens += request.output_tokens;
  prefill_seconds += request.prefill_seconds;
  decode_seconds += request.decode_seconds;
  draft_seconds += request.draft_seconds;
  table_nodes += request.table_nodes;
  std::move(request.trees.begin(), request.trees.end(), std::back_inserter(trees));
}

class Examiner {
 public:
  explicit Examiner(const ExamineOptions& options)
      : options_(options), client_(options.endpoint), inspection_(options.endpoint) {
    absl::BitGen bits;
    salt_ = absl::StrCat("doctor-", absl::Hex(absl::Uniform<uint64_t>(bits)));
  }

  absl::StatusOr<ServiceReport> Examine();

 private:
  // The steps are the prompts and the levels.
  void ShowProgress(size_t done) const {
    const size_t steps = options_.prompts.size() + options_.concurrency.size();
    options_.progress(static_cast<int>(done), static_cast<int>(steps));
  }
  // What the server says about itself.
  absl::Status AskServer();
  // Chooses the size of the recorded trees.
  static int ChooseNodes(const v1::GetCostsResponse& costs);
  // Decodes the prompts with each policy. The policies take turns, so that noise affects all.
  absl::Status RecordPrompts();
  void DescribePrompts();
  absl::Status TimeForwards();
  // Decodes a few tokens at each concurrency, and then asks for the costs of such batches. Ends at
  // a concurrency that the server does not reach.
  absl::Status CompareLevels();
  absl::Status TeachCosts(int requests);
  [[nodiscard]] absl::StatusOr<v1::GetCostsResponse> Costs(int requests, int context, int nodes);
  [[nodiscard]] absl::StatusOr<Level> Compare(int requests);
  // Replaces the modeled speedups by measured ones, as far as they are known.
  void CorrectSpeedups();

  const ExamineOptions& options_;
  GenerationClient client_;
  InspectionClient inspection_;
  std::string salt_;
  int tree_nodes_ = kLeastNodes;
  Recording plain_ = {.policy = "ar"};
  Recording default_ = {.policy = "default"};
  Recording draft_free_ = {.keep_trees = true};
  Recording drafted_ = {.keep_trees = true};
  ServiceReport report_;
};

int Examiner::ChooseNodes(const v1::GetCostsResponse& costs) {
  const auto& seconds = costs.cycle_seconds();
  int nodes = kLeastNodes;
  while (nodes + 1 < seconds.size() && seconds[nodes + 1] <= kLongestCycle * seconds[0]) ++nodes;
  return nodes;
}

absl::Status Examiner::AskServer() {
  ASSIGN_OR_RETURN(const v1::ListModelsResponse models, client_.ListModels());
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info, client_.GetServerInfo());
  ASSIGN_OR_RETURN(const v1::GetCostsResponse costs, Costs(1, 0, kMostNodes));
  if (models.models_size() > 0) {
    report_.drafter = models.models(0).drafter();
    report_.drafter_features = models.models(0).drafter_features();
  }
  report_.policy = info.default_policy();
  report_.other_requests = static_cast<int>(info.running_requests() + info.waiting_requests());
  const v1::TargetLimits& target = costs.target();
  report_.model = target.model();
  report_.device = target.device();
  report_.forward_bytes = target.forward_bytes();
  report_.bytes_per_second = target.bytes_per_second();
  report_.flops_per_second = target.flops_per_second();
  report_.max_context = static_cast<int>(target.max_context());
  report_.max_rows = static_cast<int>(target.max_rows());
  report_.kv_tokens = static_cast<int>(target.kv_tokens());
  tree_nodes_ = ChooseNodes(costs);
  draft_free_.policy = absl::StrCat("ngram:", tree_nodes_);
  // "+coupled" has no effect at temperature 0.
  drafted_.policy = absl::StrCat("fixed:", tree_nodes_, "+coupled+prior");
  return absl::OkStatus();
}

absl::Status Examiner::RecordPrompts() {
  std::vector<Recording*> recordings = {&plain_, &default_, &draft_free_};
  if (!report_.drafter.empty()) recordings.push_back(&drafted_);
  const absl::Duration began = Clock::Real().Now();
  for (size_t i = 0; i < options_.prompts.size(); ++i) {
    if (i > 0 && Clock::Real().Now() - began > options_.recording_time) break;
    ShowProgress(i);
    std::rotate(recordings.begin(), recordings.begin() + 1, recordings.end());
    for (Recording* const recording : recordings) {
      const DecodeOptions decode = {.policy = recording->policy,
                                    .temperature = options_.temperature,
                                    .max_new_tokens = options_.max_new_tokens,
                                    .salt = absl::StrCat(salt_, recording->policy, "-", i),
                                    .trees = recording->keep_trees};
      ASSIGN_OR_RETURN(RecordedRequest request, RunRequest(client_, options_.prompts[i], decode));
      recording->Add(std::move(request));
    }
  }
  DescribePrompts();
  return absl::OkStatus();
}

void Examiner::DescribePrompts() {
  RecordedPrompts& prompts = report_.prompts;
  prompts.built_in = options_.built_in_prompts;
  prompts.requests = plain_.requests;
  prompts.left_out = static_cast<int>(options_.prompts.size()) - plain_.requests;
  prompts.prompt_tokens = plain_.prompt_tokens / plain_.requests;
  prompts.output_tokens = plain_.output_tokens / plain_.requests;
  prompts.prefill_seconds = plain_.prefill_seconds / plain_.requests;
  prompts.plain_seconds = plain_.decode_seconds / plain_.requests;
  prompts.uses_table = draft_free_.table_nodes + drafted_.table_nodes > 0;
}

absl::Status Examiner::TeachCosts(int requests) {
  // Plain decoding comes before and after speculation, so that a machine that becomes slower or
  // faster meanwhile favors neither.
  for (const Recording* const recording : {&plain_, &default_, &plain_}) {
    const bool plain = recording == &plain_;
    ASSIGN_OR_RETURN(const std::vector<RecordedRequest> ended,
                     RunTogether(client_, options_.prompts, requests,
                                 {.policy = recording->policy,
                                  .temperature = options_.temperature,
                                  .max_new_tokens = plain ? kPlainTokens : kSpeculativeTokens,
                                  .salt = salt_}));
    if (std::any_of(ended.begin(), ended.end(),
                    [](const RecordedRequest& request) { return request.waited_for_room; })) {
      report_.unreached_requests = requests;
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::GetCostsResponse> Examiner::Costs(int requests, int context, int nodes) {
  v1::GetCostsRequest request;
  request.set_requests(requests);
  request.set_context(context);
  request.set_max_nodes(std::min(nodes, kMaxNodes));
  ASSIGN_OR_RETURN(v1::GetCostsResponse costs, inspection_.GetCosts(request));
  const int size = costs.cycle_seconds_size();
  if (size == 0 || costs.cycle_after_draft_seconds_size() != size ||
      costs.forward_seconds_size() != size || costs.roofline_seconds_size() != size ||
      costs.draft_seconds_size() <= requests) {
    return absl::InternalError("the server's costs are incomplete; it has another version");
  }
  return costs;
}

absl::Status Examiner::TimeForwards() {
  for (const int context : options_.contexts) {
    if (context > report_.max_context) continue;
    ASSIGN_OR_RETURN(const v1::GetCostsResponse costs,
                     Costs(1, context, *std::prev(std::end(kForwardRows)) - 1));
    for (const int rows : kForwardRows) {
      if (rows > costs.forward_seconds_size()) break;
      report_.forwards.push_back(
          {rows, context, costs.forward_seconds(rows - 1), costs.roofline_seconds(rows - 1)});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Level> Examiner::Compare(int requests) {
  const RecordedPrompts& prompts = report_.prompts;
  const int context = static_cast<int>(prompts.prompt_tokens + prompts.output_tokens / 2);
  ASSIGN_OR_RETURN(const v1::GetCostsResponse answer,
                   Costs(requests, context, requests * tree_nodes_));
  CycleCosts costs;
  costs.requests = requests;
  costs.without_draft.assign(answer.cycle_seconds().begin(), answer.cycle_seconds().end());
  costs.after_draft.assign(answer.cycle_after_draft_seconds().begin(),
                           answer.cycle_after_draft_seconds().end());
  costs.planning_seconds = answer.planning_seconds();
  Level level;
  level.requests = requests;
  level.plain_seconds = costs.plain_seconds();
  level.planning_seconds = costs.planning_seconds;
  level.draft_free = BestSpeculation(draft_free_.trees, costs, /*drafted=*/false);
  level.modeled_speedup = std::max(1.0, level.draft_free.speedup);
  if (drafted_.trees.empty()) return level;
  // The model leaves out first drafts, which take longer, and drafts that began early. More
  // requests never need less time than one.
  const double one_draft = drafted_.draft_seconds / static_cast<double>(drafted_.trees.size());
  costs.draft_seconds = std::max(answer.draft_seconds(requests), one_draft);
  level.draft_seconds = costs.draft_seconds;
  level.drafted = BestSpeculation(drafted_.trees, costs, /*drafted=*/true);
  level.modeled_speedup = std::max(level.modeled_speedup, level.drafted->speedup);
  return level;
}

void Examiner::CorrectSpeedups() {
  const double plain_rate = plain_.output_tokens / plain_.decode_seconds;
  const double measured = default_.output_tokens / default_.decode_seconds / plain_rate;
  const double modeled = report_.levels[0].requests == 1 ? report_.levels[0].modeled_speedup : 1;
  const RecordedPrompts& prompts = report_.prompts;
  for (Level& level : report_.levels) {
    level.decode_speedup = CorrectedSpeedup(level.modeled_speedup, measured, modeled);
    const double plain_seconds = prompts.output_tokens * level.plain_seconds / level.requests;
    level.speedup = WholeSpeedup(level.decode_speedup, prompts.prefill_seconds, plain_seconds);
    if (level.requests > 1) continue;
    level.decode_speedup = measured;
    level.speedup = plain_.seconds() / default_.seconds();
  }
}

absl::Status Examiner::CompareLevels() {
  for (const int requests : options_.concurrency) {
    if (requests > report_.max_rows) break;
    ShowProgress(options_.prompts.size() + report_.levels.size());
    RETURN_IF_ERROR(TeachCosts(requests));
    if (report_.unreached_requests > 0) break;
    ASSIGN_OR_RETURN(report_.levels.emplace_back(), Compare(requests));
  }
  if (!report_.levels.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--concurrency: the server does not decode ", options_.concurrency[0],
                   " requests together; begin with a smaller number"));
}

absl::StatusOr<ServiceReport> Examiner::Examine() {
  RETURN_IF_ERROR(AskServer());
  RETURN_IF_ERROR(RecordPrompts());
  RETURN_IF_ERROR(CompareLevels());
  RETURN_IF_ERROR(TimeForwards());
  CorrectSpeedups();
  ShowProgress(options_.prompts.size() + options_.concurrency.size());
  return std::move(report_);
}

}  // namespace

absl::StatusOr<ServiceReport> ExamineService(const ExamineOptions& options) {
  return Examiner(options).Examine();
}

}  // namespace bastion::doctor
