// Tests both ends of the feature stream over every carrier: the verifier's FeatureStream and the
// drafter's RemoteFeatures.
#include "drafter_service/features/remote_features.h"

#include <atomic>
#include <cstring>

#include "common/wire/attach_server.h"
#include "common/wire/grpc_stream.h"
#include "common/wire/service_host.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "verifier_service/features/feature_stream.h"

namespace bastion::drafter {
namespace {

constexpr SequenceId kSequence = {1, 0};
constexpr int kWidth = 3;

// A verifier service that only serves features.
class FeaturesOnly final : public internal::v1::VerifierService::Service {
 public:
  grpc::Status Features(grpc::ServerContext* context,
                        grpc::ServerReaderWriter<internal::v1::FeatureReply,
                                                 internal::v1::FeatureRequest>* stream) override {
    wire::GrpcServerStream<internal::v1::FeatureReply, internal::v1::FeatureRequest> features(
        context, stream);
    Serve(features);
    return grpc::Status::OK;
  }
  grpc::Status Attach(grpc::ServerContext*, const wire::AttachRequest* request,
                      wire::AttachReply* reply) override {
    const auto serve = [this](std::shared_ptr<wire::SharedChannel> channel) {
      ++attached;
      wire::SharedStream<internal::v1::FeatureReply, internal::v1::FeatureRequest> features(
          std::move(channel));
      Serve(features);
      return absl::OkStatus();
    };
    return wire::ToGrpc(attach->Offer(*request, serve, *reply));
  }

  verifier::FeatureStore store{DType::kF32, 1 << 20};
  std::atomic<int> attached{0};
  std::unique_ptr<wire::AttachServer> attach;

 private:
  void Serve(verifier::FeatureStream::Stream& stream) {
    internal::v1::FeatureRequest subscribe;
    if (!stream.Receive(&subscribe, absl::InfiniteFuture()).ok()) return;
    EXPECT_TRUE(subscribe.has_subscribe());
    verifier::FeatureStream(&store, &stream).Run();
  }
};

class RemoteFeaturesTest : public ::testing::TestWithParam<wire::CarrierChoice> {
 protected:
  void SetUp() override {
    verifier_.store.Open(kSequence, kWidth);
    auto attach = wire::StartAttachServer(folder_.File("shm"), "verifier");
    ASSERT_TRUE(attach.ok()) << attach.status();
    verifier_.attach = *std::move(attach);
    const std::string address = "unix://" + folder_.File("verifier.sock");
    wire::HostOptions options;
    options.addresses = {address};
    auto host = wire::ServiceHost::Start(options, {&verifier_});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    remote_ = std::make_unique<RemoteFeatures>(address, GetParam());
    remote_->Start({0}, [this](SequenceId, Position committed, TokenId) {
      ++arrivals_;
      last_arrival_ = committed;
    });
  }
  void TearDown() override {
    EXPECT_EQ(verifier_.attached, GetParam() == wire::CarrierChoice::kAuto ? 1 : 0);
    remote_->Stop();
    host_->Shutdown(absl::Seconds(1));
    verifier_.attach.reset();
  }

  // Row i holds i, three times.
  void Commit(int rows, TokenId next = 5) {
    std::vector<float> values;
    for (int i = 0; i < rows; ++i, ++committed_) values.insert(values.end(), kWidth, committed_);
    verifier_.store.Append(
        kSequence,
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])}, next);
  }
  // Retries the read until the stream is connected.
  void ExpectRows(Position first, int count) {
    absl::StatusOr<Features> features = absl::UnavailableError("not read yet");
    for (int i = 0; i < 100 && !features.ok(); ++i) {
      features = remote_->Read({kSequence, first, count}, absl::Milliseconds(200));
      if (!features.ok()) absl::SleepFor(absl::Milliseconds(20));
    }
    ASSERT_TRUE(features.ok()) << features.status();
    ASSERT_EQ(features->rows(), count);
    for (int i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, features->bytes.data() + i * features->row_bytes(), sizeof value);
      EXPECT_EQ(value, first + i);
    }
  }
  bool AwaitArrival(int committed) {
    for (int i = 0; i < 200 && last_arrival_ != committed; ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    return last_arrival_ == committed;
  }

  const testing::TempFolder folder_;
  FeaturesOnly verifier_;
  std::unique_ptr<wire::ServiceHost> host_;
  std::unique_ptr<RemoteFeatures> remote_;
  int committed_ = 0;
  std::atomic<int> arrivals_{0}, last_arrival_{0};
};

TEST_P(RemoteFeaturesTest, RowsArriveAsTheyAreCommittedWithTheNextRoot) {
  Commit(5);
  ExpectRows(0, 5);
  for (const int rows : {1, 3, 2}) {
    const int first = committed_;
    Commit(rows);
    EXPECT_TRUE(AwaitArrival(committed_));
    ExpectRows(first, rows);
  }
}

TEST_P(RemoteFeaturesTest, AnUnreadSequenceIsFollowedAgainAtItsNextRead) {
  Commit(5);
  ExpectRows(0, 5);
  for (int i = 0; i < 40; ++i) {
    Commit(1);
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_FALSE(AwaitArrival(committed_));
  EXPECT_LT(arrivals_, 30);
  ExpectRows(5, 40);  // All rows that were missed.
  Commit(2);
  EXPECT_TRUE(AwaitArrival(committed_));
  ExpectRows(45, 2);
}

TEST_P(RemoteFeaturesTest, AReadOfEarlierRowsFollowsTheSequenceFromThere) {
  Commit(10);
  ExpectRows(0, 10);
  Commit(3);
  ExpectRows(10, 2);
  ExpectRows(4, 9);
}

TEST_P(RemoteFeaturesTest, AnUnknownSequenceIsAnError) {
  Commit(1);
  ExpectRows(0, 1);
  EXPECT_FALSE(remote_->Read({{9, 0}, 0, 1}, absl::Seconds(5)).ok());
}

INSTANTIATE_TEST_SUITE_P(Carriers, RemoteFeaturesTest,
                         ::testing::Values(wire::CarrierChoice::kInline,
                                           wire::CarrierChoice::kAuto),
                         [](const auto& info) {
                           return info.param == wire::CarrierChoice::kInline ? "Grpc"
                                                                             : "SharedMemory";
                         });

}  // namespace
}  // namespace bastion::drafter
