// A raw HTTP/2 client for gRPC calls, for tests with clients that no library can play: one that
// opens no flow-control window, or opens it byte by byte. Header-only. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_HTTP2_CLIENT_H_
#define BASTION_TESTS_SUPPORT_HTTP2_CLIENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/http_client.h"

namespace bastion::testing {

class Http2Client {
 public:
  enum FrameType : uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6 };
  struct Frame {
    uint8_t type = 0;
    uint8_t flags = 0;
    uint32_t stream = 0;
    std::string payload;
    // The frame is the last one of its stream.
    [[nodiscard]] bool ends_stream() const {
      return type == kReset || (type <= kHeaders && (flags & kEndStream) != 0);
    }
  };

  // Connects to a port of this host. The server may send `window` bytes of data on each stream.
  Http2Client(int port, uint32_t window) : connection_(port) {
    connection_.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    constexpr char kInitialWindowSize[] = {0, 4};
    SendFrame(kSettings, 0, 0, absl::StrCat(Bytes(kInitialWindowSize, 2), Number(window)));
  }

  using Fields = std::vector<std::pair<std::string, std::string>>;

  // Begins a call with one message and with further header fields, and returns its stream.
  uint32_t Call(const std::string& path, const std::string& message, const Fields& further = {}) {
    const uint32_t stream = TakeStream();
    connection_.Send(CallFrames(stream, path, message, further));
    return stream;
  }

  // Begins a call and cancels it at once, `count` times. Sends everything at once: a server that
  // reads the end of a call later than its start may answer the call before it is canceled.
  void CallAndCancel(const std::string& path, int count) {
    std::string frames;
    for (; count > 0; --count) {
      const uint32_t stream = TakeStream();
      frames += CallFrames(stream, path, "", {});
      frames += FrameBytes(kReset, 0, stream, Number(kCanceled));
    }
    connection_.Send(frames);
  }

  // False after the server has closed the connection. Drops what has arrived.
  [[nodiscard]] bool IsOpen() const { return connection_.IsOpen(); }

  // Lets the server send `bytes` more on `stream`.
  void OpenWindow(uint32_t stream, uint32_t bytes) {
    constexpr uint8_t kWindowUpdate = 8;
    SendFrame(kWindowUpdate, 0, stream, Number(bytes));
  }

  // The next frame; nullopt if the connection ends, or after 20 seconds of silence. Answers pings
  // and settings.
  std::optional<Frame> Read() {
    constexpr size_t kHeader = 9;
    if (!Fill(kHeader)) return std::nullopt;
    const auto byte = [this](size_t i) { return static_cast<uint8_t>(received_[i]); };
    const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    if (!Fill(kHeader + size)) return std::nullopt;
    Frame frame;
    frame.type = byte(3);
    frame.flags = byte(4);
    for (size_t i = 5; i < kHeader; ++i) frame.stream = frame.stream << 8 | byte(i);
    frame.payload = received_.substr(kHeader, size);
    received_.erase(0, kHeader + size);
    const bool asks = (frame.flags & kAck) == 0;
    if (frame.type == kPing && asks) SendFrame(kPing, kAck, 0, frame.payload);
    if (frame.type == kSettings && asks) SendFrame(kSettings, kAck, 0, "");
    return frame;
  }

 private:
  static constexpr uint8_t kAck = 1, kEndStream = 1, kEndHeaders = 4;
  static constexpr uint32_t kCanceled = 8;

  static std::string Bytes(const char* bytes, size_t count) { return std::string(bytes, count); }
  // Four bytes, the most significant one first.
  static std::string Number(uint32_t number) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
    return bytes;
  }
  static std::string FrameBytes(uint8_t type, uint8_t flags, uint32_t stream,
                                const std::string& payload) {
    std::string frame = Number(static_cast<uint32_t>(payload.size())).substr(1);
    frame += static_cast<char>(type);
    frame += static_cast<char>(flags);
    return frame + Number(stream) + payload;
  }
  // The frames of a call with one message.
  static std::string CallFrames(uint32_t stream, const std::string& path,
                                const std::string& message, const Fields& further) {
    std::string headers;
    Fields fields = {{":method", "POST"},
                     {":scheme", "http"},
                     {":path", path},
                     {":authority", "localhost"},
                     {"content-type", "application/grpc"},
                     {"te", "trailers"}};
    fields.insert(fields.end(), further.begin(), further.end());
    for (const auto& [name, value] : fields) {
      // A literal field without indexing and without Huffman code.
      headers += '\0';
      headers += static_cast<char>(name.size());
      headers += name;
      headers += static_cast<char>(value.size());
      headers += value;
    }
    std::string body(1, '\0');  // Not compressed.
    body += Number(static_cast<uint32_t>(message.size()));
    return FrameBytes(kHeaders, kEndHeaders, stream, headers) +
           FrameBytes(kData, kEndStream, stream, body + message);
  }
  void SendFrame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
    connection_.Send(FrameBytes(type, flags, stream, payload));
  }
  uint32_t TakeStream() { return std::exchange(next_stream_, next_stream_ + 2); }
  // Receives until `bytes` bytes are there.
  bool Fill(size_t bytes) {
    while (received_.size() < bytes) {
      const std::string part = connection_.Receive();
      if (part.empty()) return false;
      received_ += part;
    }
    return true;
  }

  HttpConnection connection_;
  std::string received_;
  uint32_t next_stream_ = 1;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_HTTP2_CLIENT_H_
