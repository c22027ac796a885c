#include "common/wire/attach.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/protocol.h"

namespace bastion::wire {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr size_t kMostOffers = 64;
constexpr size_t kMostStreams = 64;
constexpr uint64_t kMostSegmentBytes = uint64_t{1} << 30;
// From the offer to the end of the handshake, and for each message of it.
constexpr absl::Duration kOfferLife = absl::Seconds(10);
constexpr absl::Duration kHandshakePatience = absl::Seconds(2);

constexpr char kRefused[] = "shared memory: the peer refused";

absl::Status Failed(absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("shared memory: ", what));
}

absl::StatusOr<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("no path of a socket (1 to ", sizeof address.sun_path - 1, " bytes): ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

void LimitWaits(const Descriptor& socket, absl::Duration patience) {
  const timeval limit = absl::ToTimeval(std::max(patience, absl::Milliseconds(1)));  // 0: none.
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

absl::Status CheckUser(const Descriptor& socket, uid_t wanted) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return Failed("asking who the peer is");
  }
  if (credentials.uid == wanted) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("shared memory: the peer is user ", credentials.uid, ", not ", wanted));
}

// Of our memory; or of our memory, of the GPU's and of the latter's counters.
constexpr size_t kMostDescriptors = 3;

// One packet: `text` and at most kMostDescriptors.
absl::Status SendDescriptors(const Descriptor& socket, const std::string& text,
                             const std::vector<int>& descriptors) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  const size_t bytes = descriptors.size() * sizeof(int);
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) >= 0) return absl::OkStatus();
  // Refused before it was asked anything: as when it had answered.
  if (errno == EPIPE) return absl::UnavailableError(kRefused);
  return Failed("handing memory over");
}

struct Packet {
  std::string text;
  std::vector<Descriptor> descriptors;
};

// UNAVAILABLE when the peer hung up, INVALID_ARGUMENT unless there are so many descriptors.
absl::StatusOr<Packet> ReceiveDescriptors(const Descriptor& socket, size_t wanted) {
  char text[kTokenBytes + 1];
  iovec part = {text, sizeof text};
  alignas(cmsghdr) char control[CMSG_SPACE((kMostDescriptors + 1) * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return Failed("waiting for the peer's memory");
  std::vector<Descriptor> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
      descriptors.emplace_back(descriptor);
    }
  }
  if (got == 0) return absl::UnavailableError(kRefused);
  if (descriptors.size() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory: ", descriptors.size(),
                                                   " descriptors from the peer, not ", wanted));
  }
  return Packet{std::string(text, got), std::move(descriptors)};
}

absl::Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Failed(folder);
  struct stat facts {};
  if (lstat(folder.c_str(), &facts) != 0) return Failed(folder);
  if (S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && (facts.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " must be a folder of this user's that nobody else may enter (0700)"));
}

}  // namespace

AttachOptions AttachIn(std::string folder, std::string name) {
  AttachOptions options;
  options.folder = std::move(folder);
  options.name = std::move(name);
  options.peer = geteuid();
  return options;
}

absl::StatusOr<std::unique_ptr<AttachServer>> AttachServer::Start(AttachOptions options) {
  RETURN_IF_ERROR(MakeFolder(options.folder));
  auto server = std::unique_ptr<AttachServer>(new AttachServer(std::move(options)));
  RETURN_IF_ERROR(server->Listen());
  server->accepting_ = std::thread([server = server.get()] { server->AcceptAll(); });
  return server;
}

absl::Status AttachServer::Listen() {
  const std::string path =
      std::filesystem::absolute(options_.folder) / absl::StrCat(options_.name, ".attach");
  ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(path));
  listener_ = Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener_.valid()) return Failed("socket");
  unlink(path.c_str());  // Left behind by one that was killed.
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Failed(path);
  }
  path_ = path;
  if (listen(listener_.get(), /*backlog=*/16) != 0) return Failed(path);
  return absl::OkStatus();
}

