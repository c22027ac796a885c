#include "common/wire/shared_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace bastion::wire {
namespace {

// How often a sleeping thread checks the lease. Nothing wakes it if the peer is killed.
constexpr absl::Duration kLeaseCheck = absl::Milliseconds(100);
// Maximum bytes of the status message that End() sends. A longer message is truncated.
constexpr size_t kMaxReasonBytes = 1024;

}  // namespace

SharedChannel::SharedChannel(SharedEnds ends, absl::Duration spin)
    : ends_(std::move(ends)),
      spin_(spin),
      writer_(ends_.mine, ends_.theirs, ends_.epoch),
      reader_(ends_.mine, ends_.theirs, ends_.epoch) {}

absl::Status SharedChannel::Send(const google::protobuf::MessageLite& message,
                                 absl::Time deadline) {
  RETURN_IF_ERROR(CheckCanceled());
  const size_t bytes = message.ByteSizeLong();
  if (!writer_.CanEverReserve(bytes)) {
    writer_.DiscardMessage();
    return absl::ResourceExhaustedError(
        absl::StrCat("shared memory: a message of ", bytes,
                     " bytes and its tensors are larger than half of the ring"));
  }
  RingWriter::Piece body = writer_.Reserve(bytes);
  while (body.data == nullptr) {
    absl::Status room = Await(writer_.room_watch(), deadline, last_wait_for_room_);
    if (room.ok()) body = writer_.Reserve(bytes);
    if (body.data == nullptr) room.Update(CheckWait(deadline));
    if (!room.ok()) {
      writer_.DiscardMessage();
      return room;
    }
  }
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(body.data));
  writer_.Publish(body, bytes);
  return absl::OkStatus();
}

absl::Status SharedChannel::Receive(google::protobuf::MessageLite* message, absl::Time deadline) {
  reader_.Release();
  for (;;) {
    RETURN_IF_ERROR(CheckCanceled());
    ASSIGN_OR_RETURN(const bool taken, reader_.TakeMessage());
    if (taken) break;
    RETURN_IF_ERROR(Await(reader_.message_watch(), deadline, last_wait_for_message_));
  }
  // Parse a copy: the parser may read a byte twice, and the peer could change it in between. Only
  // tensors are read in place: any bytes are valid there.
  body_.assign(reader_.body().data(), reader_.body().size());
  if (message->ParseFromString(body_)) return absl::OkStatus();
  return absl::DataLossError("shared memory: cannot parse a message from the peer");
}

absl::Status SharedChannel::Await(const CounterWatch& watch, absl::Time deadline,
                                  absl::Duration& last) {
  if (watch.changed()) return absl::OkStatus();
  const absl::Time start = SteadyNow();
  // Spin if the last wait was short. The limit is generous because sleeping lengthens a wait, and
  // may have lengthened the peer's too.
  const absl::Time spin_until = last <= 4 * spin_ ? std::min(deadline, start + spin_) : start;
  while (!watch.changed() && SteadyNow() < spin_until) {
    std::this_thread::yield();  // Let the peer run if there are more spinning threads than cores.
  }
  const absl::Status waited = watch.changed() ? absl::OkStatus() : Sleep(watch, deadline);
  last = SteadyNow() - start;
  return waited;
}

absl::Status SharedChannel::Sleep(const CounterWatch& watch, absl::Time deadline) {
  for (;;) {
    // Set the flag before the last check of the counter: a change after that check wakes this
    // thread.
    watch.asleep->store(1, std::memory_order_seq_cst);
    // Check the lease before the counter: messages that the peer sent before it ended still count.
    const absl::Status lease = CheckLease();
    const absl::Duration left = deadline - SteadyNow();
    if (!watch.changed() && lease.ok() && left > absl::ZeroDuration()) {
      SleepUntilChanged(watch, std::min(left, kLeaseCheck));
    }
    watch.asleep->store(0, std::memory_order_relaxed);
    if (watch.changed()) return absl::OkStatus();
    RETURN_IF_ERROR(lease);
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("no message from the peer");
    }
  }
}

absl::Status SharedChannel::CheckLease() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(final_status_);
  char packet[sizeof(int32_t) + kMaxReasonBytes];
  const ssize_t received = recv(ends_.lease.get(), packet, sizeof packet, MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  final_status_ = absl::UnavailableError("the peer ended the stream over shared memory");
  if (received >= static_cast<ssize_t>(sizeof(int32_t))) {
    int32_t raw_code;
    std::memcpy(&raw_code, packet, sizeof raw_code);
    const absl::string_view message(packet + sizeof raw_code, received - sizeof raw_code);
    const auto code = static_cast<absl::StatusCode>(raw_code);
    // DEADLINE_EXCEEDED would tell the caller that the stream is still open.
    const bool usable = raw_code != 0 && code != absl::StatusCode::kDeadlineExceeded;
    if (usable) final_status_ = absl::Status(code, message);
  }
  return final_status_;
}

absl::Status SharedChannel::CheckCanceled() const {
  if (!canceled_.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::UnavailableError("the stream over shared memory was canceled");
}

absl::Status SharedChannel::CheckWait(absl::Time deadline) const {
  RETURN_IF_ERROR(CheckCanceled());
  if (SteadyNow() < deadline) return absl::OkStatus();
  return absl::DeadlineExceededError("the peer made no room for a message");
}

void SharedChannel::Cancel() {
  canceled_.store(true, std::memory_order_relaxed);
  shutdown(ends_.lease.get(), SHUT_RDWR);
  for (const SharedSegment* segment : {&ends_.mine, &ends_.theirs}) {
    const auto* counters = reinterpret_cast<const SharedCounters*>(segment->data());
    WakeSleepers(counters->head);
    WakeSleepers(counters->ack);
  }
}

void SharedChannel::End(const absl::Status& reason) {
  const auto code = static_cast<int32_t>(reason.code());
  std::string packet(reinterpret_cast<const char*>(&code), sizeof code);
  absl::StrAppend(&packet, reason.message().substr(0, kMaxReasonBytes));
  // Ignore an error: the peer may be gone already.
  (void)send(ends_.lease.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  Cancel();
}

char* SharedChannel::Reserve(const TensorShape& shape, TensorRef& reference) {
  const auto bytes = static_cast<size_t>(shape.bytes());
  const RingWriter::Piece piece = writer_.Reserve(bytes);
  if (piece.data == nullptr) return inline_.Reserve(shape, reference);
  SetShape(shape, reference);
  reference.mutable_slot()->set_offset(piece.offset);
  reference.mutable_slot()->set_bytes(bytes);
  return piece.data;
}

absl::StatusOr<absl::string_view> SharedChannel::Get(const TensorRef& reference) {
  if (reference.carrier_case() != TensorRef::kSlot) return inline_.Get(reference);
  RETURN_IF_ERROR(CheckBytes(reference, reference.slot().bytes()));
  return reader_.Piece(reference.slot().offset(), reference.slot().bytes());
}

}  // namespace bastion::wire
