// The drafter's service over a fake engine: sequences belong to streams, an engine that throws
// loses nothing, and a call waits for at most one piece of another sequence's context.
#include "drafter_service/serve/drafter_service.h"

#include <atomic>
#include <functional>
#include <new>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/host/service_host.h"
#include "common/telemetry/service_telemetry.h"
#include "common/wire/codec.h"
#include "common/wire/protocol.h"
#include "gtest/gtest.h"
#include "orchestrator/remote/remote_drafter.h"
#include "tests/support/temp_folder.h"

namespace bastion::drafter {
namespace {

constexpr SequenceId kSequence = {7, 0};

class FakeEngine final : public DrafterEngine {
 public:
  const DrafterInfo& info() const override { return info_; }
  nn::ForwardCost cost() const override { return {}; }
  const std::vector<int>& feature_layers() const override { return layers_; }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override {
    if (throws) throw std::bad_alloc();
    pieces_left_ += pieces_of_next_call.exchange(0);
    appended_before_call = appended.load();
    MutexLock lock(&mutex_);
    std::vector<Draft> drafts(frontiers.size());
    for (size_t i = 0; i < frontiers.size(); ++i) {
      if (frontiers[i].candidates < 0) {
        drafts[i].status = absl::InvalidArgumentError("negative");
      } else {
        open_.insert(frontiers[i].sequence);
      }
    }
    return drafts;
  }
  void FeaturesArrived(SequenceId, Position, TokenId) override { ++arrivals; }
  void Close(SequenceId sequence) override {
    MutexLock lock(&mutex_);
    open_.erase(sequence);
  }
  const DraftTrace& last_trace() const override { return trace_; }
  int live_sequences() const override {
    appended_when_counted = appended.load();
    return static_cast<int>(open().size());
  }
  bool has_piece() const override { return pieces_left_ > 0; }
  FeatureRange NextPiece() override {
    --pieces_left_;
    return {kSequence};
  }
  absl::StatusOr<Features> ReadPiece(const FeatureRange&) override {
    if (on_read) on_read();
    return Features();
  }
  bool AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features) override {
    if (on_append) on_append(features.status());
    ++appended;
    trace_.context_tokens += kPieceTokens;
    return open().contains(piece.sequence);
  }

  std::set<SequenceId> open() const {
    MutexLock lock(&mutex_);
    return open_;
  }
  static constexpr int kPieceTokens = 100;
  std::atomic<bool> throws{false};
  std::atomic<int> arrivals{0};
  // ---- pieces ----
  std::atomic<int> pieces_of_next_call{0};
  std::function<void()> on_read;
  std::function<void(const absl::Status& read)> on_append;
  std::atomic<int> appended{0};
  std::atomic<int> appended_before_call{0};           // When the last call began.
  mutable std::atomic<int> appended_when_counted{0};  // When live_sequences was called.