AttachServer::~AttachServer() {
  if (accepting_.joinable()) {
    stopping_ = true;
    shutdown(listener_.get(), SHUT_RDWR);
    accepting_.join();
  }
  for (Stream& stream : streams_) stream.channel->Cancel();
  for (Stream& stream : streams_) stream.thread.join();
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status AttachServer::Offer(const AttachRequest& request, Serve serve, AttachReply& reply,
                                 std::shared_ptr<const DeviceRingWriter> ring) {
  if (request.layout_version() != kLayoutVersion || request.layout_hash() != kLayoutHash) {
    return absl::FailedPreconditionError(
        absl::StrCat("the peer's layout of shared memory is version ", request.layout_version(),
                     ", this service's ", kLayoutVersion));
  }
  std::string token(kTokenBytes, '\0');
  uint32_t epoch = 0;
  if (getrandom(token.data(), kTokenBytes, 0) != static_cast<ssize_t>(kTokenBytes) ||
      getrandom(&epoch, sizeof epoch, 0) != static_cast<ssize_t>(sizeof epoch)) {
    return Failed("getrandom");
  }
  const absl::Time now = absl::Now();
  MutexLock lock(&mutex_);
  absl::erase_if(offers_, [&](const auto& offer) { return offer.second.until < now; });
  if (offers_.size() >= kMostOffers) {
    return absl::ResourceExhaustedError("shared memory: too many offers that nobody took");
  }
  if (ring != nullptr) reply.set_device_bytes(ring->capacity());
  offers_[token] = {std::move(serve), std::move(ring), epoch, now + kOfferLife};
  reply.set_token(token);
  reply.set_socket(path_);
  reply.set_epoch(epoch);
  reply.set_segment_bytes(kRingStart + options_.ring_bytes);
  return absl::OkStatus();
}

absl::StatusOr<AttachServer::Offered> AttachServer::Redeem(const std::string& token) {
  MutexLock lock(&mutex_);
  const auto found = offers_.find(token);
  if (found == offers_.end() || found->second.until < absl::Now()) {
    return absl::PermissionDeniedError("shared memory: a token that is not on offer");
  }
  Offered offered = std::move(found->second);
  offers_.erase(found);
  return offered;
}

void AttachServer::AcceptAll() {
  for (;;) {
    Descriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (stopping_) return;
    if (!connection.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (!scarce) return;
      absl::SleepFor(absl::Milliseconds(100));
      continue;
    }
    JoinOver();
    const absl::Status admitted = Admit(std::move(connection));
    if (!admitted.ok()) LOG(WARNING) << "refused to attach: " << admitted;
  }
}

absl::Status AttachServer::Admit(Descriptor connection) {
  LimitWaits(connection, kHandshakePatience);
  RETURN_IF_ERROR(CheckUser(connection, options_.peer));
  ASSIGN_OR_RETURN(Packet packet, ReceiveDescriptors(connection, 1));
  ASSIGN_OR_RETURN(const Offered offered, Redeem(packet.text));
  if (streams_.size() >= kMostStreams) {
    return absl::ResourceExhaustedError(absl::StrCat(kMostStreams, " streams are open"));
  }
  const size_t bytes = kRingStart + options_.ring_bytes;
  ASSIGN_OR_RETURN(SharedSegment theirs,
                   SharedSegment::Map(std::move(packet.descriptors[0]), bytes));
  ASSIGN_OR_RETURN(SharedSegment mine, SharedSegment::Create(bytes));
  std::vector<int> handed_over = {mine.descriptor()};
  if (offered.ring != nullptr) {
    const auto [memory, counters] = offered.ring->descriptors();
    handed_over.insert(handed_over.end(), {memory, counters});
  }
  RETURN_IF_ERROR(SendDescriptors(connection, "!", handed_over));
  SharedEnds ends{std::move(connection), std::move(mine), std::move(theirs), offered.epoch};
  Stream& stream = streams_.emplace_back();
  stream.channel = std::make_shared<SharedChannel>(std::move(ends));
  stream.thread = std::thread([&stream, serve = offered.serve] {
    stream.channel->End(serve(stream.channel));
    stream.over = true;
  });
  return absl::OkStatus();
}

void AttachServer::JoinOver() {
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    if (!stream->over) {
      ++stream;
      continue;
    }
    stream->thread.join();
    stream = streams_.erase(stream);
  }
}

absl::StatusOr<std::unique_ptr<AttachServer>> StartAttachServer(const std::string& folder,
                                                                const std::string& name) {
  if (folder.empty()) return nullptr;
  return AttachServer::Start(AttachIn(folder, name));
}

