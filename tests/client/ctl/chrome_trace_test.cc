#include "client/ctl/chrome_trace.h"

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace bastion {
namespace {

using nlohmann::json;

void AddSlice(const std::string& lane, int64_t start, int64_t duration,
              v1::ServiceTimeline* timeline) {
  v1::TimelineSlice& slice = *timeline->add_slices();
  slice.set_lane(lane);
  slice.set_name("forward");
  slice.set_start_ns(start);
  slice.set_duration_ns(duration);
  slice.set_rows(17);
}

TEST(ChromeTraceTest, AServiceIsAProcessAndALaneAThread) {
  v1::GetTimelineResponse timelines;
  v1::ServiceTimeline& orchestrator = *timelines.add_services();
  orchestrator.set_service("orchestrator");
  AddSlice("cycles", 1000, 2500, &orchestrator);
  v1::ServiceTimeline& verifier = *timelines.add_services();
  verifier.set_service("verifier");
  verifier.set_clock_offset_ns(500000);
  verifier.set_clock_error_ns(41200);
  AddSlice("a", 0, 1000, &verifier);
  AddSlice("b", 0, 1000, &verifier);
  v1::ServiceTimeline& drafter = *timelines.add_services();
  drafter.set_service("drafter");
  drafter.set_error("not reachable");

  const json trace = json::parse(ChromeTrace(timelines));
  std::map<std::string, int> threads, processes;
  int slices = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["args"]["name"]] = event["pid"];
    if (event["name"] == "thread_name") threads[event["args"]["name"]] = event["pid"];
    if (event["ph"] != "X") continue;
    ++slices;
    EXPECT_EQ(event["args"]["rows"], 17);
    if (event["pid"] == 1) {
      EXPECT_EQ(event["ts"], 1.0);
      EXPECT_EQ(event["dur"], 2.5);
    } else {
      EXPECT_EQ(event["ts"], 500.0);
    }
  }
  EXPECT_EQ(slices, 3);
  EXPECT_EQ(processes,
            (std::map<std::string, int>{{"orchestrator", 1}, {"verifier (clock ± 42 µs)", 2}}));
  EXPECT_EQ(threads, (std::map<std::string, int>{{"cycles", 1}, {"a", 2}, {"b", 2}}));
}

}  // namespace
}  // namespace bastion
