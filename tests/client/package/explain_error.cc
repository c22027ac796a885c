// Sends a request that the server refuses, and prints what the error says: explain_error ENDPOINT
#include <iostream>

#include "absl/time/time.h"
#include "bastion/error_details.h"
#include "bastion/generation_client.h"

namespace {

void Explain(const absl::Status& status) {
  const bastion::ErrorDetails details = bastion::DetailsOf(status);
  std::cerr << "request " << details.request_id << " failed: " << status.message() << "\n";
  for (const bastion::FieldViolation& violation : details.field_violations) {
    std::cerr << "field " << violation.field << " " << violation.description << "\n";
  }
  if (details.retry_delay) std::cerr << "try again in " << *details.retry_delay << "\n";
}

}  // namespace

int main(int, char** argv) {
  const bastion::GenerationClient client(argv[1]);
  bastion::v1::GenerateRequest request;
  request.set_text("def f(");
  request.mutable_sampling()->set_top_p(1.5f);

  bastion::RpcOptions options;
  options.timeout = absl::Seconds(30);
  options.wait_for_ready = true;
  options.retry.max_attempts = 3;
  options.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  options.client_id = "team-a";

  bastion::AnswerStream stream = client.StreamAnswer(request, options);
  while (const bastion::v1::GenerateResponse* event = stream.Next()) {
    std::cout << event->delta().text() << std::flush;
  }
  if (!stream.status().ok()) Explain(stream.status());
  return stream.status().ok() ? 0 : 1;
}
