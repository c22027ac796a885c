// Cancels a long answer while another thread reads it: cancel_answer ENDPOINT PROMPT
//
// Waits until the server runs no request. Prints the status of the stream and the number of cycles
// that were received.
#include <cstdlib>
#include <iostream>
#include <thread>

#include "bastion/generation_client.h"

namespace {

// Waits until the server runs no request. Ends the program if that cannot be known.
void AwaitIdle(const bastion::GenerationClient& client) {
  for (;;) {
    const auto info = client.GetServerInfo();
    if (!info.ok()) std::abort();
    if (info->running_requests() == 0) return;
  }
}

}  // namespace

int main(int, char** argv) {
  const bastion::GenerationClient client(argv[1]);
  bastion::v1::GenerateRequest request;
  request.set_text(argv[2]);
  request.mutable_stop()->set_max_tokens(1500);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_output()->set_cycles(true);

  bastion::AnswerStream stream = client.StreamAnswer(request);
  int cycles = 0;
  const auto read = [&] {
    const bastion::v1::GenerateResponse* event = stream.Next();
    if (event != nullptr) cycles += event->delta().cycles_size();
    return event != nullptr;
  };
  while (cycles < 5 && read()) {
  }
  std::thread reader([&] {
    while (read()) {
    }
  });
  stream.Cancel();
  AwaitIdle(client);
  reader.join();
  std::cout << absl::StatusCodeToString(stream.status().code()) << " " << cycles << "\n";
  return 0;
}
