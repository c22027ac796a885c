#include "orchestrator/api/submitted_call.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {

absl::StatusOr<SubmittedCall> SubmittedCall::Submit(const CallOptions& options,
                                                    std::vector<PreparedRequest> requests,
                                                    std::function<void()> abort) {
  int answers = 0;
  for (const PreparedRequest& request : requests) answers += request.answers;
  const auto stream = std::make_shared<RequestStream>(options.stream_interval, answers);
  stream->SetAbortCallback(std::move(abort));
  std::vector<std::unique_ptr<LiveRequest>> live;
  int first_answer = 0;
  for (PreparedRequest& request : requests) {
    const int next = first_answer + request.answers;
    live.push_back(std::make_unique<LiveRequest>(
        std::move(request), &options.model->tokenizer, &Clock::Real(),
        LiveRequest::CallShare{stream, first_answer}, options.observer));
    first_answer = next;
  }
  // Before the requests are submitted: the destructor ends the use of `abort`.
  SubmittedCall call(options.scheduler, stream);
  RETURN_IF_ERROR(options.scheduler->SubmitAll(std::move(live)));
  return call;
}

SubmittedCall::~SubmittedCall() {
  if (stream_ != nullptr) scheduler_->Cancel(*stream_);
}

bool SubmittedCall::Next(absl::FunctionRef<bool()> is_canceled, OutputDelta& delta) {
  for (;;) {
    if (is_canceled()) {
      status_ = LiveRequest::CanceledError();
      return false;
    }
    switch (stream_->WaitForEvent(RequestStream::kClientCheckInterval, delta)) {
      case RequestStream::Event::kTimeout:
        break;
      case RequestStream::Event::kDelta:
        return true;
      case RequestStream::Event::kEnd:
        status_ = stream_->status();
        return false;
    }
  }
}

}  // namespace bastion
