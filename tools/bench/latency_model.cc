#include "tools/bench/latency_model.h"

#include <nlohmann/json.hpp>

#include "common/base/status.h"

namespace bastion {

using nlohmann::json;

absl::StatusOr<LatencyModel> DescribeLatencyModel(const ProfiledTarget& profiled) {
  LatencyModel model = {profiled, {}, {}};
  const TargetInfo& target = profiled.target;
  ASSIGN_OR_RETURN(const Roofline roofline,
                   Roofline::Make(target.dims, profiled.profile.PeaksFor(target)));
  ASSIGN_OR_RETURN(model.fit, FitPaperModels(roofline, profiled.profile));
  for (const ProfilePoint& point : profiled.profile.points) {
    model.roofline_seconds.push_back(roofline.Seconds(point.rows, point.context));
  }
  return model;
}

json LatencyModelJson(const LatencyModel& model) {
  const PaperFit& fit = model.fit;
  return {{"calibration", ProfileJson(model.profiled)},
          {"roofline_seconds", model.roofline_seconds},
          {"static",
           {{"slope", fit.line.slope},
            {"intercept_seconds", fit.line.intercept},
            {"floor_seconds", fit.line.floor_seconds}}},
          {"roofline_scale", fit.scale},
          {"rmse_seconds",
           {{"roofline", fit.roofline_rmse},
            {"scaled_roofline", fit.scaled_rmse},
            {"static", fit.static_rmse}}},
          {"rmse_cut", fit.cut()}};
}

}  // namespace bastion
