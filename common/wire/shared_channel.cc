#include "common/wire/shared_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"

namespace bastion::wire {
namespace {

// A sleeper looks after the lease this often: nothing wakes it when its peer is killed.
constexpr absl::Duration kLeaseCheck = absl::Milliseconds(100);
// What End() says of its reason; a longer message is cut.
constexpr size_t kMostLastWords = 1024;

}  // namespace

SharedChannel::SharedChannel(SharedEnds ends, absl::Duration spin)
    : ends_(std::move(ends)),
      spin_(spin),
      writer_(ends_.mine, ends_.theirs, ends_.epoch),
      reader_(ends_.mine, ends_.theirs, ends_.epoch) {}

absl::Status SharedChannel::Send(const google::protobuf::MessageLite& message,
                                 absl::Time deadline) {
  RETURN_IF_ERROR(CheckCancelled());
  const size_t bytes = message.ByteSizeLong();
  if (!writer_.CanEverReserve(bytes)) {
    writer_.Abandon();
    return absl::ResourceExhaustedError(
        absl::StrCat("a message of ", bytes, " bytes and its tensors do not fit the ring"));
  }
  RingWriter::Piece body = writer_.Reserve(bytes);
  while (body.data == nullptr) {
    if (absl::Status room = Await(writer_.room(), deadline, last_wait_for_room_); !room.ok()) {
      writer_.Abandon();
      return room;
    }
    body = writer_.Reserve(bytes);
  }
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(body.data));
  writer_.Publish(body, bytes);
  return absl::OkStatus();
}

absl::Status SharedChannel::Receive(google::protobuf::MessageLite* message, absl::Time deadline) {
  reader_.Release();
  for (;;) {
    RETURN_IF_ERROR(CheckCancelled());
    ASSIGN_OR_RETURN(const bool taken, reader_.Take());
    if (taken) break;
    RETURN_IF_ERROR(Await(reader_.message(), deadline, last_wait_for_message_));
  }
  // Parsed from a copy: the parser may look twice, and the peer could change what it sees. Only
  // tensors, of which any bytes will do, are read in place.
  body_.assign(reader_.body().data(), reader_.body().size());
  if (message->ParseFromString(body_)) return absl::OkStatus();
  return absl::DataLossError("shared memory: a message that cannot be parsed");
}

absl::Status SharedChannel::Await(const Bell& bell, absl::Time deadline, absl::Duration& last) {
  if (bell.rung()) return absl::OkStatus();
  const absl::Time start = absl::Now();
  // A wait that was slept through took longer than it had to, and so did the peer's meanwhile.
  const absl::Time look_until = last <= 4 * spin_ ? std::min(deadline, start + spin_) : start;
  while (!bell.rung() && absl::Now() < look_until) {
    std::this_thread::yield();  // To the peer, where there are fewer cores than who looks.
  }
  const absl::Status waited = bell.rung() ? absl::OkStatus() : Sleep(bell, deadline);
  last = absl::Now() - start;
  return waited;
}

absl::Status SharedChannel::Sleep(const Bell& bell, absl::Time deadline) {
  for (;;) {
    // The flag goes up before the last look: what comes after that look wakes us.
    bell.asleep->store(1, std::memory_order_seq_cst);
    // And the lease before it: what the peer sent before it went still counts.
    const absl::Status lease = CheckLease();
    const absl::Duration left = deadline - absl::Now();
    if (!bell.rung() && lease.ok() && left > absl::ZeroDuration()) {
      SleepUntilRung(bell, std::min(left, kLeaseCheck));
    }
    bell.asleep->store(0, std::memory_order_relaxed);
    if (bell.rung()) return absl::OkStatus();
    RETURN_IF_ERROR(lease);
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no news from the peer");
  }
}

absl::Status SharedChannel::CheckLease() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(over_);
  char words[sizeof(int32_t) + kMostLastWords];
  const ssize_t got = recv(ends_.lease.get(), words, sizeof words, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  over_ = absl::UnavailableError("the stream over shared memory has ended");
  if (got >= static_cast<ssize_t>(sizeof(int32_t))) {
    int32_t code;
    std::memcpy(&code, words, sizeof code);
    const absl::string_view why(words + sizeof code, got - sizeof code);
    const auto reason = static_cast<absl::StatusCode>(code);
    // A late answer would say that the stream lives.
    const bool tells = code != 0 && reason != absl::StatusCode::kDeadlineExceeded;
    if (tells) over_ = absl::Status(reason, why);
  }
  return over_;
}

absl::Status SharedChannel::CheckCancelled() const {
  if (!cancelled_.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::UnavailableError("the stream over shared memory was cancelled");
}

void SharedChannel::Cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  shutdown(ends_.lease.get(), SHUT_RDWR);
  for (const SharedSegment* segment : {&ends_.mine, &ends_.theirs}) {
    const auto* counters = reinterpret_cast<const SharedCounters*>(segment->data());
    WakeSleepers(counters->head);
    WakeSleepers(counters->ack);
  }
}

void SharedChannel::End(const absl::Status& reason) {
  const auto code = static_cast<int32_t>(reason.code());
  std::string words(reinterpret_cast<const char*>(&code), sizeof code);
  absl::StrAppend(&words, reason.message().substr(0, kMostLastWords));
  // A peer that is gone need not be told.
  (void)send(ends_.lease.get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  Cancel();
}

char* SharedChannel::Reserve(const TensorShape& shape, TensorRef& reference) {
  const auto bytes = static_cast<size_t>(shape.bytes());
  const RingWriter::Piece piece = writer_.Reserve(bytes);
  if (piece.data == nullptr) return inline_.Reserve(shape, reference);
  Describe(shape, reference);
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
