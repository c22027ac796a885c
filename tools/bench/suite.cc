#include "tools/bench/suite.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "orchestrator/policy/policy.h"

namespace bastion {
namespace {

using nlohmann::json;

// The tables that deploy/measure/suite_tables.py makes.
constexpr const char* kTables[] = {"datasets",   "budgets",     "stages",    "topology",
                                   "estimators", "correlation", "histogram", "generation",
                                   "depths",     "prompts",     "lengths",   "load",
                                   "latency",    "ranks",       "blocks",    "reach"};

bool IsTable(const std::string& name) {
  return std::find(std::begin(kTables), std::end(kTables), name) != std::end(kTables);
}

// Reads the keys of an object. Remembers which keys it has read.
class SuiteReader {
 public:
  SuiteReader(const json& object, std::string origin)
      : object_(object), origin_(std::move(origin)) {}

  // Keeps *value if the key is absent.
  template <typename Value>
  void Read(const char* key, Value* value) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end()) return;
    try {
      *value = found->get<Value>();
    } catch (const json::exception&) {
      Refuse(absl::StrCat(key, " has the wrong type"));
    }
  }
  // A number alone is a list of one.
  void ReadOneOrMore(const char* key, std::vector<int>* values) {
    if (const auto found = object_.find(key);
        found != object_.end() && found->is_number_integer()) {
      values->resize(1);
      Read(key, &values->front());
    } else {
      Read(key, values);
    }
  }
  template <typename Value>
  void Require(const char* key, Value* value) {
    if (!object_.contains(key)) Refuse(absl::StrCat(key, " is missing"));
    Read(key, value);
  }
  // Refuses a number below `least`.
  void AtLeast(const char* key, double value, double least) {
    if (value < least) {
      Refuse(absl::StrCat(key, " is ", value, "; it must be at least ", least));
    }
  }
  void Refuse(const std::string& problem) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(origin_, ": ", problem));
  }
  // The first problem. Call it last.
  absl::Status Finish() {
    for (const auto& [key, value] : object_.items()) {
      if (known_.count(key) == 0) Refuse(absl::StrCat("unknown key \"", key, "\"; remove it"));
    }
    return status_;
  }

 private:
  const json& object_;
  const std::string origin_;
  std::set<std::string> known_;
  absl::Status status_;
};

void ReadGrid(SuiteReader& reader, SuiteGrid* grid) {
  reader.Read("temperatures", &grid->temperatures);
  reader.Read("seeds", &grid->seeds);
  reader.Read("concurrencies", &grid->concurrencies);
  reader.Read("prompt_tokens", &grid->prompt_tokens);
  reader.ReadOneOrMore("max_new_tokens", &grid->max_new_tokens);
  if (grid->temperatures.empty() || grid->seeds.empty() || grid->concurrencies.empty() ||
      grid->max_new_tokens.empty()) {
    reader.Refuse("temperatures, seeds, concurrencies and max_new_tokens must not be empty");
  }
  for (const float value : grid->temperatures) reader.AtLeast("temperatures", value, 0);
  for (const int value : grid->concurrencies) reader.AtLeast("concurrencies", value, 1);
  for (const int value : grid->prompt_tokens) reader.AtLeast("prompt_tokens", value, 1);
  for (const int value : grid->max_new_tokens) reader.AtLeast("max_new_tokens", value, 1);
}

void ReadLoad(SuiteReader& reader, SuiteLoad* load) {
  reader.Read("warmup", &load->warmup);
  reader.Read("rounds", &load->rounds);
  reader.Read("prompts_per_dataset", &load->prompts_per_dataset);
  reader.Read("max_rows", &load->max_rows);
  reader.AtLeast("warmup", load->warmup, 0);
  reader.AtLeast("rounds", load->rounds, 1);
  reader.AtLeast("prompts_per_dataset", load->prompts_per_dataset, 0);
  reader.AtLeast("max_rows", load->max_rows, 2);
}

void ReadLatencyGrid(SuiteReader& reader, SuiteLatency* latency) {
  reader.Read("latency_rows", &latency->rows);
  reader.Read("latency_contexts", &latency->contexts);
  for (const int value : latency->rows) reader.AtLeast("latency_rows", value, 1);
  for (const int value : latency->contexts) reader.AtLeast("latency_contexts", value, 1);
  if (latency->rows.empty() != latency->contexts.empty()) {
    reader.Refuse("latency_rows and latency_contexts need each other");
  }
}

template <typename Value>
void Replace(const std::vector<Value>& value, std::vector<Value>* target) {
  if (!value.empty()) *target = value;
}

void Replace(const std::string& value, std::string* target) {
  if (!value.empty()) *target = value;
}

// Replaces those drafters that `value` names.
void Replace(const std::map<std::string, std::string>& value,
             std::map<std::string, std::string>* target) {
  for (const auto& [name, folder] : value) (*target)[name] = folder;
}

