// The drafter over gRPC and shared memory. The engine runs one call at a time. When a stream ends,
// the sequences that were drafted through it are closed. No other stream can use them.
//
// Sequences that are far behind catch up on a separate thread. It does a piece of work at a time,
// and only while no call waits for the engine. So a call waits for at most one piece and the draft
// that is made ahead after it.
//
// A call has at most kMaxFrontiers frontiers and kMaxPaths paths, all frontiers together.
#ifndef BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_SERVICE_H_
#define BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_SERVICE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/host/stage_shell.h"
#include "common/wire/attach_server.h"
#include "common/wire/message_stream.h"
#include "common/wire/security.h"
#include "drafter_service/engine/drafter_engine.h"
#include "drafter_service/serve/drafter_telemetry.h"

namespace bastion::drafter {

namespace proto = internal::v1;

class DrafterService final : public proto::DrafterService::Service {
 public:
  static constexpr int kMaxFrontiers = 4096;
  static constexpr int kMaxPaths = 4096;

  // `engine` and `telemetry` must outlive the service. `on_close` is called for every closed
  // sequence. If `attach` is null, shared memory is not offered. If `telemetry` is null, nothing is
  // measured. `security` says who may call.
  DrafterService(DrafterEngine* engine, std::function<void(SequenceId)> on_close,
                 std::unique_ptr<wire::AttachServer> attach = nullptr,
                 DrafterTelemetry* telemetry = nullptr,
                 std::shared_ptr<const wire::Security> security = wire::Security::None())
      : engine_(engine),
        on_close_(std::move(on_close)),
        telemetry_(telemetry),
        catch_up_([this] { CatchUp(); }),
        shell_("drafter", std::move(attach), std::move(security)) {}
  ~DrafterService() override;

  // False if the engine hangs (EngineMeter). Thread-safe.
  [[nodiscard]] bool is_alive() { return shell_.is_alive(); }
  // Sequences that are open. Waits for the current call.
  [[nodiscard]] int live_sequences() ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::Status GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest* request,
                       proto::DrafterInfo* reply) override;
  grpc::Status Steps(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) override;
  grpc::Status Attach(grpc::ServerContext* context, const proto::AttachRequest* request,
                      proto::AttachReply* reply) override;

  // `route` says how features arrive, for GetInfo; it must be thread-safe. Call before any other
  // function.
  void ReportRoute(std::function<FeatureRoute()> route) { route_ = std::move(route); }

  // Called on the feature stream's thread when features arrive; may draft ahead. Never waits for
  // the engine, because a call that holds it may be waiting for features. Then nothing is drafted
  // ahead. If the catch-up thread holds it, that thread drafts ahead after its piece. No features
  // are lost: the next Expand of the sequence reads them.
  void FeaturesArrived(SequenceId sequence, Position committed, TokenId root)
      ABSL_LOCKS_EXCLUDED(mutex_, arrivals_mutex_);

 private:
  using Stream = wire::MessageStream<proto::DrafterReply, proto::DrafterRequest>;

  // The state of one stream. The destructor closes its sequences.
  class Client {
   public:
    Client(DrafterService* service, wire::Carrier* carrier) : carrier(carrier), service_(service) {}
    ~Client() { service_->CloseAll(*this); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    std::set<SequenceId> lease;  // Used under the service's mutex_.
    wire::Carrier* const carrier;

   private:
    DrafterService* const service_;
  };

  // Closes the sequences of `client`.
  void CloseAll(Client& client) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if the session belongs to `client` or has no owner. It belongs to `client` from now on.
  [[nodiscard]] bool Claim(SequenceId sequence, Client& client)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Undoes the Claim of a sequence that the engine has not opened.
  void Release(SequenceId sequence, Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Handles the messages of the stream until it ends.
  [[nodiscard]] absl::Status Serve(Stream& stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs the call of `request`. `arrived`: when it arrived, on Clock::Real().
  absl::Status Run(const proto::DrafterRequest& request, absl::Duration arrived, Client& client,
                   proto::DrafterReply& reply) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Expand(const proto::DrafterRequest& request, absl::Duration arrived, Client& client,
                      proto::DrafterReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(SequenceId sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the arrivals so far. After an Expand, their roots are likely to be old.
  void DropArrivals() ABSL_LOCKS_EXCLUDED(arrivals_mutex_);
  // Passes the arrivals so far to the engine, which may draft ahead.
  void HandleArrivals() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_LOCKS_EXCLUDED(arrivals_mutex_);

  // The thread that adds pieces of context. Returns when the service is destroyed.
  void CatchUp() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until there is a piece and no call waits for the engine. Empty: the service ends.
  [[nodiscard]] std::optional<FeatureRange> AwaitPiece() ABSL_LOCKS_EXCLUDED(mutex_);
  [[nodiscard]] absl::StatusOr<Features> ReadPiece(const FeatureRange& piece);
  void AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What FeaturesArrived was called with.
  struct Arrival {
    SequenceId sequence;
    Position committed;
    TokenId root;
  };

  std::atomic<int> waiting_{0};  // Calls that wait for mutex_.
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<uint64_t, Client*> owners_ ABSL_GUARDED_BY(mutex_);  // By session.
  Mutex arrivals_mutex_;                                                   // Held only briefly.
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(arrivals_mutex_);         // Not handled yet.
  DrafterEngine* const engine_;
  const std::function<void(SequenceId)> on_close_;
  std::function<FeatureRoute()> route_ = [] { return FeatureRoute::kNone; };
  DrafterTelemetry* const telemetry_;
  std::thread catch_up_;
  // The last member, because its destructor ends the streams that use the others.
  wire::StageShell shell_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_SERVICE_H_
