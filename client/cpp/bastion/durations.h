// Converts durations of the public API to numbers. Thread-safe: no state.
#ifndef BASTION_CLIENT_CPP_BASTION_DURATIONS_H_
#define BASTION_CLIENT_CPP_BASTION_DURATIONS_H_

#include "google/protobuf/duration.pb.h"

namespace bastion {

[[nodiscard]] double Seconds(const google::protobuf::Duration& duration);
[[nodiscard]] double Milliseconds(const google::protobuf::Duration& duration);

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_DURATIONS_H_
