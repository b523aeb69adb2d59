// One HTTP/1.1 exchange over a socket that never blocks: a request's head is read, one reply is
// sent, the connection ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "server/telemetry/socket.h"

namespace attnd {

struct HttpRequest {
  std::string method;
  std::string path;  // without the query; as sent, with nothing decoded
};

struct HttpResponse {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Not thread-safe. Move-only.
class HttpConnection {
 public:
  using Clock = std::chrono::steady_clock;
  using Handler = absl::FunctionRef<HttpResponse(const HttpRequest&)>;

  // Takes over a connected, non-blocking socket.
  explicit HttpConnection(FileDescriptor socket);

  int fd() const { return socket_.get(); }
  // The event of poll() to wait for before the next Advance.
  short awaited_event() const;
  // When the peer has taken too long over what it is to do now.
  Clock::time_point deadline() const { return deadline_; }
  // The request has not come as a whole yet.
  bool receiving() const { return state_ == State::kReceiving; }
  // Nothing is left to do.
  bool done() const { return state_ == State::kDone; }

  // Goes on as far as the socket allows. Calls `handler` once, when the request is there; what is
  // not HTTP, or has a head of more than 8 KiB, is answered without it.
  void Advance(Handler handler);

 private:
  enum class State { kReceiving, kSending, kLingering, kDone };

  void Receive(Handler handler);
  void Reply(const HttpResponse& response, bool with_body);
  void Send();
  void Linger();
  // After an operation of the socket has failed: false if it is to be tried again at once.
  bool StopsHere();
  void Enter(State state, Clock::duration time_allowed);

  FileDescriptor socket_;
  State state_ = State::kReceiving;
  Clock::time_point deadline_;
  std::string received_;
  std::string reply_;
  std::size_t sent_bytes_ = 0;
};

}  // namespace attnd
