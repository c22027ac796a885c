// ServingTimeline: the orchestrator's lane of the timeline: its cycles and their stages.
// Thread-safe.
#ifndef BASTION_ORCHESTRATOR_OBSERVE_SERVING_TIMELINE_H_
#define BASTION_ORCHESTRATOR_OBSERVE_SERVING_TIMELINE_H_

#include "common/telemetry/timeline.h"
#include "orchestrator/schedule/serving_observer.h"

namespace bastion {

class ServingTimeline final : public ServingObserver {
 public:
  // `timeline` must outlive this object.
  explicit ServingTimeline(Timeline* timeline) : timeline_(*timeline) {}

  void OnCycle(const CycleSummary& cycle, const ServedCycle&) override {
    CallSlices slices("cycles", cycle.size.sequences > 0 ? "cycle" : "prefill", cycle.began);
    slices.set_rows(cycle.size.rows);
    for (const CycleSummary::Part& part : cycle.parts()) {
      slices.AddPart(part.name, part.ended - part.began);
    }
    timeline_.Add(slices.Finish(cycle.ended));
  }
  void OnEnd(const LiveRequest&, const absl::Status&) override {}

 private:
  Timeline& timeline_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OBSERVE_SERVING_TIMELINE_H_
