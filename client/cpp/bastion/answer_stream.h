// AnswerStream: the events of one call of Generate, as they arrive.
//
//   AnswerStream stream = client.StreamAnswer(request);
//   while (const v1::GenerateResponse* event = stream.Next()) std::cout << event->delta().text();
//
// One thread at a time may use it, but any thread may call Cancel. Every call that waits blocks its
// thread. A stream may outlive its client.
#ifndef BASTION_CLIENT_CPP_BASTION_ANSWER_STREAM_H_
#define BASTION_CLIENT_CPP_BASTION_ANSWER_STREAM_H_

#include <memory>

#include "absl/status/status.h"
#include "bastion/options.h"
#include "bastion/v1/generation.pb.h"

namespace bastion {

class Connection;

class AnswerStream {
 public:
  AnswerStream(AnswerStream&&) noexcept;
  AnswerStream& operator=(AnswerStream&&) noexcept;
  // Cancels the call if it has not ended.
  ~AnswerStream();

  // Waits for the next event: one Started, then Deltas and Finished. The first call sends the
  // request. Returns nullptr at the end; status() says why. The event lives until the next call.
  // Read continuously: the server drops clients that do not.
  [[nodiscard]] const v1::GenerateResponse* Next();

  // How the stream ended: OK after the last Finished, CANCELLED after Cancel, else the error of the
  // call (generation.proto, DetailsOf). OK while it has not ended.
  [[nodiscard]] const absl::Status& status() const;

  // Ends the call, also before and during Next. The server stops decoding. Events that have arrived
  // may still be returned. Has no effect after the end.
  void Cancel();

 private:
  friend class GenerationClient;
  struct State;

  AnswerStream(std::shared_ptr<const Connection> connection, const v1::GenerateRequest& request,
               const RpcOptions& options);

  std::unique_ptr<State> state_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_ANSWER_STREAM_H_
