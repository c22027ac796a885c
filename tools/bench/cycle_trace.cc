#include "tools/bench/cycle_trace.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

json HeaderJson(const TraceHeader& header) {
  json object = ProfileJson(header);
  object["trace"] = kVersion;
  return object;
}

json CycleJson(const CycleTrace& cycle) {
  const StageSeconds& stages = cycle.stages;
  const CyclePrediction& predicted = cycle.predicted;
  return {{"model", cycle.model},
          {"policy", cycle.policy},
          {"level", cycle.level},
          {"sequences", cycle.sequences},
          {"rows", cycle.rows},
          {"experts", cycle.experts},
          {"context", cycle.context},
          {"drafts", cycle.drafts},
          {"first_draft", cycle.first_draft},
          {"committed", cycle.committed},
          {"stages",
           {{"draft", stages.draft},
            {"tree", stages.tree},
            {"verify_queue", stages.verify_queue},
            {"verify", stages.verify},
            {"commit", stages.commit},
            {"audit", stages.audit},
            {"transfer", stages.transfer}}},
          {"predicted",
           {{"verify", predicted.verify},
            {"draft", predicted.draft},
            {"cycle", predicted.cycle},
            {"curve", predicted.curve}}}};
}

CycleTrace ParseCycle(const json& object) {
  const json& stages = object.at("stages");
  const json& predicted = object.at("predicted");
  return {.model = object.at("model").get<int>(),
          .policy = object.at("policy").get<std::string>(),
          .level = object.at("level").get<std::string>(),
          .sequences = object.at("sequences").get<int>(),
          .rows = object.at("rows").get<int>(),
          .experts = object.value("experts", 0.0),
          .context = object.at("context").get<int>(),
          .drafts = object.at("drafts").get<int>(),
          .first_draft = object.at("first_draft").get<bool>(),
          .committed = object.at("committed").get<int>(),
          .stages = {.draft = stages.at("draft").get<double>(),
                     .tree = stages.at("tree").get<double>(),
                     .verify_queue = stages.at("verify_queue").get<double>(),
                     .verify = stages.at("verify").get<double>(),
                     .commit = stages.at("commit").get<double>(),
                     .audit = stages.at("audit").get<double>(),
                     .transfer = stages.at("transfer").get<double>()},
          .predicted = {.verify = predicted.at("verify").get<double>(),
                        .draft = predicted.at("draft").get<double>(),
                        .cycle = predicted.at("cycle").get<double>(),
                        .curve = predicted.at("curve").get<std::vector<std::pair<int, double>>>()}};
}

// INVALID_ARGUMENT for numbers that no recorder writes and no estimator can use.
absl::Status CheckCycle(const CycleTrace& cycle) {
  if (cycle.sequences >= 1 && cycle.rows >= cycle.sequences && cycle.context >= 0 &&
      cycle.drafts >= 0 && cycle.stages.verify > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a cycle needs at least one sequence, as many rows as sequences, and a verify "
      "time above 0; this one has ",
      cycle.sequences, " sequences, ", cycle.rows, " rows and ", cycle.stages.verify, " s"));
}

// Parses the first line into the header and any other line into a cycle.
absl::Status ParseLine(const std::string& line, bool first, Trace* trace) {
  try {
    const json object = json::parse(line);
    if (first) {
      if (object.at("trace") != kVersion) {
        return absl::InvalidArgumentError(
            absl::StrCat("the trace has another version than ", kVersion, "; record again"));
      }
      trace->header = ParseProfile(object);
      return absl::OkStatus();
    }
    trace->cycles.push_back(ParseCycle(object));
    return CheckCycle(trace->cycles.back());
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bastion-bench --record did not write this line; record again (", error.what(), ")"));
  }
}

absl::Status CannotWrite(const std::string& file) {
  return absl::UnavailableError(absl::StrCat(
      "cannot write ", file, "; check that its folder exists, is writable and has free space"));
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    return absl::NotFoundError(
        absl::StrCat("--replay: cannot read ", file, "; check that the file exists"));
  }
  Trace trace;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    RETURN_IF_ERROR(
        Annotate(ParseLine(line, number == 1, &trace), absl::StrCat(file, ":", number)));
  }
  if (!trace.cycles.empty()) return trace;
  return absl::InvalidArgumentError(absl::StrCat(file, ": the file has no cycles; record again"));
}

absl::StatusOr<std::unique_ptr<TraceRecorder>> TraceRecorder::Create(const std::string& file,
                                                                     const TraceHeader& header) {
  auto recorder = std::unique_ptr<TraceRecorder>(new TraceRecorder(file));
  recorder->stream_ << HeaderJson(header).dump() << '\n';
  if (!recorder->stream_.flush()) return CannotWrite(file);
  return recorder;
}

void TraceRecorder::Write(const CycleTrace& cycle) { stream_ << CycleJson(cycle).dump() << '\n'; }

absl::Status TraceRecorder::Close() {
  stream_.close();
  return stream_ ? absl::OkStatus() : CannotWrite(file_);
}

}  // namespace bastion
