// ServingTimeline: the orchestrator's lane of the timeline: its cycles and their stages.
// Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_SERVING_TIMELINE_H_
#define BASTION_ORCHESTRATOR_SERVE_SERVING_TIMELINE_H_

#include "common/telemetry/timeline.h"
#include "orchestrator/serve/serving_observer.h"

namespace bastion {

class ServingTimeline final : public ServingObserver {
 public:
  // `timeline` must outlive this object.
  explicit ServingTimeline(Timeline* timeline) : timeline_(*timeline) {}

  void OnCycle(const CycleSummary& cycle, const ServedCycle&) override {
    CallSlices slices("cycles", cycle.size.sequences > 0 ? "cycle" : "prefill", cycle.began);
    slices.set_rows(cycle.size.rows);
    slices.AddPart("plan", cycle.draft_began - cycle.began);
    slices.AddPart("draft", cycle.tree_began - cycle.draft_began);
    slices.AddPart("tree", cycle.verify_began - cycle.tree_began);
    slices.AddPart("verify", cycle.ended - cycle.verify_began);
    timeline_.Add(slices.Finish(cycle.ended));
  }
  void OnEnd(const LiveRequest&, const absl::Status&) override {}

 private:
  Timeline& timeline_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_SERVING_TIMELINE_H_
