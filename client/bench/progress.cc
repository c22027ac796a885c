#include "client/bench/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace bastion {

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  std::fprintf(stderr, "%s%s: %d of %d\n", terminal_ ? "\r\033[K" : "", what_.c_str(), done_,
               total_);
}

void ProgressBar::Show(int done, int total) {
  done_ = done;
  total_ = total;
  if (!terminal_ || total <= 0) return;
  constexpr int kWidth = 30;
  const int filled = kWidth * done / total;
  std::fprintf(stderr, "\r\033[K%s [%s%s] %d/%d", what_.c_str(), std::string(filled, '#').c_str(),
               std::string(kWidth - filled, ' ').c_str(), done, total);
}

}  // namespace bastion
