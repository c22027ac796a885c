#include "common/base/guarded.h"

#include <exception>

#include "common/base/check.h"

namespace bastion {

bool RunGuarded(const char* what, absl::FunctionRef<void()> work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    LOG(ERROR) << what << " failed: " << error.what();
  } catch (...) {
    LOG(ERROR) << what << " failed";
  }
  return false;
}

}  // namespace bastion
