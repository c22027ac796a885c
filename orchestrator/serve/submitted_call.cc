#include "orchestrator/serve/submitted_call.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "orchestrator/serve/live_request.h"

namespace bastion {

absl::StatusOr<SubmittedCall> SubmittedCall::Submit(const CallOptions& options,
                                                    PreparedRequest request,
                                                    std::function<void()> abort) {
  auto live =
      std::make_unique<LiveRequest>(std::move(request), &options.model->tokenizer, &Clock::Real(),
                                    options.stream_interval, options.observer);
  live->stream()->SetAbortCallback(std::move(abort));
  // Before the request is submitted: the destructor ends the use of `abort`.
  SubmittedCall call(options.scheduler, live->stream());
  RETURN_IF_ERROR(options.scheduler->Submit(std::move(live)));
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
