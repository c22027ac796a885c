// Tests both ends of the feature stream over every carrier: the verifier's FeaturePusher and the
// drafter's RemoteFeatures.
#include "drafter_service/features/remote_features.h"

#include <atomic>
#include <cstring>
#include <limits>

#include "common/host/service_host.h"
#include "common/wire/attach_server.h"
#include "common/wire/grpc_stream.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "verifier_service/features/feature_pusher.h"

namespace bastion::drafter {
namespace {

constexpr SequenceId kSequence = {1, 0};
constexpr int kWidth = 3;

using ServerStream = verifier::FeaturePusher::Stream;

// Checks that the verifier sends no row from `limit` on. Sends rows from `narrow_from` on as more,
// narrower rows.
class CheckedStream final : public ServerStream {
 public:
  CheckedStream(ServerStream* stream, const std::atomic<int>& limit,
                const std::atomic<int>& narrow_from, bool ignores_credit)
      : stream_(stream),
        limit_(limit),
        narrow_from_(narrow_from),
        ignores_credit_(ignores_credit) {}

  absl::Status Send(const internal::v1::FeatureReply& reply, absl::Time deadline) override {
    if (reply.features().shape_size() > 0) {
      EXPECT_LE(reply.first() + reply.features().shape(0), limit_);
    }
    if (reply.first() < narrow_from_) return stream_->Send(reply, deadline);
    internal::v1::FeatureReply narrow = reply;
    narrow.mutable_features()->set_shape(0, reply.features().shape(0) * kWidth);
    narrow.mutable_features()->set_shape(1, 1);
    return stream_->Send(narrow, deadline);
  }
  absl::Status Receive(internal::v1::FeatureRequest* request, absl::Time deadline) override {
    const absl::Status received = stream_->Receive(request, deadline);
    if (ignores_credit_ && request->has_follow()) request->mutable_follow()->clear_end();
    return received;
  }
  bool supports_deadlines() const override { return stream_->supports_deadlines(); }
  void Cancel() override { stream_->Cancel(); }
  wire::Carrier& carrier() override { return stream_->carrier(); }

 private:
  ServerStream* const stream_;
  const std::atomic<int>& limit_;
  const std::atomic<int>& narrow_from_;
  const bool ignores_credit_;
};

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
  // See CheckedStream.
  std::atomic<int> limit{std::numeric_limits<int>::max()};
  std::atomic<int> narrow_from{std::numeric_limits<int>::max()};
  std::atomic<bool> ignores_credit{false};
  std::unique_ptr<wire::AttachServer> attach;

 private:
  void Serve(verifier::FeaturePusher::Stream& stream) {
    internal::v1::FeatureRequest subscribe;
    if (!stream.Receive(&subscribe, absl::InfiniteFuture()).ok()) return;
    EXPECT_TRUE(subscribe.has_subscribe());
    CheckedStream checked(&stream, limit, narrow_from, ignores_credit);
    verifier::FeaturePusher(&store, &checked).Run();
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
    EXPECT_EQ(verifier_.attached > 0, GetParam() == wire::CarrierChoice::kAuto);
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

// The attack of finding M7: the drafter used to buffer all rows of a long prompt.
TEST_P(RemoteFeaturesTest, ALongPromptNeverTakesMoreThanTheWindow) {
  constexpr int kPiece = RemoteFeatures::kWindowRows / 2;
  Commit(10 * kPiece);
  for (int first = 0; first < committed_; first += kPiece) {
    verifier_.limit = first + kPiece + RemoteFeatures::kWindowRows;
    ExpectRows(first, kPiece);
  }
  Commit(3);
  EXPECT_TRUE(AwaitArrival(committed_));
  ExpectRows(committed_ - 3, 3);
}

TEST_P(RemoteFeaturesTest, AVerifierThatSendsWithoutCreditLosesItsStream) {
  verifier_.ignores_credit = true;
  Commit(RemoteFeatures::kWindowRows + 1);
  absl::Status failed;
  for (int i = 0; i < 1000 && failed.message().find("credit") == std::string::npos; ++i) {
    failed = remote_->Read({kSequence, 0, 1}, absl::Milliseconds(200)).status();
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_NE(
      failed.message().find("1025 rows from token 0 on of sequence 1, but has credit only for "
                            "those before token 1024"),
      std::string::npos)
      << failed;
  verifier_.ignores_credit = false;
  ExpectRows(0, 5);  // The drafter has connected again.
}

TEST_P(RemoteFeaturesTest, RowsOfTwoWidthsAreNeverJoined) {
  Commit(10);
  ExpectRows(0, 5);
  verifier_.narrow_from = 10;
  Commit(3);
  ExpectRows(5, 8);  // Followed again, so that all of them have the same width.
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
