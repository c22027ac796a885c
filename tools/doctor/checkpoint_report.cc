#include "tools/doctor/checkpoint_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/machine_memory.h"
#include "kernels/ops/probe.h"

namespace bastion::doctor {
namespace {

constexpr char kVerifier[] = "bastion-verifier";
constexpr char kDrafter[] = "bastion-drafter";
constexpr char kOrchestrator[] = "bastion-orchestrator";
constexpr int64_t kFeatureBytes = int64_t{1} << 30;  // Default of bastion-verifier --feature_bytes.
constexpr int kContext = 512;                        // For estimates of speed.
constexpr int kVerifyRows[] = {1, 8, 32};

nn::EngineOptions EngineOptionsOf(const CheckpointOptions& options, const nn::Formats& formats) {
  nn::EngineOptions engine;
  engine.formats = formats;
  engine.device = options.device;
  return engine;
}

std::string RemedyFor(const absl::Status& status, const std::string& service) {
  const absl::string_view message = status.message();
  if (status.ok()) return "";
  if (absl::StrContains(message, "trained for another target")) {
    return "Use the drafter that was trained for this target.";
  }
  if (absl::IsFailedPrecondition(status)) {
    return "Or remove the table: the orchestrator runs without --prior.";
  }
  if (absl::StrContains(message, "tensor '")) {
    return "The weights do not fit config.json or the metadata: the folder mixes files of two "
           "models, or a download is incomplete. Download the model again.";
  }
  if (absl::IsNotFound(status)) {
    return "Pass the folder of a complete Hugging Face checkpoint: config.json, *.safetensors and, "
           "for a target, tokenizer.json. Or pass a GGUF file.";
  }
  if (absl::IsUnimplemented(status) || absl::StrContains(message, "architectures")) {
    return "Choose another model: the engines do not implement this one.";
  }
  if (service == kOrchestrator) {
    return "Copy the named file from the model's repository again.";
  }
  return "Correct the named value, or download the folder again.";
}

void AddVerdict(const char* service, const absl::Status& status, CheckpointReport* report) {
  report->verdicts.push_back({service, status, RemedyFor(status, service)});
}

// Bytes of the rotary table and of the buffers for `rows` rows, `logit_rows` of them with logits.
int64_t BufferBytes(const CheckedModel& model, int64_t rows, int64_t logit_rows) {
  const hub::ModelConfig& config = model.config;
  const ModelDims& dims = config.dims;
  const int64_t attention = int64_t{dims.head_dim} * (2 * dims.kv_heads + 2 * dims.query_heads);
  const hub::ExpertsConfig& experts = config.blocks.experts;
  const int64_t chosen = experts.count + experts.chosen * (2 * int64_t{dims.hidden} +
                                                           3 * int64_t{experts.intermediate});
  const int64_t width =
      3 * int64_t{dims.hidden} + attention + 3 * int64_t{dims.intermediate} + chosen;
  const int64_t floats = rows * (width + model.feature_width) + logit_rows * dims.vocabulary +
                         int64_t{config.max_positions} * config.blocks.rope.dims;
  return floats * static_cast<int64_t>(sizeof(float));
}

MemoryNeed NeedOf(const char* service, const CheckedModel& model,
                  const CheckpointOptions& options) {
  MemoryNeed need;
  need.service = service;
  need.weights = model.cost.stored_bytes() + model.table_bytes;
  need.kv_token = model.cost.kv_bytes_per_token;
  need.kv_cache = need.kv_token * options.kv_tokens;
  return need;
}

void AddTargetMemory(const CheckpointOptions& options, CheckpointReport* report) {
  MemoryNeed need = NeedOf(kVerifier, *report->target, options);
  need.buffers = BufferBytes(*report->target, options.max_rows, options.max_rows);
  if (report->drafter.has_value()) {
    const auto row =
        static_cast<int64_t>(Bytes(options.formats.activations, report->drafter->feature_width));
    need.features = std::min(row * options.kv_tokens, kFeatureBytes);
  }
  report->memory.push_back(need);
}

void AddDrafterMemory(const CheckpointOptions& options, CheckpointReport* report) {
  MemoryNeed need = NeedOf(kDrafter, *report->drafter, options);
  const int64_t rows = int64_t{options.max_running} * report->drafter->rows;
  const int64_t logit_rows = int64_t{options.max_running} * report->drafter->logit_rows;
  need.buffers =
      BufferBytes(*report->drafter, std::max<int64_t>(rows, options.max_rows), logit_rows);
  report->memory.push_back(need);
}

}  // namespace

bool CheckpointReport::runs() const {
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](const Verdict& verdict) { return verdict.status.ok(); });
}

