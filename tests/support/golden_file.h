// Reads tensors of a golden.safetensors file (tests/parity/make_goldens.py). If a test runs on a
// different machine than it was built on, set the environment variable BASTION_TEST_SOURCE_DIR to
// the root of the sources.
#ifndef BASTION_TESTS_SUPPORT_GOLDEN_FILE_H_
#define BASTION_TESTS_SUPPORT_GOLDEN_FILE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace bastion::testing {

class GoldenFile {
 public:
  // CHECK-fails if the file is missing or damaged.
  explicit GoldenFile(const std::string& path);

  // The elements of the tensor `name`. CHECK-fails if it is missing or has a different type.
  [[nodiscard]] std::vector<float> Floats(const std::string& name) const;
  [[nodiscard]] std::vector<TokenId> Integers(const std::string& name) const;
  [[nodiscard]] bool Has(const std::string& name) const { return header_.contains(name); }

 private:
  [[nodiscard]] std::string Bytes(const std::string& name, const std::string& dtype) const;

  nlohmann::json header_;
  std::string data_;
};

// The names of the folders under tests/parity/goldens, sorted.
[[nodiscard]] std::vector<std::string> GoldenCases();
// Those of them that have a DFlash drafter.
[[nodiscard]] std::vector<std::string> GoldenPairs();
// Those of them that have an EAGLE-3 drafter (tests/parity/eagle_goldens.py).
[[nodiscard]] std::vector<std::string> EagleGoldens();
// Those of them that have a SpecBlock drafter (tests/parity/specblock_goldens.py).
[[nodiscard]] std::vector<std::string> SpecBlockGoldens();
// Those of them that have a P-EAGLE drafter (tests/parity/parallel_goldens.py).
[[nodiscard]] std::vector<std::string> ParallelEagleGoldens();
// Those of them that have Medusa heads (tests/parity/medusa_goldens.py).
[[nodiscard]] std::vector<std::string> MedusaGoldens();
// The layers whose outputs are the features of a case.
[[nodiscard]] std::vector<int> GoldenFeatureLayers(const std::string& name);
// The path of the folder `name`.
[[nodiscard]] std::string GoldenFolder(const std::string& name);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_GOLDEN_FILE_H_
