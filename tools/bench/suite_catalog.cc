#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "embedded/suites/bastion-fig2.json.h"
#include "embedded/suites/bastion-fig4.json.h"
#include "embedded/suites/bastion-fig6.json.h"
#include "embedded/suites/bastion-fig8.json.h"
#include "embedded/suites/bastion-fig9a.json.h"
#include "embedded/suites/bastion-fig9b.json.h"
#include "embedded/suites/bastion-table1.json.h"
#include "embedded/suites/ddtree-budgets.json.h"
#include "embedded/suites/ddtree-fig4.json.h"
#include "embedded/suites/dynatree-datasets.json.h"
#include "embedded/suites/dynatree-lengths.json.h"
#include "embedded/suites/dynatree-main.json.h"
#include "embedded/suites/dynatree-phases.json.h"
#include "embedded/suites/dynatree-prompts.json.h"
#include "embedded/suites/dynatree-sweep.json.h"
#include "embedded/suites/specblock-fig5.json.h"
#include "embedded/suites/specblock-table1.json.h"
#include "embedded/suites/specblock-table2.json.h"
#include "embedded/suites/specblock-table3.json.h"
#include "tools/bench/suite.h"

namespace bastion {
namespace {

struct EmbeddedSuite {
  const char* name;
  const char* text;
};

constexpr EmbeddedSuite kSuites[] = {
    {"bastion-fig2", kBastionFig2},         {"bastion-fig4", kBastionFig4},
    {"bastion-fig6", kBastionFig6},         {"bastion-fig8", kBastionFig8},
    {"bastion-fig9a", kBastionFig9a},       {"bastion-fig9b", kBastionFig9b},
    {"bastion-table1", kBastionTable1},     {"ddtree-budgets", kDdtreeBudgets},
    {"ddtree-fig4", kDdtreeFig4},           {"dynatree-datasets", kDynatreeDatasets},
    {"dynatree-lengths", kDynatreeLengths}, {"dynatree-main", kDynatreeMain},
    {"dynatree-phases", kDynatreePhases},   {"dynatree-prompts", kDynatreePrompts},
    {"dynatree-sweep", kDynatreeSweep},     {"specblock-fig5", kSpecblockFig5},
    {"specblock-table1", kSpecblockTable1}, {"specblock-table2", kSpecblockTable2},
    {"specblock-table3", kSpecblockTable3}};

}  // namespace

std::vector<std::string> SuiteNames() {
  std::vector<std::string> names;
  for (const EmbeddedSuite& suite : kSuites) names.emplace_back(suite.name);
  return names;
}

absl::StatusOr<Suite> FindSuite(const std::string& name) {
  for (const EmbeddedSuite& suite : kSuites) {
    if (suite.name == name) return ParseSuite(suite.text, name);
  }
  if (absl::EndsWith(name, ".json")) {
    std::ifstream file(name);
    if (!file) {
      return absl::NotFoundError(
          absl::StrCat("suite ", name, ": cannot read the file; check that it exists"));
    }
    return ParseSuite(std::string(std::istreambuf_iterator<char>(file), {}), name);
  }
  return absl::NotFoundError(absl::StrCat("there is no suite \"", name, "\"; the suites are ",
                                          absl::StrJoin(SuiteNames(), ", "),
                                          ", or the path of a .json file"));
}

}  // namespace bastion