 private:
  mutable Mutex mutex_;  // The thread of the test reads what those of the service write.
  std::set<SequenceId> open_ ABSL_GUARDED_BY(mutex_);
  int pieces_left_ = 0;
  DrafterInfo info_;
  DraftTrace trace_;
  std::vector<int> layers_;
};

class DrafterServiceTest : public ::testing::Test {
 protected:
  DrafterServiceTest() {
    service_.ReportRoute([this] { return route_.load(); });
    wire::HostOptions options;
    options.addresses = {address_};
    options.reflection = false;
    auto host = wire::ServiceHost::Start(options, {&service_});
    EXPECT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  std::unique_ptr<RemoteDrafter> Connect() const {
    return std::make_unique<RemoteDrafter>(
        RemoteOptions{.address = address_, .carrier = wire::CarrierChoice::kInline});
  }
  static Frontier FrontierOf(SequenceId sequence) {
    Frontier frontier;
    frontier.sequence = sequence;
    return frontier;
  }
  // Waits until a call has arrived that has not been answered.
  void AwaitCall() const {
    const auto stub = proto::DrafterService::NewStub(wire::ConnectPeer(address_));
    proto::DrafterInfo info;
    while (!info.activity().busy()) {
      grpc::ClientContext context;
      wire::AddProtocolVersion(context);
      ASSERT_TRUE(stub->GetInfo(&context, {}, &info).ok());
    }
  }
  bool AwaitOpen(int sequences) {
    for (int i = 0; i < 2000; ++i) {
      if (service_.live_sequences() == sequences) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }

  const testing::TempFolder folder_;
  const std::string address_ = "unix:" + folder_.File("drafter.sock");
  FakeEngine engine_;
  std::atomic<FeatureRoute> route_{FeatureRoute::kPeerGpuMemory};
  std::atomic<int> closed_{0};  // Calls of on_close.
  ServiceTelemetry telemetry_{
      {.service = "drafter", .model = "m", .http = {.listen = "127.0.0.1:0"}}};
  DrafterTelemetry measured_{&telemetry_};
  DrafterService service_{&engine_, [this](SequenceId) { ++closed_; }, /*attach=*/nullptr,
                          &measured_};
  std::unique_ptr<wire::ServiceHost> host_;
};

TEST_F(DrafterServiceTest, GetInfoSaysHowFeaturesArrive) {
  const auto stub = proto::DrafterService::NewStub(wire::ConnectPeer(address_));
  const auto features = [&] {
    grpc::ClientContext context;
    wire::AddProtocolVersion(context);
    proto::DrafterInfo info;
    EXPECT_TRUE(stub->GetInfo(&context, {}, &info).ok());
    return wire::Decode(info).features;
  };
  EXPECT_EQ(features(), FeatureRoute::kPeerGpuMemory);
  route_ = FeatureRoute::kSharedMemory;
  EXPECT_EQ(features(), FeatureRoute::kSharedMemory);
}

TEST_F(DrafterServiceTest, AStreamCannotUseOrCloseTheSequencesOfAnother) {
  const auto owner = Connect(), other = Connect();
  ASSERT_TRUE(owner->Expand({FrontierOf(kSequence)}).ok());
  other->Close(kSequence);
  const SequenceId later = {kSequence.session, 1}, own = {8, 0};
  const auto result = other->Expand({FrontierOf(later), FrontierOf(own)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsNotFound(result->drafts.at(0).status));
  EXPECT_TRUE(result->drafts.at(1).status.ok());
  EXPECT_EQ(engine_.open(), (std::set<SequenceId>{kSequence, own}));
}

TEST_F(DrafterServiceTest, AnEngineThatThrowsFailsTheCallAndLeaksNothing) {
  {
    const auto drafter = Connect();
    ASSERT_TRUE(drafter->Expand({FrontierOf(kSequence)}).ok());
    engine_.throws = true;
    const absl::Status failed = drafter->Expand({FrontierOf(kSequence)}).status();
    EXPECT_TRUE(absl::IsInternal(failed)) << failed;
    engine_.throws = false;
    EXPECT_TRUE(drafter->Expand({FrontierOf(kSequence)}).ok());
    EXPECT_TRUE(AwaitOpen(1));
  }
  EXPECT_TRUE(AwaitOpen(0));
}

TEST_F(DrafterServiceTest, ACallWaitsForAtMostOnePiece) {
  constexpr int kPieces = 10000;
  absl::Notification begun, proceed;
  engine_.on_append = [&](const absl::Status&) {
    if (engine_.appended > 0) return;
    begun.Notify();
    proceed.WaitForNotification();
  };
  engine_.pieces_of_next_call = kPieces;
  const auto drafter = Connect();
  ASSERT_TRUE(drafter->Expand({FrontierOf(kSequence)}).ok());
  begun.WaitForNotification();
  std::thread call([&] { EXPECT_TRUE(drafter->Expand({FrontierOf({8, 0})}).ok()); });
  AwaitCall();
  proceed.Notify();
  call.join();
  // The piece that was being appended, and one more if that one ended just before the call began to
  // wait for the engine.
  EXPECT_LE(engine_.appended_before_call, 2);
  for (int i = 0; i < 2000 && engine_.appended < kPieces; ++i) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(engine_.appended, kPieces) << "the others follow after the call";
}

TEST_F(DrafterServiceTest, ACallDoesNotWaitForTheFeaturesOfAPiece) {
  absl::Notification reading, proceed, appended;
  engine_.on_read = [&] {
    reading.Notify();
    proceed.WaitForNotification();
    throw std::bad_alloc();
  };
  engine_.on_append = [&](const absl::Status& read) {
    EXPECT_TRUE(absl::IsInternal(read)) << read;
    appended.Notify();
  };
  engine_.pieces_of_next_call = 1;
  const auto drafter = Connect();
  ASSERT_TRUE(drafter->Expand({FrontierOf(kSequence)}).ok());
  reading.WaitForNotification();
  ASSERT_TRUE(drafter->Expand({FrontierOf({8, 0})}).ok());
  drafter->Close(kSequence);
  EXPECT_TRUE(AwaitOpen(1));
  EXPECT_EQ(closed_, 1);
  proceed.Notify();
  appended.WaitForNotification();
  // The read may have followed the features of the closed sequence again.
  for (int i = 0; i < 2000 && closed_ < 2; ++i) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(closed_, 2);
}

TEST_F(DrafterServiceTest, ARefusedFrontierClaimsNoSession) {
  const auto first = Connect(), second = Connect();
  Frontier refused = FrontierOf(kSequence);
  refused.candidates = -1;
  const auto result = first->Expand({refused});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsInvalidArgument(result->drafts.at(0).status));
  // Another client may use the session, and then it is refused to the first one.
  const auto other = second->Expand({FrontierOf(kSequence)});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(other->drafts.at(0).status.ok()) << other->drafts[0].status;
  EXPECT_TRUE(absl::IsNotFound(first->Expand({FrontierOf(kSequence)})->drafts.at(0).status));
}

TEST_F(DrafterServiceTest, ARefusedFrontierDoesNotReleaseAnOpenSequence) {
  const auto owner = Connect(), other = Connect();
  ASSERT_TRUE(owner->Expand({FrontierOf(kSequence)}).ok());
  Frontier refused = FrontierOf(kSequence), refused_later = FrontierOf({kSequence.session, 1});
  refused.candidates = refused_later.candidates = -1;
  ASSERT_TRUE(owner->Expand({refused}).ok());
  ASSERT_TRUE(owner->Expand({refused_later}).ok());
  // The session occurs twice: refused and accepted.
  Frontier twice = FrontierOf({8, 0});
  twice.candidates = -1;
  ASSERT_TRUE(owner->Expand({twice, FrontierOf({8, 0})}).ok());
  const auto result = other->Expand({FrontierOf(kSequence), FrontierOf({8, 0})});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsNotFound(result->drafts.at(0).status));
  EXPECT_TRUE(absl::IsNotFound(result->drafts.at(1).status));
}

TEST_F(DrafterServiceTest, ACallWithTooManyPathsIsRefused) {
  const auto drafter = Connect();
  Frontier frontier = FrontierOf(kSequence);
  frontier.paths.resize(DrafterService::kMaxPaths);
  EXPECT_TRUE(drafter->Expand({frontier}).ok());
  frontier.paths.emplace_back();
  const absl::Status paths = drafter->Expand({frontier}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(paths)) << paths;
  const std::vector<Frontier> many(DrafterService::kMaxFrontiers + 1);
  const absl::Status frontiers = drafter->Expand(many).status();
  EXPECT_TRUE(absl::IsInvalidArgument(frontiers)) << frontiers;
  EXPECT_TRUE(drafter->Expand({FrontierOf(kSequence)}).ok());
}

TEST_F(DrafterServiceTest, FeaturesThatArriveDuringAPieceAreDraftedAhead) {
  absl::Notification begun, proceed;
  engine_.on_append = [&](const absl::Status&) {
    begun.Notify();
    proceed.WaitForNotification();
  };
  engine_.pieces_of_next_call = 1;
  const auto drafter = Connect();
  ASSERT_TRUE(drafter->Expand({FrontierOf(kSequence)}).ok());
  begun.WaitForNotification();
  service_.FeaturesArrived({8, 0}, 10, 3);  // Does not wait for the piece.
  EXPECT_EQ(engine_.arrivals, 0);
  proceed.Notify();
  for (int i = 0; i < 2000 && engine_.arrivals < 1; ++i) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(engine_.arrivals, 1);
  service_.FeaturesArrived({8, 0}, 12, 3);
  EXPECT_EQ(engine_.arrivals, 2) << "at once if nothing else runs";
}

// A caller that waits for the engine goes before the next piece.
TEST_F(DrafterServiceTest, CountingSequencesWaitsForOnePiece) {
  constexpr int kPieces = 20;
  engine_.on_append = [](const absl::Status&) { absl::SleepFor(absl::Milliseconds(25)); };
  engine_.pieces_of_next_call = kPieces;
  const auto drafter = Connect();
  ASSERT_TRUE(drafter->Expand({FrontierOf(kSequence)}).ok());
  EXPECT_EQ(service_.live_sequences(), 1);
  EXPECT_LT(engine_.appended_when_counted, kPieces / 2);
}

TEST_F(DrafterServiceTest, TheTokensOfPiecesAreCounted) {
  engine_.pieces_of_next_call = 3;
  ASSERT_TRUE(Connect()->Expand({FrontierOf(kSequence)}).ok());
  const prometheus::Counter& counter = telemetry_.metrics()->Counter(
      "bastion_drafter_context_tokens_total", "Tokens that were added to contexts.");
  for (int i = 0; i < 2000 && counter.Value() < 3 * FakeEngine::kPieceTokens; ++i) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(counter.Value(), 3 * FakeEngine::kPieceTokens);
}

}  // namespace
}  // namespace bastion::drafter
