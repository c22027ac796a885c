// Tests traces and metrics of real services.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/inspection_client.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/http_client.h"
#include "tests/support/otlp_receiver.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;
using testing::OtlpReceiver;
using testing::ReceivedSpan;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// The sum of the attributes that begin with `prefix`.
double Sum(const ReceivedSpan& span, const std::string& prefix) {
  double sum = 0;
  for (const auto& [name, value] : span.numbers) {
    if (name.starts_with(prefix)) sum += value;
  }
  return sum;
}

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

INSTANTIATE_TEST_SUITE_P(Carriers, TelemetryTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "SharedMemory" : "Grpc"; });

TEST_P(TelemetryTest, ARequestAloneIsOneTraceOverThreeProcesses) {
  testing::ServiceSystem& system = StartTraced(GetParam());
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kTraceparent);
  const auto stub = v1::GenerationService::NewStub(
      grpc::CreateChannel(system.Address("orchestrator"), grpc::InsecureChannelCredentials()));
  const auto call = stub->Generate(&context, Request("fixed:8", 40));
  v1::GenerateResponse event;
  while (call->Read(&event)) {
  }
  ASSERT_TRUE(call->Finish().ok());
  const uint32_t cycles = event.finished().speculation().cycles();
  // The answer names the call's span, in the client's trace.
  const auto returned = context.GetServerInitialMetadata().find("traceparent");
  ASSERT_NE(returned, context.GetServerInitialMetadata().end());
  const std::string traceparent(returned->second.data(), returned->second.size());
  EXPECT_EQ(traceparent.substr(0, 35), std::string(kTraceparent).substr(0, 35));
  EXPECT_NE(traceparent, kTraceparent);

  const std::vector<ReceivedSpan> spans = AwaitCalls(1);
  std::set<std::string> traces, services;
  const ReceivedSpan* root = nullptr;
  for (const ReceivedSpan& span : spans) {
    traces.insert(span.trace);
    services.insert(span.service);
    if (span.name == "text_completion target") root = &span;
  }
  EXPECT_EQ(traces.size(), 1u);
  EXPECT_THAT(services, ::testing::ElementsAre("bastion-drafter", "bastion-orchestrator",
                                               "bastion-verifier"));
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root->parent, std::string("\xb7\xad\x6b\x71\x69\x20\x33\x31"));
  EXPECT_EQ(root->numbers.at("gen_ai.usage.output_tokens"), 40);
  EXPECT_EQ(root->texts.at("gen_ai.request.model"), "target");
  EXPECT_FALSE(root->failed);
  EXPECT_EQ(Children(spans, root->id, "queue").size(), 1u);
  EXPECT_FALSE(Children(spans, root->id, "prefill").empty());
  EXPECT_FALSE(Children(spans, root->id, "send").empty());
  const auto found = Children(spans, root->id, "cycle");
  EXPECT_EQ(found.size(), cycles);
  double drafted = 0;
  for (const ReceivedSpan* cycle : found) {
    EXPECT_NEAR(Sum(*cycle, "bastion.stage."), 1e-6 * cycle->duration(),
                0.05e-6 * cycle->duration());
    const auto verify = Children(spans, cycle->id, "verify");
    ASSERT_EQ(verify.size(), 1u);
    EXPECT_EQ(verify[0]->service, "bastion-verifier");
    EXPECT_EQ(Children(spans, cycle->id, "expand").size(),
              cycle->numbers.at("bastion.cycle.drafted"));
    drafted += cycle->numbers.at("bastion.cycle.drafted");
    EXPECT_LE(
        Sum(*verify[0], "bastion.verify.queue_ms") + Sum(*verify[0], "bastion.verify.forward_ms"),
        1e-6 * verify[0]->duration());
  }
  EXPECT_GT(drafted, 3);
  for (const ReceivedSpan& span : spans) {
    for (const auto& [name, text] : span.texts) {
      EXPECT_THAT(text, ::testing::Not(HasSubstr("import"))) << name << " contains the prompt";
    }
  }
}

TEST_P(TelemetryTest, CyclesOfSeveralRequestsAreLinkedInBothDirections) {
  testing::ServiceSystem& system = StartTraced(GetParam(), /*detail=*/true);
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      GenerationClient client(system.Address("orchestrator"));
      EXPECT_TRUE(Generate(client, Request("fixed:4", 60)).status.ok());
    });
  }
  for (std::thread& client : clients) client.join();
  const std::vector<ReceivedSpan> spans = AwaitCalls(8);
  std::map<std::string, const ReceivedSpan*> by_id;
  for (const ReceivedSpan& span : spans) by_id[span.id] = &span;
  size_t largest = 0;
  for (const ReceivedSpan& whole : spans) {
    if (whole.name != "cycle" || !whole.parent.empty()) continue;
    largest = std::max(largest, whole.links.size());
    double parts = 0;
    for (const std::string& id : whole.links) {
      ASSERT_TRUE(by_id.contains(id));
      const ReceivedSpan& part = *by_id[id];
      EXPECT_THAT(part.links, ::testing::Contains(whole.id));
      EXPECT_NE(part.trace, whole.trace);
      parts += Sum(part, "bastion.stage.");
    }
    // The shares of all requests are the whole cycle.
    EXPECT_NEAR(parts, 1e-6 * whole.duration(), 0.05e-6 * whole.duration());
    EXPECT_EQ(Children(spans, whole.id, "verify").size(), 2u) << "of both services";
  }
  EXPECT_GT(largest, 3u);
}

