#include "common/wire/attach_server.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/guarded.h"
#include "common/base/status.h"
#include "common/wire/descriptor_passing.h"
#include "common/wire/private_folder.h"

namespace bastion::wire {
namespace {

constexpr size_t kMaxOffers = 64;
constexpr size_t kMaxStreams = 64;

// An exception of `serve` ends its stream, not the process.
absl::Status ServeGuarded(const AttachServer::Serve& serve,
                          const std::shared_ptr<SharedChannel>& channel) {
  try {
    return serve(channel);
  } catch (const std::exception& error) {
    LOG(ERROR) << "a stream over shared memory failed: " << error.what();
    return absl::InternalError("the stream failed in the service; see its log");
  }
}

}  // namespace

AttachOptions OwnUserOptions(std::string folder, std::string name) {
  AttachOptions options;
  options.folder = std::move(folder);
  options.name = std::move(name);
  options.peer = geteuid();
  return options;
}

absl::StatusOr<std::unique_ptr<AttachServer>> AttachServer::Start(AttachOptions options) {
  RETURN_IF_ERROR(MakePrivateFolder(options.folder));
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
  if (!listener_.valid()) return SystemError("socket");
  ASSIGN_OR_RETURN(lock_, SocketLock::Lock(path));
  unlink(path.c_str());  // A server that was killed leaves its socket behind.
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return SystemError(path);
  }
  path_ = path;
  if (listen(listener_.get(), /*backlog=*/16) != 0) return SystemError(path);
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
        absl::StrCat("the peer's shared-memory layout (version ", request.layout_version(),
                     ") differs from this service's (version ", kLayoutVersion,
                     "); run services of one release together"));
  }
  std::string token(kOfferTokenBytes, '\0');
  uint32_t epoch = 0;
  if (getrandom(token.data(), kOfferTokenBytes, 0) != static_cast<ssize_t>(kOfferTokenBytes) ||
      getrandom(&epoch, sizeof epoch, 0) != static_cast<ssize_t>(sizeof epoch)) {
    return SystemError("getrandom");
  }
  const absl::Time now = SteadyNow();
  MutexLock lock(&mutex_);
  absl::erase_if(offers_, [&](const auto& offer) { return offer.second.expires < now; });
  if (offers_.size() >= kMaxOffers) {
    return absl::ResourceExhaustedError(absl::StrCat("shared memory: ", kMaxOffers,
                                                     " offers are open; try again in ",
                                                     absl::FormatDuration(kOfferLifetime)));
  }
  if (ring != nullptr) {
    reply.set_device_bytes(ring->capacity());
    reply.set_device_uuid(ring->uuid());
  }
  offers_[token] = {std::move(serve), std::move(ring), epoch, now + kOfferLifetime};
  reply.set_token(token);
  reply.set_socket(path_);
  reply.set_epoch(epoch);
  reply.set_segment_bytes(kRingStart + options_.ring_bytes);
  return absl::OkStatus();
}

absl::StatusOr<AttachServer::OpenOffer> AttachServer::RedeemToken(const std::string& token) {
  MutexLock lock(&mutex_);
  const auto found = offers_.find(token);
  if (found == offers_.end() || found->second.expires < SteadyNow()) {
    return absl::PermissionDeniedError("shared memory: the token is unknown or has expired");
  }
  OpenOffer offer = std::move(found->second);
  offers_.erase(found);
  return offer;
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
    RunGuarded("an attach", [&] {
      JoinFinished();
      const absl::Status admitted = Admit(std::move(connection));
      if (!admitted.ok()) LOG(WARNING) << "attach refused: " << admitted;
    });
  }
}

absl::Status AttachServer::Admit(Descriptor connection) {
  SetTimeouts(connection, kHandshakeTimeout);
  RETURN_IF_ERROR(CheckPeerUser(connection, options_.peer));
  ASSIGN_OR_RETURN(Packet packet, ReceiveDescriptors(connection, 1));
  ASSIGN_OR_RETURN(const OpenOffer offer, RedeemToken(packet.text));
  if (streams_.size() >= kMaxStreams) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shared memory: ", kMaxStreams, " streams are already open"));
  }
  const size_t bytes = kRingStart + options_.ring_bytes;
  ASSIGN_OR_RETURN(SharedSegment theirs,
                   SharedSegment::Map(std::move(packet.descriptors[0]), bytes));
  ASSIGN_OR_RETURN(SharedSegment mine, SharedSegment::Create(bytes));
  std::vector<int> descriptors = {mine.descriptor()};
  if (offer.ring != nullptr) {
    const auto [memory, counters] = offer.ring->descriptors();
    descriptors.insert(descriptors.end(), {memory, counters});
  }
  RETURN_IF_ERROR(SendDescriptors(connection, "!", descriptors));
  SharedEnds ends{std::move(connection), std::move(mine), std::move(theirs), offer.epoch};
  Stream& stream = streams_.emplace_back();
  auto remove = absl::MakeCleanup([this] { streams_.pop_back(); });  // Without a thread.
  stream.channel = std::make_shared<SharedChannel>(std::move(ends));
  stream.thread = std::thread([&stream, serve = offer.serve] {
    RunGuarded("the end of a stream over shared memory",
               [&] { stream.channel->End(ServeGuarded(serve, stream.channel)); });
    stream.finished = true;
  });
  std::move(remove).Cancel();
  return absl::OkStatus();
}

void AttachServer::JoinFinished() {
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    if (!stream->finished) {
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
  return AttachServer::Start(OwnUserOptions(folder, name));
}

}  // namespace bastion::wire