int64_t CheckpointReport::total_memory() const {
  int64_t total = 0;
  for (const MemoryNeed& need : memory) total += need.total();
  return total;
}

CheckpointReport CheckCheckpoints(const CheckpointOptions& options) {
  CheckpointReport report;
  auto target = CheckTarget(options.target, EngineOptionsOf(options, options.formats));
  AddVerdict(kVerifier, target.status(), &report);
  if (target.ok()) report.target = *std::move(target);
  if (!options.drafter.empty()) {
    auto drafter = CheckDrafter(options.drafter, options.target,
                                EngineOptionsOf(options, options.drafter_formats));
    AddVerdict(kDrafter, drafter.status(), &report);
    if (drafter.ok()) report.drafter = *std::move(drafter);
  }
  const auto table_bytes = CheckServing(options.target, options.drafter);
  AddVerdict(kOrchestrator, table_bytes.status(), &report);
  if (report.target.has_value()) AddTargetMemory(options, &report);
  if (report.drafter.has_value()) AddDrafterMemory(options, &report);
  if (table_bytes.ok() && *table_bytes > 0) {
    report.memory.push_back({.service = kOrchestrator, .weights = *table_bytes});
  }
  if (!report.target.has_value()) return report;
  for (const WeightFormat format : kWeightFormats) {
    const auto model =
        CheckTarget(options.target, EngineOptionsOf(options, nn::FormatsFor(format)));
    if (!model.ok()) continue;
    report.weights_by_format.emplace_back(format, model->cost.stored_bytes() + model->table_bytes);
  }
  return report;
}

MeasuredLimits MeasureLimits(const CheckpointOptions& options) {
  const nn::HostKernels& host = options.device->host();
  MeasuredLimits limits;
  limits.device = options.device->Describe();
  limits.bytes_per_second = kernels::ReadBandwidth(*host.pool);
  limits.target_flops = kernels::LinearRate(*host.backend, options.formats.weights, *host.pool);
  limits.drafter_flops =
      options.drafter_formats.weights == options.formats.weights
          ? limits.target_flops
          : kernels::LinearRate(*host.backend, options.drafter_formats.weights, *host.pool);
  limits.free_memory = AvailableMemory();
  return limits;
}

std::vector<EstimatedForward> EstimateForwards(const CheckpointReport& report) {
  std::vector<EstimatedForward> forwards;
  const auto add = [&](const char* name, const nn::ForwardCost& cost, int rows, double flops) {
    const double bytes =
        cost.ReadBytes(rows) + static_cast<double>(kContext * cost.kv_bytes_per_token);
    const double multiply_adds = static_cast<double>(cost.multiply_adds_per_row) * rows;
    const double seconds =
        std::max(bytes / report.limits.bytes_per_second, 2 * multiply_adds / flops);
    forwards.push_back({name, rows, kContext, seconds});
  };
  if (report.target.has_value()) {
    for (const int rows : kVerifyRows) {
      add(rows == 1 ? "decode" : "verify", report.target->cost, rows, report.limits.target_flops);
    }
  }
  if (report.drafter.has_value()) {
    add("draft", report.drafter->cost, report.drafter->rows, report.limits.drafter_flops);
  }
  return forwards;
}

}  // namespace bastion::doctor