TEST_P(TelemetryTest, ADrafterThatDiesLeavesCompleteTraces) {
  testing::ServiceSystem& system = StartTraced(GetParam());
  int killed_at = 0;
  const Answer answer = Generate(system.client(), Request("fixed:8", 400), [&](int cycles) {
    if (killed_at == 0 && cycles > 3) {
      system.drafter->Signal(SIGKILL);
      killed_at = cycles;
    }
    return true;
  });
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const std::vector<ReceivedSpan> spans = AwaitCalls(1);
  size_t cycles = 0, with_error = 0;
  std::set<std::string> traces;
  for (const ReceivedSpan& span : spans) {
    traces.insert(span.trace);
    if (span.name != "cycle") continue;
    ++cycles;
    with_error += span.texts.contains("bastion.draft.error") ? 1 : 0;
    EXPECT_EQ(Children(spans, span.id, "verify").size(), 1u);
  }
  EXPECT_EQ(traces.size(), 1u);
  EXPECT_EQ(cycles, answer.cycles.size());
  EXPECT_GT(with_error, 0u);
  EXPECT_LT(with_error, cycles);
}

TEST_P(TelemetryTest, TheCountersEqualTheSumOfTheStatisticsOfAllRequests) {
  testing::ServiceSystem& system = StartTraced(GetParam());
  double tokens = 0, nodes = 0, accepted = 0, cycles = 0;
  for (const char* policy : {"ar", "fixed:8", "default", "adaptive"}) {
    v1::GenerateRequest request = Request(policy, 50);
    request.set_n(policy == std::string("fixed:8") ? 2 : 1);
    ASSERT_TRUE(system.client()
                    .Generate(request,
                              [&](const v1::GenerateResponse& event) {
                                if (!event.has_finished()) return true;
                                const v1::SpeculationStats& stats = event.finished().speculation();
                                tokens += event.finished().usage().completion_tokens();
                                nodes += static_cast<double>(stats.draft_tokens());
                                accepted += static_cast<double>(stats.accepted_tokens());
                                cycles += stats.cycles();
                                return true;
                              })
                    .ok());
  }
  EXPECT_TRUE(AwaitRunning(0));
  const std::string text = Scrape("orchestrator");
  EXPECT_EQ(Metric(text, "bastion_requests_total"), 5);
  EXPECT_EQ(Metric(text, "bastion_generation_tokens_total"), tokens);
  EXPECT_EQ(Metric(text, "bastion_spec_draft_tokens_total"), nodes);
  EXPECT_EQ(Metric(text, "bastion_spec_accepted_tokens_total"), accepted);
  EXPECT_EQ(Metric(text, "bastion_spec_tree_nodes_count"), cycles);
  EXPECT_GT(Metric(text, "bastion_speedup_ratio"), 0.3);
  EXPECT_GT(Metric(Scrape("drafter"), "bastion_drafter_drafts_total"), 0);
  const std::string verifier = Scrape("verifier");
  EXPECT_GT(Metric(verifier, "bastion_verifier_rows_total"), nodes);
  EXPECT_EQ(Metric(verifier, "bastion_verifier_sequences"), 0);
}

// Slices of a lane, the first one first, and of two that begin together the longer one first.
using Lane = std::vector<const v1::TimelineSlice*>;

std::map<std::string, Lane> LanesOf(const v1::GetTimelineResponse& response) {
  std::map<std::string, Lane> lanes;
  for (const v1::ServiceTimeline& timeline : response.services()) {
    EXPECT_EQ(timeline.error(), "") << timeline.service();
    EXPECT_EQ(timeline.clock_error_ns(), 0) << "all services are on this host";
    for (const v1::TimelineSlice& slice : timeline.slices()) {
      lanes[absl::StrCat(timeline.service(), " ", slice.lane())].push_back(&slice);
    }
  }
  for (auto& [name, lane] : lanes) {
    std::stable_sort(lane.begin(), lane.end(), [](const auto* a, const auto* b) {
      return std::pair(a->start_ns(), -a->duration_ns()) <
             std::pair(b->start_ns(), -b->duration_ns());
    });
  }
  return lanes;
}

double Milliseconds(int64_t nanoseconds) { return 1e-6 * static_cast<double>(nanoseconds); }

