// A fuzz target: a function that libFuzzer calls with any bytes. Builds without libFuzzer link
// replay.cc instead, which calls it with each file of the corpus.
#ifndef BASTION_TESTS_FUZZ_FUZZ_TARGET_H_
#define BASTION_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace bastion::testing {

// Takes values from the front of an input.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // 0 at the end.
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.erase(0, 1);
    return value;
  }
  // The bytes before the next NUL, or all.
  std::string Text() {
    const size_t end = rest_.find('\0');
    std::string text = rest_.substr(0, end);
    rest_.erase(0, end == std::string::npos ? rest_.size() : end + 1);
    return text;
  }
  std::string Rest() { return std::exchange(rest_, ""); }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string rest_;
};

// A file in memory with the given content, for parsers that read files.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_FUZZ_FUZZ_TARGET_H_
