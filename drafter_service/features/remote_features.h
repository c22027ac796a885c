// Features from the verifier's stream. The first Read of a sequence asks the verifier to follow
// this sequence: from then on the verifier pushes its rows, and later Reads usually find that they
// have already arrived.
//
// The verifier may send only rows for which it has credit: those before the end of a window of
// kWindowRows rows, which moves with the Reads. So a long prompt takes no more memory than a short
// one. A verifier that sends more breaks the protocol, and the stream ends.
//
// A separate thread runs the stream: it subscribes, receives, and reconnects when the verifier
// disconnects. Another one watches it: if rows that a Read wanted are overdue, and nothing else has
// arrived meanwhile, the stream is stuck and is opened again. Read may be called from any thread.
//
// Rows may arrive as positions in a ring in the verifier's GPU memory (common/shm/device_ring.h).
// They are not copied on arrival, so newer rows may overwrite them. If this happens before a Read,
// the Read requests the rows again as bytes.
#ifndef BASTION_DRAFTER_SERVICE_FEATURES_REMOTE_FEATURES_H_
#define BASTION_DRAFTER_SERVICE_FEATURES_REMOTE_FEATURES_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/shm/device_ring.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"
#include "common/wire/attacher.h"
#include "common/wire/message_stream.h"
#include "common/wire/peer_channel.h"
#include "common/wire/security.h"
#include "drafter_service/features/feature_window.h"

namespace bastion::drafter {

class RemoteFeatures final : public FeatureSource {
 public:
  // `address` is the verifier's. Until Start() has connected, Read returns UNAVAILABLE. A stream on
  // which nothing arrives for `peer_timeout` although rows are due is opened again.
  explicit RemoteFeatures(const std::string& address,
                          wire::CarrierChoice carrier = wire::CarrierChoice::kAuto,
                          std::shared_ptr<const wire::Security> security = wire::Security::None(),
                          absl::Duration peer_timeout = absl::Seconds(1));
  ~RemoteFeatures() override { Stop(); }

  // Called on the stream's thread when the features of the first `committed` tokens have arrived
  // and `root` follows them. It may call Read.
  using Arrived = std::function<void(SequenceId sequence, Position committed, TokenId root)>;

  // Subscribes to the outputs of `layers`. `device` describes how the drafter reads GPU memory
  // (null: it does not) and must outlive this object. Call once. `arrived` is called until Stop.
  // Does nothing without layers.
  void Start(std::vector<int> layers, Arrived arrived, const DeviceReader* device = nullptr);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // The most rows of a sequence that are on their way or unread.
  static constexpr int kWindowRows = 1024;

  // Discards rows before `range.first`: a drafter reads each row once. REQUIRES: range.count is at
  // most kWindowRows / 2.
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration timeout) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(SequenceId sequence) ABSL_LOCKS_EXCLUDED(mutex_);

  // How features arrive at present. Thread-safe.
  [[nodiscard]] FeatureRoute route() const { return route_; }
  // What the streams to the verifier have carried.
  [[nodiscard]] const wire::TransportStats& transport() const { return attacher_.stats(); }

 private:
  using Stream = wire::MessageStream<internal::v1::FeatureRequest, internal::v1::FeatureReply>;
  using Ring = std::shared_ptr<const wire::DeviceRingReader>;
  using Window = FeatureWindow;
  // A sequence whose features are not read for this many cycles is no longer followed, to save
  // messages. The next Read follows it again.
  static constexpr int kMaxUnread = 8;

  void Main();
  // The thread that ends streams that are stuck.
  void WatchStream() ABSL_LOCKS_EXCLUDED(mutex_);
  // Opens a stream and sets `route`. Sets `ring` if the verifier offers one that this process can
  // map.
  // DEADLINE_EXCEEDED if the connection is not established in time.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Stream>> Open(Ring& ring, FeatureRoute& route);
  [[nodiscard]] Ring Import(std::unique_ptr<wire::DeviceRingEnds> ends);
  // Opens a stream and receives until it ends.
  void RunStream() ABSL_LOCKS_EXCLUDED(mutex_);
  // Receives until the stream ends. Returns why it ended.
  [[nodiscard]] absl::Status ReceiveAll(Stream& stream, const Ring& ring)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // INTERNAL if the verifier has sent rows without credit.
  absl::Status Receive(const internal::v1::FeatureReply& reply, absl::StatusOr<Features> features)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds `features`, which were decoded from `reply`, to the window of the sequence. Returns false
  // if they are an error, or answer an earlier request to follow the sequence. Errors: see Receive.
  absl::StatusOr<bool> Take(const internal::v1::FeatureReply& reply,
                            absl::StatusOr<Features> features) ABSL_LOCKS_EXCLUDED(mutex_);
  void Unfollow(SequenceId sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Follows the sequence from row `first` on, unless its window already covers that row.
  absl::Status Follow(SequenceId sequence, Position first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Follows the sequence again, from `first` on. Rows before `bytes_before` are sent as bytes.
  absl::Status FollowAgain(SequenceId sequence, Position first, Position bytes_before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the verifier send the rows of the next window once half of the last one has been read.
  void Grant(SequenceId sequence, Window& window) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // UNAVAILABLE, with the reason why the last stream ended.
  [[nodiscard]] absl::Status NoStream() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until all rows of `range` have arrived, and returns the window of the sequence.
  [[nodiscard]] absl::StatusOr<Window*> Await(const FeatureRange& range, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if rows that a Read wanted have not arrived in time, and nothing else either.
  [[nodiscard]] bool IsOverdue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  const absl::Duration peer_timeout_;
  wire::PeerChannel channel_;
  wire::Attacher attacher_;
  std::vector<int> layers_;
  const DeviceReader* device_ = nullptr;
  std::string logged_;  // The last log line about how features arrive. Only changes are logged.
  std::atomic<FeatureRoute> route_{FeatureRoute::kNone};
  Arrived arrived_;
  std::thread thread_, watch_;
  Mutex mutex_;
  absl::flat_hash_map<SequenceId, Window> windows_ ABSL_GUARDED_BY(mutex_);
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;   // Send() is called with mutex_ held.
  Stream* opening_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Subscribing.
  uint64_t follows_ ABSL_GUARDED_BY(mutex_) = 0;       // Requests to follow a sequence so far.
  // When the last message arrived, or the stream was opened or ended.
  absl::Time last_arrival_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Why the last stream ended.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("it has not begun");
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_FEATURES_REMOTE_FEATURES_H_
