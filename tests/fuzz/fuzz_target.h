// A fuzz target: a function that libFuzzer calls with any bytes. Builds without libFuzzer link
// replay.cc instead, which calls it with each file of the corpus.
#ifndef BASTION_TESTS_FUZZ_FUZZ_TARGET_H_
#define BASTION_TESTS_FUZZ_FUZZ_TARGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace bastion::testing {

// Takes values from the front of an input.
class FuzzInput {
 public:
  // REQUIRES: `data` outlives this object.
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // 0 at the end.
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  // A number of 0 to 8 bytes, after a byte that tells how many. So small numbers are as likely as
  // large ones.
  uint64_t Number() {
    uint64_t value = 0;
    for (int bytes = Byte() % 9; bytes > 0; --bytes) value = value << 8 | Byte();
    return value;
  }
  // The next `count` bytes, or fewer at the end.
  std::string Bytes(size_t count) {
    std::string bytes(rest_.substr(0, count));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  // The bytes before the next NUL, or all.
  std::string Text() {
    std::string text(rest_.substr(0, rest_.find('\0')));
    rest_.remove_prefix(std::min(text.size() + 1, rest_.size()));
    return text;
  }
  std::string Rest() { return std::string(std::exchange(rest_, {})); }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
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
