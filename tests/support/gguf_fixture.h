// Writes small GGUF files for tests.
#ifndef BASTION_TESTS_SUPPORT_GGUF_FIXTURE_H_
#define BASTION_TESTS_SUPPORT_GGUF_FIXTURE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bastion::testing {

struct GgufTensorFixture {
  std::string name;
  uint32_t type = 0;           // 0: F32, 1: F16, 30: BF16, 3: Q4_1 …
  std::vector<int64_t> shape;  // Begins with the rows.
  std::string data;
};

struct GgufFixture {
  uint32_t version = 3;
  // Integers become i32, numbers f32, and arrays have the type of their first element.
  nlohmann::json metadata = nlohmann::json::object();
  std::vector<GgufTensorFixture> tensors;

  [[nodiscard]] std::string Bytes() const;
};

// Writes the checkpoint in `folder`, a Hugging Face folder of one of the architectures that GGUF
// files have, as such a file: with its names, and with its order of rows.
[[nodiscard]] GgufFixture GgufOfFolder(const std::string& folder);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_GGUF_FIXTURE_H_
