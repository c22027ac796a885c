// LastingCall: a connection with a call that lasts, for tests of what a server does with its
// connections. The server needs reflection. Header-only. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_LASTING_CALL_H_
#define BASTION_TESTS_SUPPORT_LASTING_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

namespace bastion::testing {

// A channel with a connection of its own.
[[nodiscard]] inline std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

class LastingCall {
 public:
  // Connects, also if that takes several attempts.
  explicit LastingCall(const std::string& address) : stub_(ChannelTo(address)) {
    context_.set_wait_for_ready(true);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    call_ = stub_.PrepareCall(
        &context_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue_);
    call_->StartCall(this);
    (void)Await();
  }
  ~LastingCall() {
    context_.TryCancel();
    grpc::Status status;
    call_->Finish(&status, this);
    (void)Await();
    queue_.Shutdown();
    (void)Await();
  }
  LastingCall(const LastingCall&) = delete;
  LastingCall& operator=(const LastingCall&) = delete;

  // Asks the server for its services and waits for the answer. False if the call has ended.
  [[nodiscard]] bool Ask() {
    const grpc::Slice list_services(std::string("\x3a\0", 2));  // A ServerReflectionRequest.
    grpc::ByteBuffer question(&list_services, 1), answer;
    call_->Write(question, this);
    if (!Await()) return false;
    call_->Read(&answer, this);
    return Await();
  }

 private:
  // Waits for the end of the last operation. False if it failed.
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_LASTING_CALL_H_
