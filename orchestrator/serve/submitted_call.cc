#include "orchestrator/serve/submitted_call.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "orchestrator/serve/live_request.h"

namespace bastion {

absl::StatusOr<SubmittedCall> SubmittedCall::Submit(const CallOptions& options,
                                                    std::vector<PreparedRequest> requests,
                                                    std::function<void()> abort) {
  int answers = 0;
  for (const PreparedRequest& request : requests) answers += request.answers;
  const auto stream = std::make_shared<RequestStream>(options.stream_interval, answers);
  stream->SetAbortCallback(std::move(abort));
  // Before the requests are submitted: the destructor ends the use of `abort`.
  SubmittedCall call(options.scheduler, stream);
  int first_answer = 0;
  for (PreparedRequest& request : requests) {
    const int next = first_answer + request.answers;
    RETURN_IF_ERROR(options.scheduler->Submit(
        std::make_unique<LiveRequest>(std::move(request), &options.model->tokenizer, &Clock::Real(),
                                      stream, first_answer, options.observer)));
    first_answer = next;
  }
  return call;
}

absl::StatusOr<SubmittedCall> SubmittedCall::Submit(const CallOptions& options,
                                                    PreparedRequest request,
                                                    std::function<void()> abort) {
  std::vector<PreparedRequest> requests;
  requests.push_back(std::move(request));
  return Submit(options, std::move(requests), std::move(abort));
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
