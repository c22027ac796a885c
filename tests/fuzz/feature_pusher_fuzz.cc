// The verifier's end of a feature stream with a drafter that sends any requests, while the engine
// commits, closes and opens sequences in between.
#include <unistd.h>

#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/wire/codec.h"
#include "tests/fuzz/fuzz_target.h"
#include "verifier_service/features/feature_pusher.h"

namespace bastion::verifier {
namespace {

using internal::v1::FeatureReply;
using internal::v1::FeatureRequest;
using testing::FuzzInput;

constexpr int kWidth = 3;
constexpr size_t kRowBytes = kWidth * sizeof(float);
constexpr int64_t kStoreBytes = 4096;
constexpr uint64_t kDeviceBytes = 1024;

std::shared_ptr<wire::DeviceRingWriter> MakeRing() {
  auto ring = wire::DeviceRingWriter::Create(wire::Descriptor(dup(0)), kDeviceBytes, "gpu");
  CHECK(ring.ok()) << ring.status();
  return *std::move(ring);
}

// The drafter. Its requests come from the input; between them, the engine acts as the input says.
class FuzzedDrafter final : public FeaturePusher::Stream {
 public:
  FuzzedDrafter(FuzzInput* input, FeatureStore* store, wire::DeviceRingWriter* ring)
      : input_(input), store_(store), ring_(ring), supports_deadlines_(input->Byte() % 4 != 0) {}

  absl::Status Receive(FeatureRequest* request, absl::Time) override {
    while (!input_->empty()) {
      switch (input_->Byte() % 8) {
        case 0:
          if (!request->ParseFromString(input_->Bytes(input_->Byte()))) break;
          NoteCredit(*request);
          return absl::OkStatus();
        case 1:
        case 2:
          *request = Follow();
          NoteCredit(*request);
          return absl::OkStatus();
        case 3:
          *request = Grant();
          NoteCredit(*request);
          return absl::OkStatus();
        case 4:
          request->Clear();
          wire::Encode(Sequence(), *request->mutable_unfollow()->mutable_sequence());
          return absl::OkStatus();
        default:
          Commit();
      }
    }
    return absl::UnavailableError("the drafter disconnected");
  }

  // Rows beyond the credit are never sent.
  absl::Status Send(const FeatureReply& reply, absl::Time) override {
    if (reply.status().code() != 0) return absl::OkStatus();
    CHECK_EQ(reply.features().shape_size(), 2);
    const int64_t rows = reply.features().shape(0);
    CHECK_GT(rows, 0);
    CHECK_GE(reply.first(), 0);
    CHECK_EQ(reply.features().shape(1), kWidth);
    MutexLock lock(&mutex_);
    const auto credit = credit_.find({wire::Decode(reply.sequence()), reply.follow()});
    CHECK(credit != credit_.end());
    CHECK_LE(reply.first() + rows, credit->second);
    return absl::OkStatus();
  }
  bool supports_deadlines() const override { return supports_deadlines_; }
  void Cancel() override {}
  wire::Carrier& carrier() override { return carrier_; }

 private:
  using Asked = std::pair<SequenceId, uint64_t>;  // The sequence and the number of a Follow.

  SequenceId Sequence() { return {static_cast<uint64_t>(input_->Byte() % 3), 0}; }
  FeatureRequest Follow() {
    FeatureRequest request;
    auto& follow = *request.mutable_follow();
    wire::Encode(Sequence(), *follow.mutable_sequence());
    follow.set_first(static_cast<int32_t>(input_->Number()));
    follow.set_bytes_before(static_cast<int32_t>(input_->Number()));
    follow.set_number(input_->Byte() % 4);
    follow.set_end(static_cast<int32_t>(input_->Number()));
    return request;
  }
  FeatureRequest Grant() {
    FeatureRequest request;
    auto& grant = *request.mutable_grant();
    wire::Encode(Sequence(), *grant.mutable_sequence());
    grant.set_follow(input_->Byte() % 4);
    grant.set_end(static_cast<int32_t>(input_->Number()));
    return request;
  }
  void NoteCredit(const FeatureRequest& request) {
    MutexLock lock(&mutex_);
    if (request.has_follow()) {
      const auto& follow = request.follow();
      int64_t& end = credit_[{wire::Decode(follow.sequence()), follow.number()}];
      end = std::max<int64_t>(end, follow.end() == 0 ? INT32_MAX : follow.end());
    } else if (request.has_grant()) {
      const auto& grant = request.grant();
      int64_t& end = credit_[{wire::Decode(grant.sequence()), grant.follow()}];
      end = std::max<int64_t>(end, grant.end());
    }
  }
  // What the engine does.
  void Commit() {
    const SequenceId sequence = Sequence();
    const uint8_t choice = input_->Byte();
    if (choice == 0) return store_->Close(sequence);
    if (choice == 1) return store_->Open(sequence, kWidth);
    if (choice == 2) return store_->Open({sequence.session, 1}, kWidth);
    if (choice == 3) return store_->DropAll();
    const std::string rows((1 + choice % 40) * kRowBytes, 'r');
    std::optional<uint64_t> position;
    if (choice % 2 == 0 && (position = ring_->Reserve(rows.size()))) ring_->Keep(rows.size());
    store_->Append(sequence, rows, choice, position);
  }

  FuzzInput* const input_;
  FeatureStore* const store_;
  wire::DeviceRingWriter* const ring_;
  const bool supports_deadlines_;
  wire::InlineCarrier carrier_;
  Mutex mutex_;
  std::map<Asked, int64_t> credit_ ABSL_GUARDED_BY(mutex_);  // Rows before it may be sent.
};

}  // namespace
}  // namespace bastion::verifier

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bastion::verifier;
  bastion::testing::FuzzInput input(data, size);
  const auto ring = MakeRing();
  FeatureStore store(bastion::DType::kF32, kStoreBytes, ring);
  store.Open({0, 0}, kWidth);
  store.Open({1, 0}, kWidth);
  store.Append({1, 0}, std::string(20 * kRowBytes, 'r'));
  const bool on_device = input.Byte() % 2 != 0;
  FuzzedDrafter drafter(&input, &store, ring.get());
  FeaturePusher(&store, &drafter, on_device ? ring.get() : nullptr).Run();
  return 0;
}
