// The drafter's end of a feature stream with a verifier that sends any replies. The stream goes
// over shared memory and serves many inputs; it is opened again after an input that ends it.
#include <sys/mman.h>

#include <map>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/host/service_host.h"
#include "common/wire/attach_server.h"
#include "common/wire/codec.h"
#include "drafter_service/features/remote_features.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/temp_folder.h"

namespace bastion::drafter {
namespace {

using internal::v1::FeatureReply;
using internal::v1::FeatureRequest;
using testing::FuzzInput;

constexpr uint64_t kSequences = 3;
// Its rows tell that the replies before them were handled.
constexpr SequenceId kLast = {1000, 0};
constexpr uint64_t kDeviceBytes = 4096;

// Passes the drafter's end of each stream to the fuzzing thread.
class FuzzedVerifier final : public internal::v1::VerifierService::Service {
 public:
  explicit FuzzedVerifier(const std::string& folder) {
    auto started = wire::StartAttachServer(folder, "verifier");
    CHECK(started.ok()) << started.status();
    attach_ = *std::move(started);
    auto ring = wire::DeviceRingWriter::Create(wire::Descriptor(memfd_create("gpu", MFD_CLOEXEC)),
                                               kDeviceBytes, "gpu");
    CHECK(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
  }

  grpc::Status Attach(grpc::ServerContext*, const wire::AttachRequest* request,
                      wire::AttachReply* reply) override {
    return wire::ToGrpc(attach_->Offer(
        *request,
        [this](const std::shared_ptr<wire::SharedChannel>& channel) {
          MutexLock lock(&mutex_);
          channel_ = channel;
          const auto ended = [this] {
            mutex_.AssertHeld();
            return channel_ == nullptr;
          };
          while (!mutex_.AwaitWithTimeout(ended, absl::InfiniteDuration())) {
          }
          return absl::OkStatus();
        },
        *reply, ring_));
  }

  std::shared_ptr<wire::SharedChannel> AwaitChannel() {
    MutexLock lock(&mutex_);
    const auto attached = [this] {
      mutex_.AssertHeld();
      return channel_ != nullptr;
    };
    CHECK(mutex_.AwaitWithTimeout(attached, absl::Seconds(10)));
    return channel_;
  }
  void EndChannel() {
    MutexLock lock(&mutex_);
    channel_ = nullptr;
  }
  [[nodiscard]] wire::DeviceRingWriter& ring() { return *ring_; }

 private:
  std::unique_ptr<wire::AttachServer> attach_;
  std::shared_ptr<wire::DeviceRingWriter> ring_;
  Mutex mutex_;
  std::shared_ptr<wire::SharedChannel> channel_ ABSL_GUARDED_BY(mutex_);
};

struct Service {
  Service() {
    wire::HostOptions options;
    options.addresses = {address};
    auto started = wire::ServiceHost::Start(options, {&verifier});
    CHECK(started.ok()) << started.status();
    host = *std::move(started);
    device.uuid = "gpu";
    device.import =
        [](const ExportedMemory& exported) -> absl::StatusOr<std::shared_ptr<const char>> {
      return std::shared_ptr<const char>(new char[exported.bytes](),
                                         std::default_delete<const char[]>());
    };
  }

