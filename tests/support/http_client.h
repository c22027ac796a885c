// A small HTTP client for tests: sends bytes to a server on this host and returns what comes back.
// Header-only. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_HTTP_CLIENT_H_
#define BASTION_TESTS_SUPPORT_HTTP_CLIENT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace bastion::testing {

class HttpConnection {
 public:
  explicit HttpConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    timeval limit = {.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  ~HttpConnection() { ::close(socket_); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  // False after the server has closed the connection. Drops what has arrived.
  [[nodiscard]] bool IsOpen() const {
    char buffer[4096];
    ssize_t count = 0;
    while ((count = ::recv(socket_, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) continue;
    return count < 0 && errno == EAGAIN;
  }
  void Send(const std::string& bytes) { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Returns the next bytes; empty at the end, or after 20 seconds.
  std::string Receive() {
    char buffer[4096];
    const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
    return count > 0 ? std::string(buffer, static_cast<size_t>(count)) : "";
  }
  std::string ReceiveAll() {
    std::string all;
    for (std::string part; !(part = Receive()).empty();) all += part;
    return all;
  }

 private:
  const int socket_;
  bool connected_ = false;
};

struct HttpAnswer {
  int status = 0;  // 0: no answer.
  std::string head;
  std::string body;
};

// Sends one request. `headers` are lines with \r\n. "Host: localhost" is added if they have no
// Host.
inline HttpAnswer Fetch(int port, const std::string& target, const std::string& headers = "",
                        const std::string& method = "GET", const std::string& body = "") {
  HttpConnection connection(port);
  std::string request = absl::StrCat(method, " ", target, " HTTP/1.1\r\nConnection: close\r\n");
  if (headers.find("Host:") == std::string::npos) request += "Host: localhost\r\n";
  if (!body.empty()) absl::StrAppend(&request, "Content-Length: ", body.size(), "\r\n");
  connection.Send(absl::StrCat(request, headers, "\r\n", body));
  const std::string all = connection.ReceiveAll();
  HttpAnswer answer;
  const size_t end = all.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = all.substr(0, end);
  answer.body = all.substr(end + 4);
  (void)absl::SimpleAtoi(all.substr(all.find(' ') + 1, 3), &answer.status);
  return answer;
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_HTTP_CLIENT_H_
