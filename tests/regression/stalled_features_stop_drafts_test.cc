// The stream of features from the verifier to the drafter was stuck: one end's counters in shared
// memory were damaged. Both services were alive, so neither opened the stream again, and the
// drafter answered every call without a draft until it was restarted.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/host/service_host.h"
#include "drafter_service/features/remote_features.h"
#include "gtest/gtest.h"
#include "tests/support/shared_pair.h"
#include "tests/support/temp_folder.h"
#include "verifier_service/features/feature_pusher.h"

namespace bastion {
namespace {

using internal::v1::FeatureReply;
using internal::v1::FeatureRequest;

constexpr SequenceId kSequence = {1, 0};
constexpr int kWidth = 2;

void Commit(int rows, verifier::FeatureStore& store) {
  const std::vector<char> bytes(rows * kWidth * sizeof(float));
  store.Append(kSequence, bytes);
}

// Its streams carry no features while it stalls.
class StallingVerifier final : public internal::v1::VerifierService::Service {
 public:
  grpc::Status Features(grpc::ServerContext*,
                        grpc::ServerReaderWriter<FeatureReply, FeatureRequest>* stream) override {
    const bool stalls = streams_++ == 0;
    FeatureRequest request;
    while (stream->Read(&request)) {
      if (!request.has_follow() || stalls) continue;
      FeatureReply reply;
      *reply.mutable_sequence() = request.follow().sequence();
      reply.set_follow(request.follow().number());
      reply.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kOutOfRange));
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }
  int streams() const { return streams_; }

 private:
  std::atomic<int> streams_{0};
};

TEST(StalledFeaturesStopDraftsTest, TheDrafterOpensAStreamAgainWhoseFeaturesAreOverdue) {
  const testing::TempFolder folder;
  const std::string address = "unix:" + folder.File("verifier.sock");
  StallingVerifier service;
  wire::HostOptions options;
  options.addresses = {address};
  options.reflection = false;
  const auto host = wire::ServiceHost::Start(options, {&service});
  ASSERT_TRUE(host.ok()) << host.status();
  drafter::RemoteFeatures features(address, wire::CarrierChoice::kInline, wire::Security::None(),
                                   /*peer_timeout=*/absl::Milliseconds(100));
  features.Start({0}, [](SequenceId, Position, TokenId) {});
  absl::Status read;
  for (int i = 0; i < 1000 && !absl::IsOutOfRange(read); ++i) {
    read = features.Read({kSequence, 0, 1}, absl::Milliseconds(20)).status();
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(absl::IsOutOfRange(read)) << read << ": the second stream answers so";
  EXPECT_EQ(service.streams(), 2);
}

TEST(StalledFeaturesStopDraftsTest, TheVerifierEndsAStreamWhoseDrafterTakesNoFeatures) {
  testing::SharedPair pair = testing::MakeSharedPair(1 << 16);
  wire::SharedStream<FeatureReply, FeatureRequest> stream(
      std::make_shared<wire::SharedChannel>(std::move(pair.first)));
  wire::SharedStream<FeatureRequest, FeatureReply> drafter(
      std::make_shared<wire::SharedChannel>(std::move(pair.second)));
  FeatureRequest follow;
  follow.mutable_follow()->mutable_sequence()->set_session(kSequence.session);
  ASSERT_TRUE(drafter.Send(follow, absl::InfiniteFuture()).ok());
  verifier::FeatureStore store(DType::kF32, 1 << 24);
  store.Open(kSequence, kWidth);
  std::atomic<bool> ended{false};
  std::thread verifier([&] {
    verifier::FeaturePusher(&store, &stream, /*ring=*/nullptr,
                            /*send_limit=*/absl::Milliseconds(50))
        .Run();
    ended = true;
  });
  for (int i = 0; i < 5000 && !ended; ++i) {
    Commit(100, store);
    absl::SleepFor(absl::Milliseconds(2));
  }
  EXPECT_TRUE(ended);
  if (!ended) drafter.Cancel();
  verifier.join();
}

}  // namespace
}  // namespace bastion
