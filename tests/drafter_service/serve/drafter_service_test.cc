// The drafter's service over a fake engine: sequences belong to streams, and an engine that throws
// loses nothing.
#include "drafter_service/serve/drafter_service.h"

#include <new>
#include <set>

#include "absl/time/clock.h"
#include "common/wire/service_host.h"
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
    for (const Frontier& frontier : frontiers) open.insert(frontier.sequence);
    return std::vector<Draft>(frontiers.size());
  }
  void FeaturesArrived(SequenceId, Position, TokenId) override {}
  void Close(SequenceId sequence) override { open.erase(sequence); }
  const DraftTrace& last_trace() const override { return trace_; }
  int live_sequences() const override { return static_cast<int>(open.size()); }

  std::set<SequenceId> open;
  bool throws = false;

 private:
  DrafterInfo info_;
  DraftTrace trace_;
  std::vector<int> layers_;
};

class DrafterServiceTest : public ::testing::Test {
 protected:
  DrafterServiceTest() {
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
  DrafterService service_{&engine_, [](SequenceId) {}};
  std::unique_ptr<wire::ServiceHost> host_;
};

TEST_F(DrafterServiceTest, AStreamCannotUseOrCloseTheSequencesOfAnother) {
  const auto owner = Connect(), other = Connect();
  ASSERT_TRUE(owner->Expand({FrontierOf(kSequence)}).ok());
  other->Close(kSequence);
  const SequenceId later = {kSequence.session, 1}, own = {8, 0};
  const auto result = other->Expand({FrontierOf(later), FrontierOf(own)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsNotFound(result->drafts.at(0).status));
  EXPECT_TRUE(result->drafts.at(1).status.ok());
  EXPECT_EQ(engine_.open, (std::set<SequenceId>{kSequence, own}));
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

}  // namespace
}  // namespace bastion::drafter