void Replace(std::optional<int> value, int* target) {
  if (value.has_value()) *target = *value;
}

}  // namespace

absl::StatusOr<Suite> ParseSuite(std::string_view text, const std::string& origin) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": must be a JSON object"));
  }
  Suite suite;
  SuiteReader reader(object, origin);
  reader.Require("name", &suite.name);
  reader.Require("title", &suite.title);
  reader.Read("paper", &suite.paper);
  reader.Read("reported", &suite.reported);
  reader.Require("target", &suite.models.target);
  reader.Require("drafter", &suite.models.drafter);
  reader.Read("prompts", &suite.models.prompts);
  reader.Read("drafters", &suite.models.drafters);
  reader.Read("policies", &suite.policies);
  ReadGrid(reader, &suite.grid);
  ReadLoad(reader, &suite.load);
  ReadLatencyGrid(reader, &suite.latency);
  reader.Require("tables", &suite.tables);
  reader.Read("plots", &suite.plots);
  for (const std::string& table : suite.tables) {
    if (!IsTable(table)) reader.Refuse(absl::StrCat("tables: \"", table, "\" is unknown"));
  }
  if (suite.policies.empty() && suite.latency.rows.empty()) {
    reader.Refuse("there is nothing to measure; set policies, or latency_rows");
  }
  RETURN_IF_ERROR(reader.Finish());
  return suite;
}

json SuiteJson(const Suite& suite) {
  return {{"name", suite.name},
          {"title", suite.title},
          {"paper", suite.paper},
          {"reported", suite.reported},
          {"target", suite.models.target},
          {"drafter", suite.models.drafter},
          {"prompts", suite.models.prompts},
          {"drafters", suite.models.drafters},
          {"policies", suite.policies},
          {"temperatures", suite.grid.temperatures},
          {"seeds", suite.grid.seeds},
          {"concurrencies", suite.grid.concurrencies},
          {"prompt_tokens", suite.grid.prompt_tokens},
          {"max_new_tokens", suite.grid.max_new_tokens},
          {"warmup", suite.load.warmup},
          {"rounds", suite.load.rounds},
          {"prompts_per_dataset", suite.load.prompts_per_dataset},
          {"max_rows", suite.load.max_rows},
          {"latency_rows", suite.latency.rows},
          {"latency_contexts", suite.latency.contexts},
          {"tables", suite.tables},
          {"plots", suite.plots}};
}

SuiteOverrides QuickOverrides() {
  SuiteOverrides quick;
  quick.max_new_tokens = {16};
  quick.warmup = 0;
  quick.rounds = 1;
  quick.prompts_per_dataset = 1;
  return quick;
}

void Apply(const SuiteOverrides& overrides, Suite* suite) {
  Replace(overrides.models.target, &suite->models.target);
  Replace(overrides.models.drafter, &suite->models.drafter);
  Replace(overrides.models.prompts, &suite->models.prompts);
  Replace(overrides.models.drafters, &suite->models.drafters);
  Replace(overrides.policies, &suite->policies);
  Replace(overrides.temperatures, &suite->grid.temperatures);
  Replace(overrides.seeds, &suite->grid.seeds);
  Replace(overrides.concurrencies, &suite->grid.concurrencies);
  Replace(overrides.prompt_tokens, &suite->grid.prompt_tokens);
  Replace(overrides.max_new_tokens, &suite->grid.max_new_tokens);
  Replace(overrides.warmup, &suite->load.warmup);
  Replace(overrides.rounds, &suite->load.rounds);
  Replace(overrides.prompts_per_dataset, &suite->load.prompts_per_dataset);
  Replace(overrides.max_rows, &suite->load.max_rows);
}

SuitePolicy SplitPolicy(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  return {parts.first, parts.second};
}

absl::Status CheckPolicies(const Suite& suite) {
  for (const std::string& text : suite.policies) {
    const auto [policy, drafter] = SplitPolicy(text);
    if (!drafter.empty() && suite.models.drafters.count(drafter) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("suite ", suite.name, ", policy ", text, ": there is no drafter named ",
                       drafter, "; name its folder with --drafters ", drafter, "=DIR"));
    }
    const absl::Status known = Policy::Parse(policy).status();
    if (known.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("suite ", suite.name, " needs the policy ", policy, ", which this program ",
                     "does not have; --policies runs others. ", std::string(known.message())));
  }
  if (suite.policies.empty() ||
      std::find(suite.policies.begin(), suite.policies.end(), "ar") != suite.policies.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("suite ", suite.name, ": the policies ",
                                                 absl::StrJoin(suite.policies, ","),
                                                 " lack ar, the baseline of all speedups; add it"));
}

}  // namespace bastion
