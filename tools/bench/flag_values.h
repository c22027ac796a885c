// Parses the values of flags. Thread-safe: no state.
#ifndef BASTION_TOOLS_BENCH_FLAG_VALUES_H_
#define BASTION_TOOLS_BENCH_FLAG_VALUES_H_

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace bastion {

// INVALID_ARGUMENT, naming `flag`, unless all texts are positive numbers up to `limit`, and
// integers if Number is an integer type.
template <typename Number>
absl::StatusOr<std::vector<Number>> ParseNumbers(const std::string& flag,
                                                 const std::vector<std::string>& texts,
                                                 int limit = 1'000'000) {
  std::vector<Number> numbers;
  for (const std::string& text : texts) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !(number > 0) || number > limit ||
        static_cast<double>(static_cast<Number>(number)) != number) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag, ": \"", text, "\" is not a positive ",
          std::numeric_limits<Number>::is_integer ? "integer" : "number", " up to ", limit));
    }
    numbers.push_back(static_cast<Number>(number));
  }
  return numbers;
}

// Folders by name, from texts "NAME=DIR". INVALID_ARGUMENT, naming `flag`, if a text has another
// form or there is no such folder.
[[nodiscard]] absl::StatusOr<std::map<std::string, std::string>> ParseFolders(
    const std::string& flag, const std::vector<std::string>& texts);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_FLAG_VALUES_H_
