#include "tests/support/golden_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/check.h"
#include "common/hub/model_config.h"

namespace bastion::testing {
namespace {

// The folder of the goldens: in BASTION_TEST_SOURCE_DIR if it is set, else in the sources that were
// built.
std::string GoldensRoot() {
  const char* const source_dir = std::getenv("BASTION_TEST_SOURCE_DIR");
  return std::string(source_dir != nullptr ? source_dir : BASTION_SOURCE_DIR) +
         "/tests/parity/goldens";
}

std::vector<std::string> CasesWithDrafter(hub::ModelKind kind) {
  std::vector<std::string> names = GoldenCases();
  std::erase_if(names, [kind](const std::string& name) {
    const std::string folder = GoldenFolder(name) + "/drafter";
    if (!std::filesystem::exists(folder)) return true;
    const auto drafter = hub::ReadModelConfig(folder);
    CHECK(drafter.ok()) << drafter.status();
    return drafter->kind != kind;
  });
  return names;
}

}  // namespace

GoldenFile::GoldenFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good()) << path;
  const std::string content(std::istreambuf_iterator<char>(file), {});
  uint64_t size = 0;
  std::memcpy(&size, content.data(), sizeof(size));
  header_ = nlohmann::json::parse(content.substr(8, size));
  data_ = content.substr(8 + size);
}

std::string GoldenFile::Bytes(const std::string& name, const std::string& dtype) const {
  CHECK(header_.contains(name)) << name;
  const nlohmann::json& tensor = header_[name];
  CHECK_EQ(tensor["dtype"].get<std::string>(), dtype) << name;
  const size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
  return data_.substr(begin, end - begin);
}

std::vector<float> GoldenFile::Floats(const std::string& name) const {
  const std::string bytes = Bytes(name, "F32");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<TokenId> GoldenFile::Integers(const std::string& name) const {
  const std::string bytes = Bytes(name, "I64");
  std::vector<int64_t> values(bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

std::vector<std::string> GoldenCases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldensRoot())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> GoldenPairs() { return CasesWithDrafter(hub::ModelKind::kDflash); }

std::vector<std::string> EagleGoldens() { return CasesWithDrafter(hub::ModelKind::kEagle); }

std::vector<std::string> SpecBlockGoldens() { return CasesWithDrafter(hub::ModelKind::kSpecBlock); }

std::vector<std::string> ParallelEagleGoldens() {
  return CasesWithDrafter(hub::ModelKind::kParallelEagle);
}

std::vector<std::string> MedusaGoldens() { return CasesWithDrafter(hub::ModelKind::kMedusa); }

std::vector<int> GoldenFeatureLayers(const std::string& name) {
  const std::string folder = GoldenFolder(name);
  const GoldenFile golden(folder + "/golden.safetensors");
  if (golden.Has("layer_ids")) return golden.Integers("layer_ids");
  const auto drafter = hub::ReadModelConfig(folder + "/drafter");
  CHECK(drafter.ok()) << drafter.status();
  return drafter->drafter.dflash.target_layer_ids;
}

std::string GoldenFolder(const std::string& name) { return GoldensRoot() + "/" + name; }

}  // namespace bastion::testing
