// A progress bar on stderr, when that is a terminal; a line at the end otherwise.
#ifndef BASTION_COMMON_BASE_PROGRESS_H_
#define BASTION_COMMON_BASE_PROGRESS_H_

#include <cstdint>
#include <string>

namespace bastion {

class ProgressBar {
 public:
  // `unit`, where there is one, is printed behind the numbers.
  explicit ProgressBar(std::string what, std::string unit = "");
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(int64_t done, int64_t total);

 private:
  std::string what_, unit_;
  bool terminal_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PROGRESS_H_
