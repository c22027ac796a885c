// The main function of the test programs. A program has the tests of a folder; ctest runs the tests
// of one source at a time:
//
//   orchestrator_policy_tests --source=tests/orchestrator/policy/policy_test.cc[,…]
//
// Without --source, it runs all of them. Takes GoogleTest's flags too.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"

namespace {

constexpr absl::string_view kFlag = "--source=";

bool IsIn(absl::string_view file, const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    if (absl::EndsWith(file, absl::StrCat("/", source)) || file == source) return true;
  }
  return false;
}

// The filter of all tests in `sources`.
std::string FilterOf(const std::vector<std::string>& sources) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (IsIn(test.file(), sources)) absl::StrAppend(&filter, suite.name(), ".", test.name(), ":");
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  absl::string_view flag = argc > 1 ? argv[1] : "";
  // The child process of a death test has a filter.
  if (absl::ConsumePrefix(&flag, kFlag) && testing::GTEST_FLAG(filter) == "*") {
    testing::GTEST_FLAG(filter) = FilterOf(absl::StrSplit(flag, ','));
    if (testing::GTEST_FLAG(filter).empty()) {
      std::fprintf(stderr, "no test in %s\n", argv[1]);
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