  const testing::TempFolder folder;
  const std::string address = "unix://" + folder.File("verifier.sock");
  FuzzedVerifier verifier{folder.File("shm")};
  std::unique_ptr<wire::ServiceHost> host;
  DeviceReader device;
};

// A drafter and its stream.
class Session {
 public:
  explicit Session(Service& service) : service_(service), remote_(service.address) {
    remote_.Start(
        {0},
        [this](SequenceId sequence, Position committed, TokenId) {
          // As the drafter's engine does.
          if (committed > 0) (void)remote_.Read({sequence, committed - 1, 1, true}, Now());
        },
        &service.device);
    channel_ = service.verifier.AwaitChannel();
    FeatureRequest subscribe;
    CHECK(channel_->Receive(&subscribe, SteadyNow() + absl::Seconds(10)).ok());
    CHECK(subscribe.has_subscribe());
    // Until the drafter has the stream.
    for (int i = 0; i < 1000 && !remote_.Read({kLast, 0, 0}, Now()).ok(); ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  ~Session() {
    remote_.Stop();
    channel_.reset();
    service_.verifier.EndChannel();
  }

  // Returns false if the stream has ended.
  bool Use(FuzzInput& input) {
    while (!input.empty()) {
      switch (input.Byte() % 8) {
        case 0: {
          FeatureReply reply;
          if (reply.ParseFromString(input.Bytes(input.Byte()))) Send(reply);
          break;
        }
        case 1:
          Read(input);
          break;
        case 2:
          remote_.Forget({input.Byte() % kSequences, 0});
          break;
        case 3:
          (void)service_.verifier.ring().Reserve(input.Byte() * 8);
          break;
        default:
          Send(Reply(input));
      }
    }
    const bool open = Finish();
    for (uint64_t i = 0; i < kSequences; ++i) remote_.Forget({i, 0});
    followed_.clear();
    return open;
  }

 private:
  static absl::Duration Now() { return absl::ZeroDuration(); }

  void Read(FuzzInput& input) {
    // The replies that were sent have been handled, so that the input reproduces.
    if (!Finish()) return;
    FeatureRange range;
    range.sequence = {input.Byte() % kSequences, 0};
    range.first = static_cast<Position>(input.Number() % (1 << 20));
    range.count = input.Byte();
    range.may_be_on_device = input.Byte() % 2 != 0;
    const auto features = remote_.Read(range, Now());
    if (!features.ok() || features->on_device()) return;
    // Only a reader that accepts device rows may get fewer.
    CHECK(features->rows() <= range.count);
    CHECK(range.may_be_on_device || features->rows() == range.count);
    CHECK_EQ(features->bytes.size(), features->rows() * features->row_bytes());
  }

  // A reply that is nearly right.
  FeatureReply Reply(FuzzInput& input) {
    TakeRequests();
    FeatureReply reply;
    const SequenceId sequence = {input.Byte() % kSequences, 0};
    Follow& follow = followed_[sequence];
    const uint8_t choice = input.Byte();
    wire::Encode(sequence, *reply.mutable_sequence());
    if (choice % 16 == 0) reply.mutable_status()->set_code(input.Byte());
    reply.set_follow(follow.number - (choice % 16 == 1 ? 1 : 0));
    reply.set_first(choice % 16 == 2 ? static_cast<int32_t>(input.Number()) : follow.next);
    if (choice >= 128) reply.set_next(input.Byte());
    const auto rows = static_cast<int64_t>(choice % 16 == 3 ? input.Number() : input.Byte() % 8);
    const auto width = static_cast<int64_t>(choice % 16 == 4 ? input.Number() : 2);
    auto& features = *reply.mutable_features();
    features.set_dtype(choice % 16 == 5 ? wire::TensorRef::DTYPE_BFLOAT16
                                        : wire::TensorRef::DTYPE_FLOAT32);
    features.add_shape(rows);
    features.add_shape(width);
    const uint64_t element_bytes = choice % 16 == 5 ? 2 : 4;
    const uint64_t bytes =
        static_cast<uint64_t>(rows) * static_cast<uint64_t>(width) * element_bytes;
    if (choice / 16 % 4 == 0) {
      const auto position = service_.verifier.ring().Reserve(bytes % kDeviceBytes);
      features.mutable_device()->set_position(position.value_or(input.Number()));
      features.mutable_device()->set_bytes(bytes);
      if (position) service_.verifier.ring().Keep(bytes % kDeviceBytes);
    } else {
      features.set_inline_(std::string(std::min<uint64_t>(bytes, 4096), 'r'));
    }
    follow.next += static_cast<int32_t>(rows % 1024);
    return reply;
  }

  void Send(const FeatureReply& reply) {
    (void)channel_->Send(reply, SteadyNow() + absl::Seconds(1));
  }

  // Notes what the drafter follows.
  void TakeRequests() {
    FeatureRequest request;
    while (channel_->Receive(&request, absl::InfinitePast()).ok()) {
      if (!request.has_follow()) continue;
      followed_[wire::Decode(request.follow().sequence())] = {request.follow().number(),
                                                              request.follow().first()};
    }
  }

  // Waits until the drafter has handled what was sent. Returns false if the stream has ended.
  bool Finish() {
    remote_.Forget(kLast);
    (void)remote_.Read({kLast, 0, 1}, Now());
    TakeRequests();
    FeatureReply reply;
    wire::Encode(kLast, *reply.mutable_sequence());
    reply.set_follow(followed_[kLast].number);
    auto& features = *reply.mutable_features();
    features.set_dtype(wire::TensorRef::DTYPE_FLOAT32);
    features.add_shape(1);
    features.add_shape(1);
    features.set_inline_(std::string(4, 'r'));
    Send(reply);
    return remote_.Read({kLast, 0, 1}, absl::Seconds(10)).ok();
  }

  struct Follow {
    uint64_t number = 0;
    Position next = 0;  // The row that the drafter expects next.
  };

  Service& service_;
  RemoteFeatures remote_;
  std::shared_ptr<wire::SharedChannel> channel_;
  std::map<SequenceId, Follow> followed_;
};

}  // namespace
}  // namespace bastion::drafter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bastion::drafter;
  static Service service;
  static std::unique_ptr<Session> session;
  bastion::testing::FuzzInput input(data, size);
  if (session == nullptr) session = std::make_unique<Session>(service);
  if (!session->Use(input)) session.reset();
  return 0;
}
