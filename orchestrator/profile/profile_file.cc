#include "orchestrator/profile/profile_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/data_file.h"
#include "common/base/status.h"

namespace bastion {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

json MlpJson(const MlpDims& mlp) {
  return {{"matrices", mlp.matrices},
          {"expert_layers", mlp.expert_layers},
          {"experts", mlp.experts},
          {"chosen", mlp.chosen},
          {"expert_intermediate", mlp.expert_intermediate}};
}

// Files of older versions have no such object; all their models had the default.
MlpDims ParseMlp(const json& mlp) {
  const MlpDims defaults;
  return {.matrices = mlp.value("matrices", defaults.matrices),
          .expert_layers = mlp.value("expert_layers", 0),
          .experts = mlp.value("experts", 0),
          .chosen = mlp.value("chosen", 0),
          .expert_intermediate = mlp.value("expert_intermediate", 0)};
}

json DimsJson(const ModelDims& dims) {
  return {{"layers", dims.layers},
          {"hidden", dims.hidden},
          {"query_heads", dims.query_heads},
          {"kv_heads", dims.kv_heads},
          {"head_dim", dims.head_dim},
          {"intermediate", dims.intermediate},
          {"vocabulary", dims.vocabulary},
          {"bytes_per_element", dims.bytes_per_weight},
          {"state_bytes_per_element", dims.state_bytes_per_element},
          {"mlp", MlpJson(dims.mlp)}};
}

ModelDims ParseDims(const json& dims) {
  return {.layers = dims.at("layers").get<int>(),
          .hidden = dims.at("hidden").get<int>(),
          .query_heads = dims.at("query_heads").get<int>(),
          .kv_heads = dims.at("kv_heads").get<int>(),
          .head_dim = dims.at("head_dim").get<int>(),
          .intermediate = dims.at("intermediate").get<int>(),
          .vocabulary = dims.at("vocabulary").get<int>(),
          .bytes_per_weight = dims.at("bytes_per_element").get<double>(),
          .state_bytes_per_element = dims.value("state_bytes_per_element", 0),
          .mlp = ParseMlp(dims.value("mlp", json::object()))};
}

// "target, on device": for messages.
std::string Named(const TargetInfo& target) {
  return absl::StrCat(target.model, " on ", target.device);
}

absl::Status DamagedError(const std::string& path, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a profile of format ", kVersion, " (",
                                                 problem, "); remove it to profile again"));
}

}  // namespace

json ProfileJson(const ProfiledTarget& profiled) {
  const TargetInfo& target = profiled.target;
  const DevicePeaks& peaks = profiled.profile.PeaksFor(target);
  json points = json::array();
  for (const ProfilePoint& point : profiled.profile.points) {
    points.push_back({point.rows, point.context, point.seconds, point.round_trip_seconds,
                      point.interpolated, point.experts});
  }
  return {{"target", target.model},
          {"device", target.device},
          {"max_rows", target.max_rows},
          {"dims", DimsJson(target.dims)},
          {"peaks",
           {{"bytes_per_second", peaks.bytes_per_second},
            {"flops_per_second", peaks.flops_per_second}}},
          {"calibration", points},
          {"sequence_seconds", profiled.profile.sequence_seconds},
          {"expert_seconds", profiled.profile.expert_seconds}};
}

ProfiledTarget ParseProfile(const json& object) {
  ProfiledTarget profiled;
  profiled.target.model = object.value("target", "");
  profiled.target.device = object.at("device").get<std::string>();
  profiled.target.max_rows = object.at("max_rows").get<int>();
  profiled.target.dims = ParseDims(object.at("dims"));
  const json& peaks = object.at("peaks");
  profiled.target.peaks = {peaks.at("bytes_per_second").get<double>(),
                           peaks.at("flops_per_second").get<double>()};
  for (const json& point : object.at("calibration")) {
    profiled.profile.points.push_back({point.at(0).get<int>(), point.at(1).get<int>(),
                                       point.at(2).get<double>(), point.at(3).get<double>(),
                                       point.size() > 4 && point.at(4).get<bool>(),
                                       point.size() > 5 ? point.at(5).get<double>() : 0.0});
  }
  profiled.profile.sequence_seconds = object.at("sequence_seconds").get<double>();
  // Earlier versions did not write it.
  profiled.profile.expert_seconds = object.value("expert_seconds", 0.0);
  profiled.profile.peaks = profiled.target.peaks;
  return profiled;
}

absl::StatusOr<ProfiledTarget> ReadProfileFile(const std::string& path) {
  RETURN_IF_ERROR(CheckDataFile(path));
  std::ifstream stream(path);
  if (!stream) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, "; check that the file exists and is readable"));
  }
  try {
    const json object = json::parse(stream);
    if (object.value("calibration_file", 0) != kVersion) {
      return DamagedError(path, "it has another version, or none");
    }
    ProfiledTarget profiled = ParseProfile(object);
    for (const ProfilePoint& point : profiled.profile.points) {
      if (point.rows >= 1 && point.context >= 0 && point.seconds > 0) continue;
      return DamagedError(path, absl::StrCat("a point has ", point.rows, " rows, context ",
                                             point.context, " and ", point.seconds, " s"));
    }
    if (profiled.profile.points.empty()) return DamagedError(path, "it has no points");
    return profiled;
  } catch (const json::exception& error) {
    return DamagedError(path, error.what());
  }
}

absl::StatusOr<LatencyProfile> ReadProfile(const std::string& path, const TargetInfo& target) {
  ASSIGN_OR_RETURN(ProfiledTarget profiled, ReadProfileFile(path));
  const TargetInfo& other = profiled.target;
  if (other.model == target.model && other.device == target.device && other.dims == target.dims) {
    return std::move(profiled.profile);
  }
  const std::string shape =
      other.dims == target.dims ? "" : ", whose layers or types have other sizes";
  return absl::FailedPreconditionError(absl::StrCat(
      path, " is a profile of ", Named(other), ", but the verifier runs ", Named(target), shape,
      "; use another file, or remove this one to profile again"));
}

absl::Status WriteProfile(const std::string& path, const ProfiledTarget& profiled) {
  RETURN_IF_ERROR(CheckDataFile(path));
  json object = ProfileJson(profiled);
  object["calibration_file"] = kVersion;
  const std::string unfinished = path + ".tmp";
  std::ofstream stream(unfinished);
  stream << object.dump() << '\n';
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(unfinished, path, error);
  if (stream && !error) return absl::OkStatus();
  std::filesystem::remove(unfinished, error);
  return absl::UnavailableError(absl::StrCat(
      "cannot write ", path, "; check that its folder exists, is writable and has free space"));
}

}  // namespace bastion
