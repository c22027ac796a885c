// The verifier's service over a fake engine: sequences belong to streams, and an engine that throws
// loses nothing.
#include "verifier_service/serve/verifier_service.h"

#include <atomic>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/host/service_host.h"
#include "common/wire/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/temp_folder.h"

namespace bastion::verifier {
namespace {

constexpr SequenceId kSequence = {7, 0};

class FakeEngine final : public VerifierEngine {
 public:
  FakeEngine() { info_.dims.vocabulary = 10; }
  const TargetInfo& info() const override { return info_; }
  absl::Status SetFeatureLayers(const std::vector<int>& layers) override {
    MutexLock lock(&mutex_);
    layers_ = layers;
    return absl::OkStatus();
  }
  absl::Status Open(SequenceId sequence, const SamplingParams&) override {
    MutexLock lock(&mutex_);
    std::erase_if(open_, [&](SequenceId id) { return id.session == sequence.session; });
    open_.insert(sequence);
    return absl::OkStatus();
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    if (throws) throw std::bad_alloc();
    VerifyResult result;
    result.outcomes.resize(forest.size());
    result.prompts.resize(prompts.size());
    return result;
  }
  void Close(SequenceId sequence) override {
    MutexLock lock(&mutex_);
    open_.erase(sequence);
  }
  nn::ForwardCost cost() const override { return {}; }
  FeatureStore& features() override { return store_; }
  int live_sequences() const override { return static_cast<int>(open().size()); }
  int free_kv_tokens() const override { return 0; }

  std::set<SequenceId> open() const {
    MutexLock lock(&mutex_);
    return open_;
  }
  // Those of the last SetFeatureLayers.
  std::vector<int> layers() const {
    MutexLock lock(&mutex_);
    return layers_;
  }
  std::atomic<bool> throws{false};

