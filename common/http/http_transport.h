// HttpTransport: the bytes of one connection, in clear text or over TLS. A synchronous stream of
// Boost.Asio. Thread-compatible, but ShutDown() may be called from another thread.
#ifndef BASTION_COMMON_HTTP_HTTP_TRANSPORT_H_
#define BASTION_COMMON_HTTP_HTTP_TRANSPORT_H_

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/system/system_error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/access/tls.h"
#include "common/access/watched_file.h"

namespace bastion {

class HttpTransport {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

  // If `tls` is not null, call Handshake() first.
  HttpTransport(Socket socket, TlsContext tls)
      : socket_(std::move(socket)), context_(std::move(tls)) {
    if (context_ != nullptr) tls_.emplace(socket_, *context_);
  }

  // Does nothing in clear text.
  void Handshake(boost::system::error_code& error) {
    if (tls_) error = tls_->handshake(boost::asio::ssl::stream_base::server, error);
  }
  // The names of the client's certificate, which the handshake has verified.
  [[nodiscard]] std::vector<std::string> CertificateNames() const;

  template <typename Buffers>
  size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    return tls_ ? tls_->read_some(buffers, error) : socket_.read_some(buffers, error);
  }
  template <typename Buffers>
  size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
    return tls_ ? tls_->write_some(buffers, error) : socket_.write_some(buffers, error);
  }
  // Boost.Beast requires the forms that throw.
  template <typename Buffers>
  size_t read_some(const Buffers& buffers) {
    return tls_ ? tls_->read_some(buffers) : socket_.read_some(buffers);
  }
  template <typename Buffers>
  size_t write_some(const Buffers& buffers) {
    return tls_ ? tls_->write_some(buffers) : socket_.write_some(buffers);
  }

  // The client reads the end of the stream.
  void EndWrites() { ::shutdown(descriptor_, SHUT_WR); }
  // Ends all calls.
  void ShutDown() { ::shutdown(descriptor_, SHUT_RDWR); }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  Socket socket_;
  const int descriptor_ = socket_.native_handle();
  const TlsContext context_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

// Makes the TLS contexts of new connections from files that may change. Thread-compatible.
class TlsContexts {
 public:
  explicit TlsContexts(const TlsFiles& files);

  // Null if there is no certificate. If the files have become invalid, the last valid context.
  // INVALID_ARGUMENT if there has been none.
  [[nodiscard]] absl::StatusOr<HttpTransport::TlsContext> Get();

 private:
  [[nodiscard]] absl::StatusOr<HttpTransport::TlsContext> Load();

  const TlsFiles files_;
  std::vector<WatchedFile> watched_;  // Those of files_ that there are.
  HttpTransport::TlsContext context_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_HTTP_HTTP_TRANSPORT_H_
