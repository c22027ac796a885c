#include "client/ctl/chrome_trace.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"

namespace bastion {
namespace {

using nlohmann::json;

// The event that names a process or a thread.
json Name(const char* kind, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

std::string ProcessName(const v1::ServiceTimeline& timeline) {
  if (timeline.clock_error_ns() == 0) return timeline.service();
  return absl::StrFormat("%s (clock ± %.0f µs)", timeline.service(),
                         std::ceil(1e-3 * static_cast<double>(timeline.clock_error_ns())));
}

}  // namespace

std::string ChromeTrace(const v1::GetTimelineResponse& timelines) {
  json events = json::array();
  int process = 0;
  for (const v1::ServiceTimeline& timeline : timelines.services()) {
    if (!timeline.error().empty()) continue;
    events.push_back(Name("process_name", ++process, 0, ProcessName(timeline)));
    std::map<std::string, int> lanes;
    for (const v1::TimelineSlice& slice : timeline.slices()) {
      const auto [lane, is_new] =
          lanes.try_emplace(slice.lane(), static_cast<int>(lanes.size()) + 1);
      if (is_new) events.push_back(Name("thread_name", process, lane->second, slice.lane()));
      const int64_t start = slice.start_ns() + timeline.clock_offset_ns();
      json event = {{"ph", "X"},
                    {"name", slice.name()},
                    {"pid", process},
                    {"tid", lane->second},
                    {"ts", 1e-3 * static_cast<double>(start)},
                    {"dur", 1e-3 * static_cast<double>(slice.duration_ns())}};
      if (slice.rows() > 0) event["args"] = {{"rows", slice.rows()}};
      events.push_back(std::move(event));
    }
  }
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump();
}

}  // namespace bastion
