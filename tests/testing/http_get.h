// A request to the server's HTTP port, for tests.
#pragma once

#include <string>

namespace attnd::testing {

struct HttpReply {
  int code = 0;  // 0: no reply
  std::string head;
  std::string body;
};

// Sends one request to 127.0.0.1:`port` and reads until the server closes the connection, or for 10
// s.
HttpReply HttpRequest(int port, const std::string& method, const std::string& path);

inline HttpReply HttpGet(int port, const std::string& path) {
  return HttpRequest(port, "GET", path);
}

}  // namespace attnd::testing
