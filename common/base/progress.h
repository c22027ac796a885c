// ProgressBar: draws a bar on stderr if stderr is a terminal. In any case, the destructor prints
// the last numbers as one line. Thread-compatible.
#ifndef BASTION_COMMON_BASE_PROGRESS_H_
#define BASTION_COMMON_BASE_PROGRESS_H_

#include <cstdint>
#include <string>

namespace bastion {

class ProgressBar {
 public:
  // Prints `label` before the numbers and `unit`, if any, after them.
  explicit ProgressBar(std::string label, const std::string& unit = "");
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(int64_t done, int64_t total);

 private:
  std::string label_, unit_;
  bool terminal_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PROGRESS_H_
