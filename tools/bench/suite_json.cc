#include "tools/bench/suite_json.h"

#include <nlohmann/json.hpp>

namespace bastion {
namespace {

using nlohmann::json;

json TimesJson(const SuiteTimes& times) {
  return {{"ttft", times.ttft},
          {"tpot", times.tpot},
          {"draft", times.cycle.draft},
          {"tree", times.cycle.tree},
          {"verify_queue", times.cycle.verify_queue},
          {"verify", times.cycle.verify},
          {"commit", times.cycle.commit},
          {"audit", times.cycle.audit},
          {"transfer", times.cycle.transfer}};
}

SuiteTimes ReadTimes(const json& json) {
  SuiteTimes times;
  json.at("ttft").get_to(times.ttft);
  json.at("tpot").get_to(times.tpot);
  json.at("draft").get_to(times.cycle.draft);
  json.at("tree").get_to(times.cycle.tree);
  json.at("verify_queue").get_to(times.cycle.verify_queue);
  json.at("verify").get_to(times.cycle.verify);
  json.at("commit").get_to(times.cycle.commit);
  json.at("audit").get_to(times.cycle.audit);
  json.at("transfer").get_to(times.cycle.transfer);
  return times;
}

json CorrelationJson(const LengthCorrelation& correlation) {
  return {{"pearson", correlation.pearson},
          {"spearman", correlation.spearman},
          {"cycles", correlation.cycles},
          {"sample", correlation.sample}};
}

LengthCorrelation ReadCorrelation(const json& json) {
  LengthCorrelation correlation;
  json.at("pearson").get_to(correlation.pearson);
  json.at("spearman").get_to(correlation.spearman);
  json.at("cycles").get_to(correlation.cycles);
  json.at("sample").get_to(correlation.sample);
  return correlation;
}

}  // namespace

json FiguresJson(const ArmFigures& figures) {
  json lengths = json::array(), depths = json::array();
  for (const auto& [length, cycles] : figures.lengths) lengths.push_back({length, cycles});
  for (const DepthCount& depth : figures.depths) {
    depths.push_back(
        {{"cycles", depth.cycles}, {"offered", depth.offered}, {"accepted", depth.accepted}});
  }
  json spread = nullptr;
  if (figures.spread.has_value()) spread = {figures.spread->low, figures.spread->high};
  return {{"temperature", figures.cell.temperature},
          {"concurrency", figures.cell.concurrency},
          {"prompt_tokens", figures.cell.prompt_tokens},
          {"dataset", figures.cell.dataset},
          {"policy", figures.policy},
          {"requests", figures.requests},
          {"stream_tokens_per_second", figures.stream_tokens_per_second},
          {"system_tokens_per_second", figures.system_tokens_per_second},
          {"speedup", figures.speedup},
          {"speedup_95", spread},
          {"tau", figures.tau},
          {"nodes", figures.nodes},
          {"acceptance_rate", figures.acceptance},
          {"seconds", TimesJson(figures.times)},
          {"peak_memory_bytes", figures.peak_memory},
          {"committed_lengths", lengths},
          {"depths", depths},
          {"expected_length", CorrelationJson(figures.expected_length)}};
}

ArmFigures ReadFigures(const json& json) {
  ArmFigures figures;
  json.at("temperature").get_to(figures.cell.temperature);
  json.at("concurrency").get_to(figures.cell.concurrency);
  json.at("prompt_tokens").get_to(figures.cell.prompt_tokens);
  json.at("dataset").get_to(figures.cell.dataset);
  json.at("policy").get_to(figures.policy);
  json.at("requests").get_to(figures.requests);
  json.at("stream_tokens_per_second").get_to(figures.stream_tokens_per_second);
  json.at("system_tokens_per_second").get_to(figures.system_tokens_per_second);
  json.at("speedup").get_to(figures.speedup);
  if (const auto& spread = json.at("speedup_95"); !spread.is_null()) {
    figures.spread = Interval{spread.at(0).get<double>(), spread.at(1).get<double>()};
  }
  json.at("tau").get_to(figures.tau);
  json.at("nodes").get_to(figures.nodes);
  json.at("acceptance_rate").get_to(figures.acceptance);
  figures.times = ReadTimes(json.at("seconds"));
  json.at("peak_memory_bytes").get_to(figures.peak_memory);
  for (const auto& entry : json.at("committed_lengths")) {
    figures.lengths[entry.at(0).get<int>()] = entry.at(1).get<int64_t>();
  }
  for (const auto& entry : json.at("depths")) {
    figures.depths.push_back({entry.at("cycles").get<int64_t>(), entry.at("offered").get<int64_t>(),
                              entry.at("accepted").get<int64_t>()});
  }
  figures.expected_length = ReadCorrelation(json.at("expected_length"));
  return figures;
}

json LatencyJson(const VerifyLatency& latency) {
  json points = json::array();
  for (const LatencyPoint& point : latency.points) {
    points.push_back({{"rows", point.rows},
                      {"context", point.context},
                      {"seconds", point.seconds},
                      {"roofline_seconds", point.roofline_seconds},
                      {"static_seconds", point.static_seconds}});
  }
  return {{"points", points},
          {"slope", latency.slope},
          {"intercept", latency.intercept},
          {"roofline_rmse", latency.roofline_rmse},
          {"static_rmse", latency.static_rmse}};
}

VerifyLatency ReadLatency(const json& json) {
  VerifyLatency latency;
  for (const auto& entry : json.at("points")) {
    latency.points.push_back({entry.at("rows").get<int>(), entry.at("context").get<int>(),
                              entry.at("seconds").get<double>(),
                              entry.at("roofline_seconds").get<double>(),
                              entry.at("static_seconds").get<double>()});
  }
  json.at("slope").get_to(latency.slope);
  json.at("intercept").get_to(latency.intercept);
  json.at("roofline_rmse").get_to(latency.roofline_rmse);
  json.at("static_rmse").get_to(latency.static_rmse);
  return latency;
}

}  // namespace bastion
