// The attach handshake with a peer that sends any offer, any request, and any packets with any
// descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/wire/attach_server.h"
#include "common/wire/attacher.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/temp_folder.h"

namespace bastion::wire {
namespace {

using testing::FuzzInput;

constexpr size_t kRingBytes = 4096;
constexpr uint64_t kMaxDeviceBytes = 1 << 16;

// Only this process's user may enter it.
const testing::TempFolder& Folder() {
  static const testing::TempFolder folder;
  return folder;
}

Descriptor Socket() { return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

// A descriptor that the input chooses: what the handshake expects, or something else.
Descriptor MakeDescriptor(uint8_t choice, size_t bytes) {
  switch (choice % 8) {
    case 0:
      return Descriptor(open("/dev/null", O_RDWR | O_CLOEXEC));
    case 1:
      return Descriptor(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    case 2:
      return Socket();
    case 3:
      bytes += 4096;
      break;
    case 4:
      bytes = 4096;  // The counters of a ring in GPU memory.
      break;
    default:
      break;
  }
  // A client may have left before its answer: then the answer is for a later input, which may offer
  // an empty segment.
  const auto segment = SharedSegment::Create(std::max<size_t>(bytes, 1));
  CHECK(segment.ok()) << segment.status();
  return Descriptor(dup(segment->descriptor()));
}

// What one packet of the input carries.
struct Packed {
  std::string text;
  std::string descriptors;  // A choice of MakeDescriptor each.
};

Packed ReadPacked(FuzzInput& input) {
  Packed packed;
  packed.text = input.Bytes(input.Byte() % (kOfferTokenBytes + 8));
  packed.descriptors = input.Bytes(input.Byte() % 7);
  return packed;
}

void SendPacked(const Descriptor& socket, const Packed& packed, size_t segment_bytes) {
  std::vector<Descriptor> owned;
  std::vector<int> passed;
  for (const char choice : packed.descriptors) {
    owned.push_back(MakeDescriptor(static_cast<uint8_t>(choice), segment_bytes));
    passed.push_back(owned.back().get());
  }
  iovec part = {const_cast<char*>(packed.text.data()), packed.text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const size_t bytes = passed.size() * sizeof(int);
  if (bytes > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), passed.data(), bytes);
  }
  // The other side may have closed the connection already.
  (void)sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

// A server that answers every client with the packets of the current input.
class AnsweringServer {
 public:
  AnsweringServer() : path_(Folder().File("peer.attach")), listener_(Socket()) {
    const auto address = SocketAddress(path_);
    CHECK(address.ok()) << address.status();
    unlink(path_.c_str());
    CHECK_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address),
             0);
    CHECK_EQ(listen(listener_.get(), 16), 0);
    std::thread([this] {
      for (;;) Answer(Descriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    }).detach();
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  void SetAnswer(std::vector<Packed> packets, size_t segment_bytes) {
    MutexLock lock(&mutex_);
    packets_ = std::move(packets);
    segment_bytes_ = segment_bytes;
  }

 private:
  void Answer(const Descriptor& client) {
    MutexLock lock(&mutex_);
    for (const Packed& packed : packets_) SendPacked(client, packed, segment_bytes_);
  }

  const std::string path_;
  const Descriptor listener_;
  Mutex mutex_;
  std::vector<Packed> packets_ ABSL_GUARDED_BY(mutex_);
  size_t segment_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Uses what a client got from its peer.
void UseEnds(SharedEnds ends, FuzzInput& input) {
  CHECK_EQ(ends.theirs.bytes(), ends.mine.bytes());
  std::unique_ptr<DeviceRingEnds> device = std::move(ends.device);
  SharedChannel channel(std::move(ends), /*spin=*/absl::ZeroDuration());
  internal::v1::FeatureReply reply;
  CHECK(!channel.Receive(&reply, absl::InfinitePast()).ok());
  if (device == nullptr) return;
  DeviceReader reader;
  reader.import =
      [](const ExportedMemory& exported) -> absl::StatusOr<std::shared_ptr<const char>> {
    if (exported.bytes > kMaxDeviceBytes)
      return absl::InvalidArgumentError("more than the memory has");
    static const char memory[kMaxDeviceBytes] = {};
    return std::shared_ptr<const char>(memory, [](const char*) {});
  };
  const auto ring = DeviceRingReader::Import(std::move(*device), reader);
  if (!ring.ok()) return;
  const uint64_t position = input.Number(), bytes = input.Number();
  (void)(*ring)->Holds(position);
  // The peer announced nothing.
  CHECK(!(*ring)->Check(position, bytes).ok() || bytes == 0);
}

void AttachToPeer(FuzzInput& input) {
  static AnsweringServer& server = *new AnsweringServer;
  AttachReply offer;
  if (input.Byte() % 4 == 0) {
    if (!offer.ParseFromString(input.Bytes(input.Byte()))) return;
  } else {
    offer.set_token(input.Bytes(input.Byte()));
    offer.set_epoch(input.Byte());
    offer.set_segment_bytes(input.Byte() % 4 == 0 ? input.Number() : kRingStart + kRingBytes);
    offer.set_device_bytes(input.Byte() % 2 == 0 ? 0 : input.Number());
  }
  if (input.Byte() % 8 != 0) offer.set_socket(server.path());
  std::vector<Packed> packets(input.Byte() % 3);
  for (Packed& packed : packets) packed = ReadPacked(input);
  server.SetAnswer(std::move(packets), offer.segment_bytes() % (uint64_t{1} << 31));
  auto ends = AcceptOffer(offer);
  if (ends.ok()) UseEnds(*std::move(ends), input);
}

// An open offer of the server under test. A new one is made when the last was used or is old.
struct Offered {
  AttachReply reply;
  absl::Time made;
};

void AcceptPeer(FuzzInput& input) {
  static AttachServer& server = *[] {
    AttachOptions options = OwnUserOptions(Folder().path(), "server");
    options.ring_bytes = kRingBytes;
    auto started = AttachServer::Start(options);
    CHECK(started.ok()) << started.status();
    return started->release();
  }();
  static std::optional<Offered> offered;
  AttachRequest request;
  AttachReply unused;
  const auto serve = [](const std::shared_ptr<SharedChannel>&) { return absl::OkStatus(); };
  if (!request.ParseFromString(input.Bytes(input.Byte()))) return;
  if (request.layout_version() != kLayoutVersion || request.layout_hash() != kLayoutHash) {
    CHECK(!server.Offer(request, serve, unused).ok());
  }
  if (offered && SteadyNow() - offered->made > kOfferLifetime / 2) offered.reset();
  if (!offered) {
    request.set_layout_version(kLayoutVersion);
    request.set_layout_hash(kLayoutHash);
    offered = Offered{{}, SteadyNow()};
    const absl::Status status = server.Offer(request, serve, offered->reply);
    CHECK(status.ok()) << status;
  }
  const Descriptor connection = Socket();
  const auto address = SocketAddress(offered->reply.socket());
  CHECK(address.ok()) << address.status();
  CHECK_EQ(TEMP_FAILURE_RETRY(connect(
               connection.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address)),
           0);
  bool redeems = false;
  const int packets = input.Byte() % 3;
  for (int i = 0; i < packets; ++i) {
    const bool with_token = input.Byte() % 2 != 0;
    Packed packed = ReadPacked(input);
    if (with_token) packed.text = offered->reply.token() + packed.text.substr(0, 1);
    if (i == 0) {
      redeems = packed.text == offered->reply.token() && packed.descriptors.size() == 1;
    }
    SendPacked(connection, packed, kRingStart + kRingBytes);
  }
  shutdown(connection.get(), SHUT_WR);
  const bool admitted = ReceiveDescriptors(connection, 1).ok();
  CHECK(!admitted || redeems);
  if (redeems) offered.reset();
}

}  // namespace
}  // namespace bastion::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  if (input.Byte() % 2 == 0) {
    bastion::wire::AttachToPeer(input);
  } else {
    bastion::wire::AcceptPeer(input);
  }
  return 0;
}
