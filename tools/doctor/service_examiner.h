// ExamineService: examines running services with real requests. Thread-safe: no state.
#ifndef BASTION_TOOLS_DOCTOR_SERVICE_EXAMINER_H_
#define BASTION_TOOLS_DOCTOR_SERVICE_EXAMINER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bastion/v1/generation.pb.h"
#include "tools/doctor/service_report.h"

namespace bastion::doctor {

struct ExamineOptions {
  std::string endpoint;                      // Address of the orchestrator.
  std::vector<v1::GenerateRequest> prompts;  // At least one.
  bool built_in_prompts = false;             // For the report.
  std::vector<int> concurrency = {1};        // Numbers of requests that decode together.
  std::vector<int> contexts = {128};         // Cached tokens, for the table of forwards.
  int max_new_tokens = 128;
  double temperature = 0;
  // No prompt is recorded later than this.
  absl::Duration recording_time = absl::Seconds(30);
  std::function<void(int done, int total)> progress;  // Called before each step and at the end.
};

// Decodes the prompts one at a time: plainly, with policy "default", and with large trees, which it
// records. Then decodes a few tokens at every concurrency, so that the orchestrator's latency model
// has seen such batches, and asks it for costs. Errors: those of the calls.
[[nodiscard]] absl::StatusOr<ServiceReport> ExamineService(const ExamineOptions& options);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_SERVICE_EXAMINER_H_