// The median duration of the slices with this name, in milliseconds.
double TypicalTime(const Lane& lane, const std::string& name) {
  std::vector<int64_t> durations;
  for (const v1::TimelineSlice* slice : lane) {
    if (slice->name() == name) durations.push_back(slice->duration_ns());
  }
  std::nth_element(durations.begin(), durations.begin() + durations.size() / 2, durations.end());
  return Milliseconds(durations[durations.size() / 2]);
}

TEST_P(TelemetryTest, SlicesOfALaneNestAndAPauseOfTheVerifierIsOneSlice) {
  testing::ServiceSystem& system = StartTraced(GetParam());
  std::atomic<bool> decodes = false;
  std::thread client([&] {
    (void)Generate(system.client(), Request("fixed:8", 1500), [&](int cycles) {
      decodes = cycles > 5;
      return true;
    });
  });
  for (int i = 0; i < 1000 && !decodes; ++i) absl::SleepFor(absl::Milliseconds(20));
  InspectionClient inspection(system.Address("orchestrator"));
  int pauses = 0;
  for (int attempt = 0; attempt < 30 && pauses == 0; ++attempt) {
    // The verifier is usually in a forward.
    const int64_t stopped = absl::ToInt64Nanoseconds(Clock::Real().Now());
    system.verifier->Signal(SIGSTOP);
    absl::SleepFor(absl::Milliseconds(20));
    system.verifier->Signal(SIGCONT);
    absl::SleepFor(absl::Milliseconds(20));
    const auto timelines = inspection.GetTimeline(absl::Seconds(5));
    ASSERT_TRUE(timelines.ok()) << timelines.status();
    const std::map<std::string, Lane> lanes = LanesOf(*timelines);
    EXPECT_TRUE(lanes.contains("orchestrator cycles"));
    EXPECT_TRUE(lanes.contains("drafter engine"));
    ASSERT_TRUE(lanes.contains("verifier engine"));
    for (const auto& [name, lane] : lanes) {
      std::vector<int64_t> open;  // The ends of the slices around the current one.
      for (const v1::TimelineSlice* slice : lane) {
        while (!open.empty() && open.back() <= slice->start_ns()) open.pop_back();
        const int64_t end = slice->start_ns() + slice->duration_ns();
        if (!open.empty()) {
          EXPECT_LE(end, open.back()) << name << " " << slice->name();
        }
        open.push_back(end);
      }
    }
    pauses = 0;
    const Lane& lane = lanes.at("verifier engine");
    for (const v1::TimelineSlice* slice : lane) {
      if (slice->name() == "verify" || slice->start_ns() + slice->duration_ns() < stopped) continue;
      const double pause = Milliseconds(slice->duration_ns()) - TypicalTime(lane, slice->name());
      if (pause > 19 && pause < 21) ++pauses;
    }
  }
  EXPECT_EQ(pauses, 1);
  system.orchestrator->Signal(SIGTERM);
  client.join();
}

TEST_F(TelemetryTest, PromtoolFindsNoFaultInTheMetrics) {
  testing::ServiceSystem& system = StartTraced(true);
  ASSERT_TRUE(Generate(system.client(), Request("default", 20)).status.ok());
  const testing::TempFolder folder;
  for (const char* service : {"orchestrator", "drafter", "verifier"}) {
    const std::string file = folder.File("metrics.txt");
    std::ofstream(file) << Scrape(service);
    // It prints its findings to stderr.
    EXPECT_EQ(std::system(absl::StrCat(BASTION_PROMTOOL, " check metrics < ", file).c_str()), 0)
        << service;
  }
}

TEST_F(TelemetryTest, TheEnvironmentNamesTheServiceInSpans) {
  setenv("OTEL_SERVICE_NAME", "my-model", 1);
  testing::ServiceSystem& system = StartTraced(true);
  unsetenv("OTEL_SERVICE_NAME");
  ASSERT_TRUE(Generate(system.client(), Request("ar", 5)).status.ok());
  for (const ReceivedSpan& span : AwaitCalls(1)) EXPECT_EQ(span.service, "my-model");
}

TEST_F(TelemetryTest, ACollectorThatHangsChangesNoAnswerAndLosesOnlySpans) {
  setenv("OTEL_BSP_MAX_QUEUE_SIZE", "50", 1);
  testing::ServiceSystem& system = StartTraced(true);
  unsetenv("OTEL_BSP_MAX_QUEUE_SIZE");
  const Answer before = Generate(system.client(), Request("fixed:4", 100));
  receiver_.Behave(OtlpReceiver::Behavior::kHang);
  for (int i = 0; i < 3; ++i) {
    const Answer answer = Generate(system.client(), Request("fixed:4", 100));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, before.tokens);
  }
  EXPECT_GT(Metric(Scrape("orchestrator"), "bastion_trace_spans_total", "result=\"dropped\""), 0);
}

}  // namespace
}  // namespace bastion
