#include "common/inspection/inspection_service.h"

#include <grpcpp/grpcpp.h>

#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/peer_text.h"
#include "common/wire/protocol.h"

namespace bastion {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(60);
constexpr absl::Duration kPeerTimeout = absl::Seconds(2);

// Names this machine's monotonic clock: it starts again at every boot. Empty if unknown.
std::string ClockName() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

int64_t Nanoseconds() { return absl::ToInt64Nanoseconds(Clock::Real().Now()); }

}  // namespace

InspectionService::InspectionService(std::string service, const Timeline* timeline,
                                     std::shared_ptr<const wire::Security> security,
                                     const std::vector<InspectedPeer>& peers)
    : service_(std::move(service)),
      clock_(ClockName()),
      timeline_(*timeline),
      security_(std::move(security)) {
  for (const InspectedPeer& peer : peers) {
    peers_.push_back({peer.service,
                      v1::InspectionService::NewStub(wire::ConnectPeer(peer.address, *security_))});
  }
}

grpc::Status InspectionService::GetTimeline(grpc::ServerContext* context,
                                            const v1::GetTimelineRequest* request,
                                            v1::GetTimelineResponse* response) {
  if (const absl::Status allowed = CheckInspector(*context); !allowed.ok()) {
    return wire::ToGrpc(allowed);
  }
  const absl::Duration last =
      absl::Seconds(request->last().seconds()) + absl::Nanoseconds(request->last().nanos());
  if (last <= absl::ZeroDuration() || last > kLongest) {
    return wire::ToGrpc(
        absl::InvalidArgumentError(absl::StrCat("last: ", absl::FormatDuration(last),
                                                " is out of range; use more than 0 and "
                                                "at most ",
                                                absl::FormatDuration(kLongest))));
  }
  AddOwn(last, response->add_services());
  for (const Peer& peer : peers_) AddPeer(peer, *request, response->add_services());
  return grpc::Status::OK;
}

void InspectionService::AddOwn(absl::Duration last, v1::ServiceTimeline* timeline) const {
  timeline->set_service(service_);
  timeline->set_clock(clock_);
  for (const TimelineSlice& slice : timeline_.Since(Clock::Real().Now() - last)) {
    v1::TimelineSlice& added = *timeline->add_slices();
    added.set_lane(slice.lane);
    added.set_name(slice.name);
    added.set_start_ns(absl::ToInt64Nanoseconds(slice.start));
    added.set_duration_ns(absl::ToInt64Nanoseconds(slice.duration));
    added.set_rows(slice.rows);
  }
  timeline->set_now_ns(Nanoseconds());
}

void InspectionService::AddPeer(const Peer& peer, const v1::GetTimelineRequest& request,
                                v1::ServiceTimeline* timeline) const {
  const auto ask = [&](const v1::GetTimelineRequest& asked, v1::GetTimelineResponse* answer) {
    grpc::ClientContext context;
    context.set_deadline(wire::GrpcDeadline(SteadyNow() + kPeerTimeout));
    const grpc::Status status = peer.stub->GetTimeline(&context, asked, answer);
    if (!status.ok()) {
      // The message names the peer's address.
      LOG(WARNING) << "no timeline of the " << peer.service << ": "
                   << wire::FromGrpc(status).message();
      return absl::StrCat("it did not answer: ",
                          absl::StatusCodeToString(wire::FromGrpc(status).code()));
    }
    return std::string(answer->services_size() == 1 ? "" : "the answer has no timeline");
  };
  v1::GetTimelineResponse answer;
  if (const std::string error = ask(request, &answer); !error.empty()) {
    timeline->set_service(peer.service);
    timeline->set_error(error);
    return;
  }
  timeline->Swap(answer.mutable_services(0));
  for (v1::TimelineSlice& slice : *timeline->mutable_slices()) {
    slice.set_lane(PeerName(slice.lane()));
    slice.set_name(PeerName(slice.name()));
  }
  timeline->set_clock(PeerName(timeline->clock()));
  timeline->set_service(peer.service);
  if (!clock_.empty() && timeline->clock() == clock_) return;
  // Another question estimates the clock's offset. It is small, so that the transfer is short.
  v1::GetTimelineRequest question;
  question.mutable_last()->set_nanos(1);
  const int64_t sent = Nanoseconds();
  const std::string error = ask(question, &answer);
  const int64_t received = Nanoseconds();
  if (!error.empty()) {
    timeline->Clear();
    timeline->set_service(peer.service);
    timeline->set_error(error);
    return;
  }
  timeline->set_clock_offset_ns((sent + received) / 2 - answer.services(0).now_ns());
  timeline->set_clock_error_ns((received - sent + 1) / 2);
}

}  // namespace bastion
