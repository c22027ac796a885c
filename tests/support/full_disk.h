// FullDisk: while it exists, this process can write no file beyond `bytes`. A limit on the size of
// files simulates a full disk: write(2) fails in the middle of a file. Header-only.
// Thread-compatible; the limit holds for all threads.
#ifndef BASTION_TESTS_SUPPORT_FULL_DISK_H_
#define BASTION_TESTS_SUPPORT_FULL_DISK_H_

#include <sys/resource.h>

#include <csignal>

#include "common/base/check.h"

namespace bastion::testing {

class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = bytes;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FullDisk() {
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*const handler_)(int);
  rlimit before_ = {};
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_FULL_DISK_H_
