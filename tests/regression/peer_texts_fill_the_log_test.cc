// Texts of a peer were logged and sent to clients as they were: a status of 1 MB with line breaks
// and control sequences of terminals, and a model name of 3 MB.
#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "common/wire/codec.h"
#include "common/wire/protocol.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

std::string Hostile() {
  return "no draft\nI1127 10:00:00.000 main.cc:1] forged\x1b[2J" + std::string(1 << 20, 'x');
}

void ExpectHarmless(absl::string_view text, size_t max_bytes) {
  EXPECT_LE(text.size(), max_bytes);
  EXPECT_EQ(text.find("no draft"), 0);
  EXPECT_TRUE(std::none_of(text.begin(), text.end(), absl::ascii_iscntrl));
}

TEST(PeerTextsFillTheLogTest, StatusesOfStepsAreShortAndPrintable) {
  proto::StepStatus status;
  status.set_code(static_cast<int>(absl::StatusCode::kInternal));
  status.set_message(Hostile());
  ExpectHarmless(Decode(status).message(), 512);
}

TEST(PeerTextsFillTheLogTest, StatusesOfCallsAreShortAndPrintable) {
  ExpectHarmless(FromGrpc({grpc::StatusCode::INTERNAL, Hostile()}).message(), 512);
}

TEST(PeerTextsFillTheLogTest, NamesAreShortAndPrintable) {
  proto::DrafterInfo drafter;
  drafter.set_model(Hostile());
  ExpectHarmless(Decode(drafter).model, 256);
  proto::TargetInfo target;
  target.set_model(Hostile());
  target.set_device(Hostile());
  target.set_identity(Hostile());
  ExpectHarmless(Decode(target).model, 256);
  ExpectHarmless(Decode(target).device, 256);
  ExpectHarmless(Decode(target).identity, 256);
}

}  // namespace
}  // namespace bastion::wire
