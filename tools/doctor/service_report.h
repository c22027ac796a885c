// ServiceReport: what the doctor finds out about running services. Plain data.
#ifndef BASTION_TOOLS_DOCTOR_SERVICE_REPORT_H_
#define BASTION_TOOLS_DOCTOR_SERVICE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/expected_speedup.h"

namespace bastion::doctor {

// The verify stage of one request.
struct ForwardTime {
  int rows = 0;
  int context = 0;  // Cached tokens.
  double seconds = 0;
  double roofline_seconds = 0;  // The least time that the device's limits allow. 0: unknown.

  // The share of its limits that the target reaches. Caches may bring it above 1.
  [[nodiscard]] double share() const { return seconds > 0 ? roofline_seconds / seconds : 0; }
};

// What decoding this number of requests together is expected to bring.
struct Level {
  int requests = 1;
  double plain_seconds = 0;  // A cycle of plain decoding.
  double draft_seconds = 0;  // A draft for all requests. 0: no drafter.
  double planning_seconds = 0;
  std::optional<Speculation> drafted;  // Empty without a drafter.
  Speculation draft_free;
  // The speedup of the best way, by the model alone and prompts excluded. 1: plain decoding.
  double modeled_speedup = 1;
  // What to expect of policy "default", without and with the time for prompts. Measured for one
  // request.
  double decode_speedup = 1;
  double speedup = 1;

  // The best way to decode. Null: plain decoding.
  [[nodiscard]] const Speculation* best() const {
    if (modeled_speedup <= 1) return nullptr;
    return drafted.has_value() && drafted->speedup >= draft_free.speedup ? &*drafted : &draft_free;
  }
};

// The prompts that were recorded. Means are per request.
struct RecordedPrompts {
  bool built_in = false;
  int requests = 0;
  int left_out = 0;  // Prompts that were not sent, because the time for recording had passed.
  double prompt_tokens = 0;
  double output_tokens = 0;
  double prefill_seconds = 0;
  double plain_seconds = 0;  // Decoding without speculation, one request at a time.
  bool uses_table = false;   // The transition table proposed nodes.
};

struct ServiceReport {
  std::string model;
  std::string device;
  std::string drafter;           // Empty: none is connected.
  std::string drafter_features;  // How features reach it, for people. Empty: it reads none.
  std::string policy;            // The default of the server.
  uint64_t forward_bytes = 0;
  double bytes_per_second = 0;
  double flops_per_second = 0;
  int max_context = 0;
  int max_rows = 0;
  int kv_tokens = 0;
  int other_requests = 0;  // Requests of others that ran when the doctor began.
  // The smallest number of requests that the doctor tried and the server does not decode together.
  // 0: none.
  int unreached_requests = 0;
  std::vector<ForwardTime> forwards;  // By context, then by rows.
  RecordedPrompts prompts;
  std::vector<Level> levels;  // By requests. At least one.
};

// The report as text for a terminal, ending with the advice. Text from the server is escaped.
[[nodiscard]] std::string ServiceText(const ServiceReport& report,
                                      const std::vector<std::string>& advice);
// The same as one JSON object.
[[nodiscard]] std::string ServiceJson(const ServiceReport& report,
                                      const std::vector<std::string>& advice);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_SERVICE_REPORT_H_
