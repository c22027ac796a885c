// Suite: one experiment of a paper as data: the policies, the grid of settings, and the tables and
// plots of its report. docs/experiments.md explains the suites; their files are in suites/.
#ifndef BASTION_TOOLS_BENCH_SUITE_H_
#define BASTION_TOOLS_BENCH_SUITE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace bastion {

// Paths of a suite's defaults are relative to the source folder.
struct SuiteModels {
  std::string target, drafter, prompts;
  // Folders of further drafters, by name. The policy "fixed:16@small" drafts with the one named
  // "small". Its policies are left out if there is no such folder.
  std::map<std::string, std::string> drafters = {};
};

// A policy of a suite, e.g. "fixed:16@small".
struct SuitePolicy {
  std::string policy;   // "fixed:16"
  std::string drafter;  // "small". Empty: SuiteModels::drafter.
};

[[nodiscard]] SuitePolicy SplitPolicy(const std::string& text);

// Every combination of these values is measured. Each list has at least one element, except
// `prompt_tokens`: if it is empty, prompts keep their length.
struct SuiteGrid {
  std::vector<float> temperatures = {0};
  std::vector<uint64_t> seeds = {1};
  std::vector<int> concurrencies = {1};
  std::vector<int> prompt_tokens = {};
  std::vector<int> max_new_tokens = {64};
};

struct SuiteLoad {
  int warmup = 1;               // Prompts that each arm runs first and that do not count.
  int rounds = 1;               // Number of times that each arm runs all prompts.
  int prompts_per_dataset = 0;  // The first ones of the file. 0: all.
  int max_rows = 512;           // Largest tree that fits into a forward, root included.
};

// Verify times to measure, for every pair of a row count and a context. Empty: none.
struct SuiteLatency {
  std::vector<int> rows, contexts;
};

struct Suite {
  std::string name;
  std::string title;
  std::string paper;                  // "BASTION, figure 2".
  std::vector<std::string> reported;  // What the paper reports, one statement per element.
  SuiteModels models;
  std::vector<std::string> policies;
  SuiteGrid grid;
  SuiteLoad load;
  SuiteLatency latency;
  std::vector<std::string> tables;  // Names that deploy/measure/suite_tables.py knows.
  std::vector<std::string> plots;   // Names that deploy/measure/suite_plots.py knows.
};

// Values that replace those of a suite. Empty or nullopt: keep the suite's value.
struct SuiteOverrides {
  SuiteModels models;
  std::vector<std::string> policies;
  std::vector<float> temperatures;
  std::vector<uint64_t> seeds;
  std::vector<int> concurrencies;
  std::vector<int> prompt_tokens;
  std::vector<int> max_new_tokens;
  std::optional<int> warmup, rounds, prompts_per_dataset, max_rows;
};

// What shows in minutes that a suite works: one prompt of each dataset, and few tokens. It measures
// nothing.
[[nodiscard]] SuiteOverrides QuickOverrides();

// Parses a suite. INVALID_ARGUMENT, beginning with `origin`, if the text is no JSON object, if a
// key is missing or unknown, or if a value has the wrong type or range.
[[nodiscard]] absl::StatusOr<Suite> ParseSuite(std::string_view text, const std::string& origin);

// The text of a suite as ParseSuite reads it.
[[nodiscard]] nlohmann::json SuiteJson(const Suite& suite);

// Replaces the values that `overrides` sets.
void Apply(const SuiteOverrides& overrides, Suite* suite);

// INVALID_ARGUMENT, naming the suite and the policy, if a policy or its drafter is unknown or if
// `ar`, the baseline of all speedups, is missing.
[[nodiscard]] absl::Status CheckPolicies(const Suite& suite);

// The names of the suites in this program, in alphabetical order.
[[nodiscard]] std::vector<std::string> SuiteNames();

// The suite with this name, or the one in this file if `name` ends with ".json". NOT_FOUND, with
// all names, for any other name.
[[nodiscard]] absl::StatusOr<Suite> FindSuite(const std::string& name);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SUITE_H_
