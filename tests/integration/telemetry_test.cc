// Tests traces and timelines of real services.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "bastion/inspection_client.h"
#include "bastion/v1/generation.grpc.pb.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/telemetry_fixture.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// The sum of the attributes that begin with `prefix`.
double Sum(const ReceivedSpan& span, const std::string& prefix) {
  double sum = 0;
  for (const auto& [name, value] : span.numbers) {
    if (name.starts_with(prefix)) sum += value;
  }
  return sum;
}

INSTANTIATE_TEST_SUITE_P(Carriers, TelemetryTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "SharedMemory" : "Grpc"; });

TEST_P(TelemetryTest, ARequestAloneIsOneTraceOverThreeProcesses) {
  testing::ServiceSystem& system = StartTraced(GetParam());
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kTraceparent);
  context.AddMetadata("tracestate", "vendor=x");
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
  const auto state = context.GetServerInitialMetadata().find("tracestate");
  ASSERT_NE(state, context.GetServerInitialMetadata().end());
  EXPECT_EQ(std::string(state->second.data(), state->second.size()), "vendor=x");

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
  EXPECT_EQ(root->trace_state, "vendor=x");
  EXPECT_EQ(root->numbers.at("gen_ai.usage.output_tokens"), 40);
  EXPECT_EQ(root->texts.at("gen_ai.request.model"), "target");
  EXPECT_FALSE(root->failed);
  EXPECT_EQ(Children(spans, root->id, "queue").size(), 1u);
  EXPECT_FALSE(Children(spans, root->id, "prefill").empty());
  const auto sends = Children(spans, root->id, "send");
  ASSERT_FALSE(sends.empty());
  EXPECT_GT(sends[0]->numbers.at("bastion.send.detokenize_ms"), 0);
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
    // A busy machine makes the pause longer.
    const double paused = Milliseconds(absl::ToInt64Nanoseconds(Clock::Real().Now()) - stopped);
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
      // Without the pause, the slice would take about the typical time.
      const double typical = TypicalTime(lane, slice->name());
      const double pause = Milliseconds(slice->duration_ns()) - typical;
      const double tolerance = std::clamp(0.3 * typical, 1.0, 0.4 * paused);
      if (std::abs(pause - paused) < tolerance) ++pauses;
    }
  }
  EXPECT_EQ(pauses, 1);
  system.orchestrator->Signal(SIGTERM);
  client.join();
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