 private:
  mutable Mutex mutex_;  // The thread of the test reads what those of the service write.
  std::set<SequenceId> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> layers_ ABSL_GUARDED_BY(mutex_);
  TargetInfo info_;
  FeatureStore store_{DType::kF32, 1 << 20};
};

class VerifierServiceTest : public ::testing::Test {
 protected:
  VerifierServiceTest() {
    wire::HostOptions options;
    options.addresses = {address_};
    options.reflection = false;
    auto host = wire::ServiceHost::Start(options, {&service_});
    EXPECT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  std::unique_ptr<RemoteVerifier> Connect() const {
    return std::make_unique<RemoteVerifier>(
        RemoteOptions{.address = address_, .carrier = wire::CarrierChoice::kInline});
  }
  // Waits until `sequences` are open.
  bool AwaitOpen(int sequences) {
    for (int i = 0; i < 2000; ++i) {
      if (service_.state().sequences == sequences) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }
  static absl::StatusOr<VerifyResult> VerifyRoot(RemoteVerifier& verifier, SequenceId sequence) {
    return verifier.Verify({{sequence, 0, DraftTree(1)}}, {});
  }

  const testing::TempFolder folder_;
  const std::string address_ = "unix:" + folder_.File("verifier.sock");
  FakeEngine engine_;
  VerifierService service_{&engine_, nullptr, nullptr, wire::Security::None(),
                           /*max_stream_sequences=*/4};
  std::unique_ptr<wire::ServiceHost> host_;
};

TEST_F(VerifierServiceTest, AStreamCannotUseOrCloseTheSequencesOfAnother) {
  const auto owner = Connect(), other = Connect();
  ASSERT_TRUE(owner->Open(kSequence, {}).ok());
  EXPECT_FALSE(other->Open({kSequence.session, 1}, {}).ok());
  EXPECT_TRUE(absl::IsNotFound(VerifyRoot(*other, kSequence).status()));
  EXPECT_TRUE(absl::IsNotFound(other->ReusePrefix({kSequence, {1}, ""}).status()));
  const std::vector<PrefillItem> prompts = {{kSequence, 0, {1}}};
  EXPECT_TRUE(absl::IsNotFound(other->Verify({}, prompts).status()));
  other->Close(kSequence);
  ASSERT_TRUE(other->Open({8, 0}, {}).ok());  // Its Close has been handled.
  EXPECT_TRUE(VerifyRoot(*owner, kSequence).ok());
  EXPECT_EQ(engine_.open(), (std::set<SequenceId>{kSequence, {8, 0}}));
}

TEST_F(VerifierServiceTest, AStreamCannotTakeTheSequencesOfAllOthers) {
  const auto first = Connect(), second = Connect();
  for (uint64_t session = 1; session <= 4; ++session) {
    ASSERT_TRUE(first->Open({session, 0}, {}).ok());
  }
  const absl::Status refused = first->Open({5, 0}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(second->Open({6, 0}, {}).ok());
  EXPECT_TRUE(first->Open({4, 1}, {}).ok()) << "it replaces the stream's own sequence";
  first->Close({1, 0});
  EXPECT_TRUE(first->Open({5, 0}, {}).ok());
}

TEST_F(VerifierServiceTest, ALostStreamClosesItsSequences) {
  {
    const auto verifier = Connect();
    ASSERT_TRUE(verifier->Open(kSequence, {}).ok());
    ASSERT_TRUE(AwaitOpen(1));
  }
  EXPECT_TRUE(AwaitOpen(0));
}

TEST_F(VerifierServiceTest, AnEngineThatThrowsFailsTheCallAndLeaksNothing) {
  {
    const auto verifier = Connect();
    ASSERT_TRUE(verifier->Open(kSequence, {}).ok());
    engine_.throws = true;
    const absl::Status failed = VerifyRoot(*verifier, kSequence).status();
    EXPECT_TRUE(absl::IsInternal(failed)) << failed;
    engine_.throws = false;
    EXPECT_TRUE(VerifyRoot(*verifier, kSequence).ok());
  }
  EXPECT_TRUE(AwaitOpen(0));
}

TEST_F(VerifierServiceTest, TheClientTakesItsOwnSequenceOverWithALaterEpoch) {
  // Two streams of one client, as after a break that the service has not noticed yet.
  const auto stub = proto::VerifierService::NewStub(wire::ConnectPeer(address_));
  proto::VerifierRequest request;
  request.mutable_open()->set_owner("a secret");
  proto::VerifierReply reply;
  grpc::ClientContext contexts[2];
  std::unique_ptr<grpc::ClientReaderWriter<proto::VerifierRequest, proto::VerifierReply>>
      streams[2];
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    wire::AddProtocolVersion(contexts[epoch]);
    streams[epoch] = stub->Steps(&contexts[epoch]);
    wire::Encode(SequenceId{7, epoch}, *request.mutable_open()->mutable_sequence());
    wire::Encode(SamplingParams(), *request.mutable_open()->mutable_sampling());
    ASSERT_TRUE(streams[epoch]->Write(request));
    ASSERT_TRUE(streams[epoch]->Read(&reply));
    EXPECT_EQ(reply.status().code(), 0) << reply.status().message();
  }
  // The end of the first stream does not close the sequence of the second one.
  streams[0]->WritesDone();
  EXPECT_TRUE(streams[0]->Finish().ok());
  EXPECT_EQ(service_.state().sequences, 1);
  streams[1]->WritesDone();
  EXPECT_TRUE(streams[1]->Finish().ok());
  EXPECT_EQ(service_.state().sequences, 0);
}

// A feature stream that subscribes to layers.
class Subscriber {
 public:
  Subscriber(const std::string& address, std::vector<int> layers)
      : stub_(proto::VerifierService::NewStub(wire::ConnectPeer(address))) {
    wire::AddProtocolVersion(context_);
    stream_ = stub_->Features(&context_);
    proto::FeatureRequest request;
    request.mutable_subscribe()->mutable_layers()->Add(layers.begin(), layers.end());
    stream_->Write(request);
  }
  // The service's status, after it or this client ended the stream.
  absl::Status Finish() {
    stream_->WritesDone();
    proto::FeatureReply reply;
    while (stream_->Read(&reply)) {
    }
    return wire::FromGrpc(stream_->Finish());
  }

 private:
  std::unique_ptr<proto::VerifierService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::FeatureRequest, proto::FeatureReply>> stream_;
};

TEST_F(VerifierServiceTest, ADrafterCannotChangeTheLayersOfAnotherThatIsConnected) {
  Subscriber first(address_, {1, 2});
  const auto subscribed = [&] {
    (void)service_.state();  // Orders this thread after the subscription.
    return engine_.layers() == std::vector<int>{1, 2};
  };
  for (int i = 0; i < 2000 && !subscribed(); ++i) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_TRUE(absl::IsFailedPrecondition(Subscriber(address_, {0}).Finish()));
  // The service cancels a stream that ends.
  EXPECT_TRUE(absl::IsCancelled(Subscriber(address_, {1, 2}).Finish()));
  EXPECT_TRUE(absl::IsCancelled(first.Finish()));
  // The service may notice the end later. A drafter tries again, too.
  absl::Status other = absl::FailedPreconditionError("");
  for (int i = 0; i < 100 && absl::IsFailedPrecondition(other); ++i) {
    other = Subscriber(address_, {0}).Finish();
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(absl::IsCancelled(other)) << other;
  EXPECT_EQ(engine_.layers(), std::vector<int>{0});
}

TEST_F(VerifierServiceTest, AnIdleEngineIsNotBusyAndTheInstanceDiffersBetweenProcesses) {
  const auto stub = proto::VerifierService::NewStub(wire::ConnectPeer(address_));
  grpc::ClientContext context;
  wire::AddProtocolVersion(context);
  proto::TargetInfo info;
  ASSERT_TRUE(stub->GetInfo(&context, {}, &info).ok());
  EXPECT_FALSE(info.activity().busy());
  EXPECT_NE(info.activity().instance(), 0u);
  EXPECT_NE(EngineMeter().activity().instance, info.activity().instance());
}

}  // namespace
}  // namespace bastion::verifier
