#include "bastion/durations.h"

namespace bastion {

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

double Milliseconds(const google::protobuf::Duration& duration) {
  return 1e3 * static_cast<double>(duration.seconds()) + 1e-6 * duration.nanos();
}

}  // namespace bastion
