#include "bastion/answer_stream.h"

#include <string>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "bastion/connection.h"
#include "bastion/grpc_status.h"
#include "bastion/rpc.h"
#include "bastion/v1/generation.grpc.pb.h"

namespace bastion {
namespace {

constexpr absl::Duration kAnswerTimeout = absl::Minutes(10);

std::string NewRequestId() {
  absl::BitGen bits;
  return absl::StrCat("req-", absl::Hex(absl::Uniform<uint64_t>(bits), absl::kZeroPad16));
}

}  // namespace

struct AnswerStream::State {
  State(std::shared_ptr<const Connection> connection, const v1::GenerateRequest& given,
        const RpcOptions& options)
      : stub(v1::GenerationService::NewStub(connection->channel())),
        rpc(std::move(connection), options, kAnswerTimeout),
        request(given) {
    // All attempts have one id, and errors of the connection have an id, too.
    if (request.request_id().empty()) request.set_request_id(NewRequestId());
  }
  ~State() {
    if (reader == nullptr) return;
    rpc.Cancel();
    while (reader->Read(&event)) {
    }
    (void)reader->Finish();
  }

  // Sends the request. Returns false, and sets `status`, if that is no longer allowed.
  bool Begin() {
    const absl::StatusOr<grpc::ClientContext*> context = rpc.BeginAttempt();
    if (context.ok()) {
      reader = stub->Generate(*context, request);
    } else {
      status = EnsureRequestId(context.status(), request.request_id());
    }
    return context.ok();
  }
  // Reads the next event for the caller. Returns false if the attempt has ended.
  bool Read() {
    while (reader->Read(&event)) {
      // The caller gets one Started, whatever number of attempts there are.
      if (!event.has_started()) has_output = true;
      if (has_output || !std::exchange(has_started, true)) return true;
    }
    return false;
  }
  // Returns the status of an attempt that has ended.
  absl::Status End() {
    const absl::Status ended = FromGrpc(reader->Finish());
    reader.reset();
    return EnsureRequestId(ended, request.request_id());
  }

  const std::unique_ptr<v1::GenerationService::Stub> stub;
  Rpc rpc;
  v1::GenerateRequest request;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;  // Unset between attempts.
  v1::GenerateResponse event;
  bool has_started = false;  // The caller has got Started.
  bool has_output = false;   // The caller has got further events.
  bool has_ended = false;
  absl::Status status;
};

AnswerStream::AnswerStream(std::shared_ptr<const Connection> connection,
                           const v1::GenerateRequest& request, const RpcOptions& options)
    : state_(std::make_unique<State>(std::move(connection), request, options)) {}

AnswerStream::AnswerStream(AnswerStream&&) noexcept = default;
AnswerStream& AnswerStream::operator=(AnswerStream&&) noexcept = default;
AnswerStream::~AnswerStream() = default;

const v1::GenerateResponse* AnswerStream::Next() {
  State& state = *state_;
  while (!state.has_ended) {
    if (state.reader == nullptr && !state.Begin()) {
      state.has_ended = true;
      break;
    }
    if (state.Read()) return &state.event;
    absl::Status ended = state.End();
    state.has_ended = state.has_output || !state.rpc.AwaitRetry(ended);
    if (state.has_ended) state.status = std::move(ended);
  }
  return nullptr;
}

const absl::Status& AnswerStream::status() const { return state_->status; }

void AnswerStream::Cancel() { state_->rpc.Cancel(); }

}  // namespace bastion
