// The two ends of the feature stream over gRPC: the verifier's FeatureStream, the drafter's
// RemoteFeatures.
#include "drafter_service/serve/remote_features.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/wire/service_host.h"
#include "gtest/gtest.h"
#include "verifier_service/serve/feature_stream.h"

namespace bastion::drafter {
namespace {

constexpr SequenceId kSequence = {1, 0};
constexpr int kWidth = 3;

// A verifier that has features and nothing else.
class FeaturesOnly final : public internal::v1::VerifierService::Service {
 public:
  grpc::Status Features(grpc::ServerContext*,
                        grpc::ServerReaderWriter<internal::v1::FeatureReply,
                                                 internal::v1::FeatureRequest>* stream) override {
    internal::v1::FeatureRequest subscribe;
    if (stream->Read(&subscribe)) verifier::FeatureStream(&store, stream).Run();
    return grpc::Status::OK;
  }
  verifier::FeatureStore store{FeatureType::kF32, 1 << 20};
};

class RemoteFeaturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    verifier_.store.Open(kSequence, kWidth);
    const std::string address = absl::StrCat("unix:///tmp/bastion_features_", getpid(), ".sock");
    wire::HostOptions options;
    options.addresses = {address};
    auto host = wire::ServiceHost::Start(options, {&verifier_});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    remote_ = std::make_unique<RemoteFeatures>(address);
    remote_->Start({0}, [this](SequenceId, Position committed, TokenId) {
      ++told_;
      last_told_ = committed;
    });
  }
  void TearDown() override {
    remote_->Stop();
    host_->Shutdown(absl::Seconds(1));
  }

  // Row i holds i, three times.
  void Commit(int rows, TokenId next = 5) {
    std::vector<float> values;
    for (int i = 0; i < rows; ++i, ++committed_) values.insert(values.end(), kWidth, committed_);
    std::vector<int> all(rows);
    std::iota(all.begin(), all.end(), 0);
    verifier_.store.Append(kSequence, values.data(), all, next);
  }
  // Reads until the stream is there.
  void ExpectRows(Position first, int count) {
    absl::StatusOr<Features> features = absl::UnavailableError("not tried");
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
  bool AwaitTold(int committed) {
    for (int i = 0; i < 200 && last_told_ != committed; ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    return last_told_ == committed;
  }

  FeaturesOnly verifier_;
  std::unique_ptr<wire::ServiceHost> host_;
  std::unique_ptr<RemoteFeatures> remote_;
  int committed_ = 0;
  std::atomic<int> told_{0}, last_told_{0};
};

TEST_F(RemoteFeaturesTest, RowsComeAsTheyAreCommittedAndNewsWithThem) {
  Commit(5);
  ExpectRows(0, 5);
  for (const int rows : {1, 3, 2}) {
    const int first = committed_;
    Commit(rows);
    EXPECT_TRUE(AwaitTold(committed_));
    ExpectRows(first, rows);
  }
}

TEST_F(RemoteFeaturesTest, ASequenceThatNobodyReadsIsNoLongerFollowedAndIsWhenReadAgain) {
  Commit(5);
  ExpectRows(0, 5);
  for (int i = 0; i < 40; ++i) {
    Commit(1);
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_FALSE(AwaitTold(committed_));
  EXPECT_LT(told_, 30);
  ExpectRows(5, 40);  // All that was missed.
  Commit(2);
  EXPECT_TRUE(AwaitTold(committed_));
  ExpectRows(45, 2);
}

TEST_F(RemoteFeaturesTest, AReadFromFartherBackStartsAnewThere) {
  Commit(10);
  ExpectRows(0, 10);
  Commit(3);
  ExpectRows(10, 2);
  ExpectRows(4, 9);
}

TEST_F(RemoteFeaturesTest, UnknownSequencesAreSaidToBe) {
  Commit(1);
  ExpectRows(0, 1);
  EXPECT_FALSE(remote_->Read({{9, 0}, 0, 1}, absl::Seconds(5)).ok());
}

}  // namespace
}  // namespace bastion::drafter
