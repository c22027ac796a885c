// A progress bar on stderr, when that is a terminal; a line at the end otherwise.
#ifndef BASTION_CLIENT_BENCH_PROGRESS_H_
#define BASTION_CLIENT_BENCH_PROGRESS_H_

#include <string>

namespace bastion {

class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(int done, int total);

 private:
  std::string what_;
  bool terminal_;
  int done_ = 0, total_ = 0;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_PROGRESS_H_
