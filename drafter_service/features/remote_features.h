// Features over the verifier's stream: follows each sequence on first use; rows are pushed from
// then on, and Read usually finds them already here.
//
// A thread of its own keeps the stream: it subscribes, receives, and connects again when the
// verifier went away. Read may be called from any thread.
//
// On the verifier's GPU rows are left in the ring of its memory until they are read (features.h).
// Those that were overwritten before are asked for once more, as bytes.
#ifndef BASTION_DRAFTER_SERVICE_FEATURES_REMOTE_FEATURES_H_
#define BASTION_DRAFTER_SERVICE_FEATURES_REMOTE_FEATURES_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/shm/device_ring.h"
#include "common/stages/features.h"
#include "common/wire/attacher.h"
#include "common/wire/message_stream.h"
#include "protos/bastion/internal/v1/stages.grpc.pb.h"

namespace bastion::drafter {

class RemoteFeatures final : public FeatureSource {
 public:
  // `address`: the verifier's. Start() begins; until it is connected, Read answers UNAVAILABLE.
  explicit RemoteFeatures(const std::string& address,
                          wire::CarrierChoice carrier = wire::CarrierChoice::kAuto);
  ~RemoteFeatures() override { Stop(); }

  // Features of `sequence` up to `committed` are here, and `root` follows them. Called on the
  // stream's thread, and may Read.
  using Arrived = std::function<void(SequenceId sequence, Position committed, TokenId root)>;

  // `layers`: what to subscribe to. `device`: how the drafter reads a GPU's memory, if it does;
  // must outlive this. Call once; `arrived` is called until Stop.
  void Start(std::vector<int> layers, Arrived arrived, const DeviceReader* device = nullptr);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Rows before `range.first` are forgotten: a drafter reads each row once.
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration patience) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(SequenceId sequence) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Stream = wire::MessageStream<internal::v1::FeatureRequest, internal::v1::FeatureReply>;
  using Ring = std::shared_ptr<const wire::DeviceRingReader>;
  // Rows [first, first + rows) of a followed sequence, which lie in one place or several.
  struct Window {
    Position first = 0;
    int rows = 0;
    std::deque<Features> pieces;
    absl::Status status;
    int unread = 0;  // Cycles since the last Read.

    // Takes more rows at its end, or gives up to `count` from its beginning, those of one piece.
    void Append(Features features);
    [[nodiscard]] Features Pop(int count);
  };
  // A sequence that is not drafted for is not worth a message a cycle: after so many cycles that
  // nobody read it is no longer followed, and the next Read follows it anew.
  static constexpr int kMostUnread = 8;

  void Main();
  // Sets `ring` to the peer's if it handed one over that can be mapped.
  [[nodiscard]] std::unique_ptr<Stream> Open(Ring& ring);
  [[nodiscard]] Ring Import(std::unique_ptr<wire::DeviceRingEnds> ends);
  void RunStream() ABSL_LOCKS_EXCLUDED(mutex_);
  // Until the stream is over, and why it is.
  [[nodiscard]] absl::Status ReceiveAll(Stream& stream, const Ring& ring)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Receive(const internal::v1::FeatureReply& reply, absl::StatusOr<Features> features)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the rows of `reply` were wanted and continue what is there.
  bool Take(const internal::v1::FeatureReply& reply, absl::StatusOr<Features> features)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Unfollow(SequenceId sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Follows the sequence from `first` on unless its window already covers that.
  absl::Status Follow(SequenceId sequence, Position first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Follows it anew from `first` on, with rows before `bytes_before` as bytes in any case.
  absl::Status FollowAnew(SequenceId sequence, Position first, Position bytes_before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The window of `range`, once all of it is there.
  [[nodiscard]] absl::StatusOr<Window*> Await(const FeatureRange& range, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  std::unique_ptr<internal::v1::VerifierService::Stub> stub_;
  wire::Attacher attacher_;
  std::vector<int> layers_;
  const DeviceReader* device_ = nullptr;
  std::string logged_;  // How features come: told when it changes.
  Arrived arrived_;
  std::thread thread_;
  Mutex mutex_;
  absl::flat_hash_map<SequenceId, Window> windows_ ABSL_GUARDED_BY(mutex_);
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Sends under mutex_.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_FEATURES_REMOTE_FEATURES_H_
