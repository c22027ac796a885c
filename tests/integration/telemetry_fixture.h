// A fixture that runs the three services with traces and metrics.
#ifndef BASTION_TESTS_INTEGRATION_TELEMETRY_FIXTURE_H_
#define BASTION_TESTS_INTEGRATION_TELEMETRY_FIXTURE_H_

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/http_client.h"
#include "tests/support/otlp_receiver.h"

namespace bastion {

using testing::OtlpReceiver;
using testing::ReceivedSpan;

// The parameter: over shared memory, else over gRPC.
class TelemetryTest : public ServicesTest, public ::testing::WithParamInterface<bool> {
 protected:
  // Starts the services. `detail`: with spans of the stages.
  testing::ServiceSystem& StartTraced(bool shared_memory, bool detail = false) {
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver_.address().c_str(), 1);
    setenv("OTEL_BSP_SCHEDULE_DELAY", "50", 1);
    testing::SystemOptions options;
    options.drafter = kModels + "/drafter";
    options.orchestrator_flags = {"--draft_timeout=2s"};
    options.common_flags = {"--http_listen=127.0.0.1:0"};
    if (detail) options.common_flags.push_back("--trace_detail");
    options.shared_memory = shared_memory;
    testing::ServiceSystem& system = StartWith(std::move(options));
    unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    return system;
  }
  // Waits until the call of each of `count` requests has ended and its cycles have arrived.
  std::vector<ReceivedSpan> AwaitCalls(int count) {
    EXPECT_TRUE(receiver_.Await([&](const std::vector<ReceivedSpan>& spans) {
      return count == std::count_if(spans.begin(), spans.end(), [](const ReceivedSpan& span) {
               return span.name.starts_with("text_completion");
             });
    }));
    // The other services export at their own times.
    absl::SleepFor(absl::Milliseconds(300));
    return receiver_.spans();
  }
  static std::vector<const ReceivedSpan*> Children(const std::vector<ReceivedSpan>& spans,
                                                   const std::string& parent,
                                                   const std::string& name) {
    std::vector<const ReceivedSpan*> found;
    for (const ReceivedSpan& span : spans) {
      if (span.parent == parent && span.name == name) found.push_back(&span);
    }
    return found;
  }
  // The text of /metrics of a service.
  std::string Scrape(const std::string& service) {
    const std::string log = system_->Log(service);
    const std::string before = "metrics: port ";
    const size_t at = log.find(before);
    EXPECT_NE(at, std::string::npos) << log;
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(
        log.substr(at + before.size(), log.find(',', at) - at - before.size()), &port));
    const testing::HttpAnswer answer = testing::Fetch(port, "/metrics");
    EXPECT_EQ(answer.status, 200);
    return answer.body;
  }
  // The sum of a metric over all its labels, or over those that contain `label`.
  static double Metric(const std::string& text, const std::string& name,
                       const std::string& label = "") {
    double sum = 0;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::StartsWith(line, absl::StrCat(name, "{"))) continue;
      if (!absl::StrContains(line, label)) continue;
      double value = 0;
      EXPECT_TRUE(absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) << line;
      sum += value;
    }
    return sum;
  }

  OtlpReceiver receiver_;
};

}  // namespace bastion

#endif  // BASTION_TESTS_INTEGRATION_TELEMETRY_FIXTURE_H_
