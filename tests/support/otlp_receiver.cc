#include "tests/support/otlp_receiver.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "tests/support/otlp/trace_service.grpc.pb.h"

namespace bastion::testing {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;

ReceivedSpan ToSpan(const otlp::Span& from, const std::string& service) {
  ReceivedSpan span;
  span.service = service;
  span.trace = from.trace_id();
  span.id = from.span_id();
  span.parent = from.parent_span_id();
  span.trace_state = from.trace_state();
  span.name = from.name();
  span.start = static_cast<int64_t>(from.start_time_unix_nano());
  span.end = static_cast<int64_t>(from.end_time_unix_nano());
  for (const otlp::KeyValue& attribute : from.attributes()) {
    const otlp::AnyValue& value = attribute.value();
    switch (value.value_case()) {
      case otlp::AnyValue::kStringValue:
        span.texts[attribute.key()] = value.string_value();
        break;
      case otlp::AnyValue::kBoolValue:
        span.numbers[attribute.key()] = value.bool_value() ? 1 : 0;
        break;
      case otlp::AnyValue::kIntValue:
        span.numbers[attribute.key()] = static_cast<double>(value.int_value());
        break;
      default:
        span.numbers[attribute.key()] = value.double_value();
    }
  }
  for (const otlp::Link& link : from.links()) span.links.push_back(link.span_id());
  span.failed = from.status().code() == 2;
  return span;
}

std::string ServiceName(const otlp::Resource& resource) {
  for (const otlp::KeyValue& attribute : resource.attributes()) {
    if (attribute.key() == "service.name") return attribute.value().string_value();
  }
  return "";
}

}  // namespace

class OtlpReceiver::Service final : public otlp::TraceService::Service {
 public:
  Service() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Service() override {
    Behave(Behavior::kDiscard);
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  grpc::Status Export(grpc::ServerContext* context, const otlp::ExportTraceServiceRequest* request,
                      otlp::ExportTraceServiceResponse*) override {
    while (behavior() == Behavior::kHang && !context->IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    MutexLock lock(&mutex_);
    if (behavior_ == Behavior::kFail) return {grpc::StatusCode::INVALID_ARGUMENT, "refused"};
    if (behavior_ == Behavior::kDiscard) return grpc::Status::OK;
    for (const otlp::ResourceSpans& resource : request->resource_spans()) {
      const std::string service = ServiceName(resource.resource());
      for (const otlp::ScopeSpans& scope : resource.scope_spans()) {
        for (const otlp::Span& span : scope.spans()) spans_.push_back(ToSpan(span, service));
      }
    }
    return grpc::Status::OK;
  }

  int port() const { return port_; }
  Behavior behavior() {
    MutexLock lock(&mutex_);
    return behavior_;
  }
  void Behave(Behavior behavior) {
    MutexLock lock(&mutex_);
    behavior_ = behavior;
  }
  std::vector<ReceivedSpan> spans() {
    MutexLock lock(&mutex_);
    return spans_;
  }
  bool Await(absl::FunctionRef<bool(const std::vector<ReceivedSpan>&)> condition) {
    const auto holds = [&] { return condition(spans_); };
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(holds, absl::Seconds(30));
  }

 private:
  int port_ = 0;
  Mutex mutex_;
  Behavior behavior_ = Behavior::kAccept;
  std::vector<ReceivedSpan> spans_;
  std::unique_ptr<grpc::Server> server_;
};

OtlpReceiver::OtlpReceiver() : service_(std::make_unique<Service>()) {}
OtlpReceiver::~OtlpReceiver() = default;

std::string OtlpReceiver::address() const {
  return absl::StrCat("http://127.0.0.1:", service_->port());
}
void OtlpReceiver::Behave(Behavior behavior) { service_->Behave(behavior); }
std::vector<ReceivedSpan> OtlpReceiver::spans() const { return service_->spans(); }
bool OtlpReceiver::Await(
    absl::FunctionRef<bool(const std::vector<ReceivedSpan>&)> condition) const {
  return service_->Await(condition);
}

}  // namespace bastion::testing
