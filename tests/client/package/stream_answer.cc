// Streams an answer to standard output: stream_answer ENDPOINT PROMPT
#include <iostream>

#include "bastion/generation_client.h"

int main(int, char** argv) {
  const bastion::GenerationClient client(argv[1]);
  bastion::v1::GenerateRequest request;
  request.set_text(argv[2]);
  request.mutable_stop()->set_max_tokens(64);
  const absl::Status status =
      client.Generate(request, [](const bastion::v1::GenerateResponse& event) {
        std::cout << event.delta().text() << std::flush;
        return true;
      });
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
