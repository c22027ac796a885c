// Reads tensors of a golden.safetensors (tests/parity/make_goldens.py), integers included. A test
// that runs elsewhere than it was built is told by BASTION_TEST_SOURCE_DIR where the sources are.
#ifndef BASTION_TESTS_SUPPORT_GOLDEN_FILE_H_
#define BASTION_TESTS_SUPPORT_GOLDEN_FILE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace bastion::testing {

class GoldenFile {
 public:
  // CHECK-fails when the file is not there or damaged: a test without its golden is a bug.
  explicit GoldenFile(const std::string& path);

  [[nodiscard]] std::vector<float> Floats(const std::string& name) const;
  [[nodiscard]] std::vector<TokenId> Integers(const std::string& name) const;

 private:
  [[nodiscard]] std::string Bytes(const std::string& name, const std::string& dtype) const;

  nlohmann::json header_;
  std::string data_;
};

// Names of the case folders under tests/parity/goldens, sorted.
[[nodiscard]] std::vector<std::string> GoldenCases();
[[nodiscard]] std::string GoldenFolder(const std::string& name);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_GOLDEN_FILE_H_