absl::StatusOr<CarrierChoice> ParseCarrierChoice(const std::string& text) {
  if (text == "auto") return CarrierChoice::kAuto;
  if (text == "inline") return CarrierChoice::kInline;
  return absl::InvalidArgumentError(absl::StrCat("carrier: auto or inline, not ", text));
}

Attacher::Attacher(const std::string& address, CarrierChoice choice, AttachRequest::Stream stream,
                   Ask ask)
    : address_(address),
      proposes_(choice == CarrierChoice::kAuto && absl::StartsWith(address, "unix:")),
      stream_(stream),
      ask_(std::move(ask)) {}

void Attacher::ProposeDevice(const DeviceReader& reader) {
  device_.emplace();
  device_->set_uuid(reader.uuid);
  device_->set_dtype(FeatureDType(reader.type));
}

std::shared_ptr<SharedChannel> Attacher::Attach(absl::Time deadline) {
  if (!proposes_) return nullptr;
  absl::StatusOr<std::shared_ptr<SharedChannel>> attached = TryAttach(deadline);
  // Of a peer that is away nothing is known.
  const bool away =
      absl::IsUnavailable(attached.status()) || absl::IsDeadlineExceeded(attached.status());
  const std::string outcome =
      attached.ok() ? "shared memory" : absl::StrCat("gRPC (", attached.status().message(), ")");
  if (!away && std::exchange(logged_, outcome) != outcome) {
    LOG(INFO) << AttachRequest::Stream_Name(stream_) << " to " << address_ << ": over " << outcome;
  }
  return attached.ok() ? *std::move(attached) : nullptr;
}

absl::StatusOr<std::shared_ptr<SharedChannel>> Attacher::TryAttach(absl::Time deadline) {
  grpc::ClientContext context;
  StateProtocol(context);
  context.set_deadline(absl::ToChronoTime(std::min(deadline, absl::Now() + kOfferLife)));
  AttachRequest request;
  request.set_stream(stream_);
  request.set_layout_version(kLayoutVersion);
  request.set_layout_hash(kLayoutHash);
  if (device_) *request.mutable_device() = *device_;
  AttachReply offer;
  RETURN_IF_ERROR(FromGrpc(ask_(&context, request, &offer)));
  // Half of what is left: should it come to nothing, gRPC is to have time too.
  const absl::Duration patience = std::min(kHandshakePatience, (deadline - absl::Now()) / 2);
  ASSIGN_OR_RETURN(SharedEnds ends, TakeOffer(offer, patience));
  return std::make_shared<SharedChannel>(std::move(ends));
}

absl::StatusOr<SharedEnds> TakeOffer(const AttachReply& offer, absl::Duration patience) {
  ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(offer.socket()));
  if (offer.segment_bytes() <= kRingStart || offer.segment_bytes() > kMostSegmentBytes ||
      offer.segment_bytes() % kSlotBorder != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory of ", offer.segment_bytes(), " bytes was offered"));
  }
  Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection.valid()) return Failed("socket");
  LimitWaits(connection, patience);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Failed(offer.socket());
  }
  RETURN_IF_ERROR(CheckUser(connection, geteuid()));
  ASSIGN_OR_RETURN(SharedSegment mine, SharedSegment::Create(offer.segment_bytes()));
  RETURN_IF_ERROR(SendDescriptors(connection, offer.token(), {mine.descriptor()}));
  const bool with_device = offer.device_bytes() > 0;
  ASSIGN_OR_RETURN(Packet packet, ReceiveDescriptors(connection, with_device ? 3 : 1));
  ASSIGN_OR_RETURN(SharedSegment theirs,
                   SharedSegment::Map(std::move(packet.descriptors[0]), offer.segment_bytes()));
  SharedEnds ends{std::move(connection), std::move(mine), std::move(theirs), offer.epoch()};
  if (with_device) {
    ends.device = std::make_unique<DeviceRingEnds>(DeviceRingEnds{
        std::move(packet.descriptors[1]), std::move(packet.descriptors[2]), offer.device_bytes()});
  }
  return ends;
}

}  // namespace bastion::wire
