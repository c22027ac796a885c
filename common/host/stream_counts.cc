#include "common/host/stream_counts.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace bastion::wire {
namespace {

// Takes ownership of a text that gRPC has made. Empty if there is none.
std::string Take(char* text) {
  if (text == nullptr) return "";
  std::string taken = text;
  gpr_free(text);
  return taken;
}

// The value of `"key":"value"` in JSON without spaces, and what follows it. Empty if there is none.
std::pair<absl::string_view, absl::string_view> FindString(absl::string_view json,
                                                           absl::string_view key) {
  const std::string label = absl::StrCat("\"", key, "\":\"");
  const size_t begin = json.find(label);
  if (begin == absl::string_view::npos) return {};
  json.remove_prefix(begin + label.size());
  const size_t end = json.find('"');
  if (end == absl::string_view::npos) return {};
  return {json.substr(0, end), json.substr(end)};
}

// gRPC leaves out numbers that are 0.
int64_t FindNumber(absl::string_view json, absl::string_view key) {
  int64_t number = 0;
  (void)absl::SimpleAtoi(FindString(json, key).first, &number);
  return number;
}

}  // namespace

// gRPC escapes brackets, and adds the interface to some addresses.
std::string NormalPeer(absl::string_view peer) {
  std::string normal = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  const size_t interface = normal.find('%');
  if (interface != std::string::npos) normal.erase(interface, normal.find(']') - interface);
  return normal;
}

std::optional<int64_t> StreamCounts::CountUnanswered(const std::string& peer) {
  for (const bool first : {true, false}) {
    const auto found = sockets_.find(peer);
    const std::string socket =
        found == sockets_.end() ? "" : Take(grpc_channelz_get_socket(found->second));
    // A number is never used for another connection.
    if (!socket.empty()) {
      return FindNumber(socket, "streamsStarted") - FindNumber(socket, "streamsSucceeded");
    }
    if (first) ReadConnections();
  }
  return std::nullopt;
}

intptr_t StreamCounts::ReadPage(intptr_t server, intptr_t first) {
  const std::string page = Take(grpc_channelz_get_server_sockets(server, first, /*max_results=*/0));
  intptr_t next = -1;
  for (absl::string_view rest = page;;) {
    // The name of a connection precedes its number: "chttp2 ipv4:127.0.0.1:5000".
    auto [name, after_name] = FindString(rest, "name");
    const auto [number, after_number] = FindString(after_name, "socketId");
    int64_t id = 0;
    if (!absl::SimpleAtoi(number, &id)) break;
    if (absl::ConsumePrefix(&name, "chttp2 ")) sockets_[NormalPeer(name)] = id;
    next = id + 1;
    rest = after_number;
  }
  return page.find("\"end\":true") == std::string::npos ? next : -1;
}

void StreamCounts::ReadConnections() {
  sockets_.clear();
  const std::string servers = Take(grpc_channelz_get_servers(/*start_server_id=*/0));
  absl::string_view rest = servers;
  for (;;) {
    const auto [server, after] = FindString(rest, "serverId");
    int64_t id = 0;
    if (!absl::SimpleAtoi(server, &id)) return;
    rest = after;
    for (intptr_t next = 0; next >= 0;) next = ReadPage(id, next);
  }
}

}  // namespace bastion::wire
