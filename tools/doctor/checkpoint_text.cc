#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "client/ctl/printable_text.h"
#include "tools/doctor/checkpoint_report.h"
#include "tools/doctor/text_table.h"

namespace bastion::doctor {
namespace {

using nlohmann::json;

// Measured forwards of models larger than the caches reach this share of their bounds or more
// (docs/measurements.md).
constexpr double kUsualShare = 0.75;

std::string Size(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes >= int64_t{1} << 30 ? absl::StrFormat("%.2f GiB", value / (1 << 30))
                                   : absl::StrFormat("%.1f MiB", value / (1 << 20));
}

std::string ModelLine(const char* name, const std::string& folder,
                      const std::optional<CheckedModel>& model) {
  std::string line = absl::StrFormat("%-8s %s", name, folder.empty() ? "none" : folder);
  if (model.has_value()) {
    const hub::ModelConfig& config = model->config;
    absl::StrAppendFormat(&line, ": %s, %d layers, hidden %d, vocabulary %d", config.architecture,
                          config.dims.layers, config.dims.hidden, config.dims.vocabulary);
    if (model->rows > 1) {
      absl::StrAppendFormat(&line, ", blocks of %d", model->rows);
    } else {
      absl::StrAppendFormat(&line, ", context of up to %d tokens", config.max_positions);
    }
  }
  return line + "\n";
}

std::string VerdictText(const CheckpointReport& report) {
  std::string text = report.runs() ? "\nThe checkpoints run.\n" : "\nThe checkpoints do not run.\n";
  for (const Verdict& verdict : report.verdicts) {
    absl::StrAppendFormat(&text, "  %-21s %s\n", verdict.service,
                          verdict.status.ok() ? "ok" : std::string(verdict.status.message()));
    if (!verdict.status.ok()) absl::StrAppendFormat(&text, "  %-21s %s\n", "", verdict.remedy);
  }
  return text;
}

std::string MemoryText(const CheckpointReport& report, const CheckpointOptions& options) {
  if (report.memory.empty()) return "";
  std::vector<std::vector<std::string>> table = {
      {"", "weights", "KV cache", "features", "buffers", "total"}};
  for (const MemoryNeed& need : report.memory) {
    table.push_back({need.service, Size(need.weights), Size(need.kv_cache), Size(need.features),
                     Size(need.buffers), Size(need.total())});
  }
  std::string text =
      absl::StrFormat("\nMemory with --weights %s and a full KV cache of %d tokens\n",
                      Name(options.formats.weights), options.kv_tokens) +
      TextTable(table) + "  The target's weights in";
  const char* separator = " ";
  for (const auto& [type, bytes] : report.weights_by_format) {
    absl::StrAppendFormat(&text, "%s%s: %s", std::exchange(separator, "; in "), Name(type),
                          Size(bytes));
  }
  absl::StrAppendFormat(&text, ". A token in the verifier's KV cache: %.1f KiB.\n",
                        static_cast<double>(report.memory[0].kv_token) / 1024);
  if (report.limits.free_memory == 0) return text;
  absl::StrAppendFormat(&text, "  Needed: %s. Free: %s.%s\n", Size(report.total_memory()),
                        Size(report.limits.free_memory),
                        report.fits() ? ""
                                      : " This does not fit: lower --kv_tokens, or use --weights "
                                        "int8 or a smaller model.");
  return text;
}

std::string SpeedText(const CheckpointReport& report) {
  if (report.forwards.empty()) return "";
  std::vector<std::vector<std::string>> table = {{"forward", "rows", "least ms", "usual ms"}};
  for (const EstimatedForward& forward : report.forwards) {
    table.push_back({forward.name, absl::StrFormat("%d", forward.rows),
                     absl::StrFormat("%.2f", 1e3 * forward.seconds),
                     absl::StrFormat("%.2f", 1e3 * forward.seconds / kUsualShare)});
  }
  const EstimatedForward& decode = report.forwards.front();
  std::string text = absl::StrFormat("\nSpeed after %d tokens, from the limits of this machine\n",
                                     decode.context) +
                     TextTable(table);
  absl::StrAppendFormat(&text, "  Plain decoding of one request: about %.0f tokens/s.\n",
                        kUsualShare / decode.seconds);
  if (!report.drafter.has_value()) return text;
  const EstimatedForward &verify = report.forwards[1], &draft = report.forwards.back();
  absl::StrAppendFormat(
      &text, "  A cycle of %d rows with a draft beats plain decoding if it commits %.1f tokens.\n",
      verify.rows, (verify.seconds + draft.seconds) / decode.seconds);
  return text;
}

json ToJson(const MemoryNeed& need) {
  return {{"service", need.service},   {"weights", need.weights},   {"kv_cache", need.kv_cache},
          {"kv_token", need.kv_token}, {"features", need.features}, {"buffers", need.buffers},
          {"total", need.total()}};
}

}  // namespace

std::string CheckpointText(const CheckpointReport& report, const CheckpointOptions& options) {
  const MeasuredLimits& limits = report.limits;
  std::string text = ModelLine("target", options.target, report.target) +
                     ModelLine("drafter", options.drafter, report.drafter);
  absl::StrAppendFormat(&text, "device   %s: %.1f GB/s of memory, %.0f GFLOP/s in %s\n",
                        limits.device, limits.bytes_per_second / 1e9, limits.target_flops / 1e9,
                        Name(options.formats.weights));
  return PrintableText(text + VerdictText(report) + MemoryText(report, options) +
                       SpeedText(report));
}

std::string CheckpointJson(const CheckpointReport& report, const CheckpointOptions& options) {
  json verdicts = json::array(), memory = json::array(), forwards = json::array();
  json weights = json::object();
  for (const Verdict& verdict : report.verdicts) {
    verdicts.push_back({{"service", verdict.service},
                        {"ok", verdict.status.ok()},
                        {"error", std::string(verdict.status.message())},
                        {"remedy", verdict.remedy}});
  }
  for (const MemoryNeed& need : report.memory) memory.push_back(ToJson(need));
  for (const auto& [type, bytes] : report.weights_by_format) weights[Name(type)] = bytes;
  for (const EstimatedForward& forward : report.forwards) {
    forwards.push_back({{"forward", forward.name},
                        {"rows", forward.rows},
                        {"context", forward.context},
                        {"least_seconds", forward.seconds}});
  }
  const MeasuredLimits& limits = report.limits;
  const json object = {{"target", options.target},
                       {"drafter", options.drafter},
                       {"dtype", Name(options.formats.weights)},
                       {"device", limits.device},
                       {"bytes_per_second", limits.bytes_per_second},
                       {"flops_per_second", limits.target_flops},
                       {"runs", report.runs()},
                       {"verdicts", verdicts},
                       {"memory", memory},
                       {"target_weights", weights},
                       {"needed_memory", report.total_memory()},
                       {"free_memory", limits.free_memory},
                       {"fits", report.fits()},
                       {"forwards", forwards}};
  return object.dump(1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

}  // namespace bastion::doctor
