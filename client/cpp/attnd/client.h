// The C++ client of an attention server.
//
//   auto client = attnd::Client::Connect("localhost:8001");
//   attnd::v1::AttentionSpec spec;                    // sizes and options: see attention.proto
//   ...
//   auto reply = (*client)->Attend(spec, {.q = std::as_bytes(std::span(q)), .k = ..., .v = ...});
//   for (float x : reply->out.As<float>()) ...
//
// Large transfers: glibc hands freed pages back to the kernel and faults them in again for every
// message. A program that sends many megabytes a second gains 1.7 to 2.5 times by calling
// mallopt(M_TRIM_THRESHOLD, 2'000'000'000) first thing in main(); its resident memory then stays at
// its peak. The library leaves this choice to the program.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attnd/tensor_bytes.h"
#include "attnd/v1/attention.pb.h"

namespace attnd {

namespace internal {
class Attempts;
}

// When a failed call is made again. Every call of this API is a pure computation, so that repeating
// one is always safe; the limits are there to spare the server. A call is repeated on
//   UNAVAILABLE, if no part of an answer had arrived: after the server's own delay where it gave
//   one, else after a random
//     time up to initial_backoff, doubling with each attempt up to max_backoff; a call that the
//     server cancelled is UNAVAILABLE, too;
//   RESOURCE_EXHAUSTED, if the server said when to come back (google.rpc.RetryInfo or
//   grpc-retry-pushback-ms);
//   INVALID_ARGUMENT, and RESOURCE_EXHAUSTED without such a word, if the server's message limit
//   turns out to have changed so that the problem now travels differently: at once, in that way.
// Never on other codes, never when the wait would reach past the deadline.
struct RetryOptions {
  int max_attempts = 5;  // of a call, for whatever reason, the first one included; 1: never repeat
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(3);
};

struct ClientOptions {
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // plaintext
  RetryOptions retry = {};
  absl::Duration connect_timeout = absl::Seconds(10);
  // Tensor bytes in one message of AttendStream, 1 to 1 GiB; fewer where the server takes less.
  std::int64_t chunk_bytes = 1 << 20;
};

// How the tensors of a call travel.
enum class CallKind : std::uint8_t {
  kAutomatic,  // one message each way if request and result fit the server's limit, else a stream
  kUnary,
  kStream,
};

struct CallOptions {
  absl::Duration timeout = absl::Seconds(60);  // for the whole call, repeats included
  CallKind kind = CallKind::kAutomatic;
};

// The tensors of a request, laid out as AttendRequest says; `mask` and `bias` only if the spec has
// their shapes. The bytes are sent from where they lie, without a copy, and must not change during
// the call.
struct AttendInputs {
  std::span<const std::byte> q = {};
  std::span<const std::byte> k = {};
  std::span<const std::byte> v = {};
  std::span<const std::byte> mask = {};
  std::span<const std::byte> bias = {};
};

// Where the result goes. A tensor left empty is put in memory that the reply owns; one that is
// given must have exactly the size of the result, and its contents are undefined if the call fails.
struct AttendDestination {
  std::span<std::byte> out = {};
  std::span<std::byte> lse = {};
  std::span<std::byte> probs = {};
};

struct AttendReply {
  v1::AttendResult result;  // type of out, kernel, server timings, diagnostics
  TensorBytes out;          // layouts as in AttendResponse
  TensorBytes lse;          // empty unless asked for
  TensorBytes probs;        // empty unless asked for

  double round_trip_seconds = 0;  // of the attempt that succeeded, as this client saw it
  int attempts = 1;               // all that were made, in whatever way they travelled
  bool streamed = false;
};

// Partial results to combine, laid out as MergeRequest says; sent from where they lie.
struct MergeInputs {
  std::int64_t num_parts = 0;
  std::int64_t rows = 0;
  std::int64_t head_dim_v = 0;
  std::span<const std::byte> out = {};
  std::span<const std::byte> lse = {};
  v1::DataType out_dtype = v1::DATA_TYPE_FLOAT32;
};

struct MergeReply {
  TensorBytes out;  // [rows, head_dim_v] in out_dtype
  TensorBytes lse;  // [rows], float32
  v1::Timings timings = {};
};

// A connection to one server. Thread-safe: calls may be made from any number of threads at once and
// share the connection; programs that move gigabytes a second use several clients, each of which
// has a connection of its own.
//
// Errors keep the server's code and text; each detail that the server attached
// (google.rpc.BadRequest, RetryInfo, ...) is a payload of the absl::Status under its type URL.
//
// A call returns when gRPC has let go of the input bytes. That is at once, except after a deadline
// that passes while the peer takes no more bytes: then it is when the connection drains or its
// keepalive (at most 80 s) ends it.
class Client {
 public:
  // Connects to `target` (a gRPC name such as "host:8001", "unix:/run/attnd.sock" or
  // "dns:///name:8001") and asks the server for its limits. InvalidArgument for options out of
  // range; else the code of that call, Unavailable if nothing answers.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target,
                                                         const ClientOptions& options = {});

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Computes one attention problem of any size. The server checks the spec; this client only
  // refuses a destination whose size is wrong (InvalidArgument) and an answer that does not fit the
  // question (Internal). Where a refusal may be about the size of a message that the limit, when
  // last asked for, allowed, the server is asked for it again: it may have been restarted with a
  // smaller one. An overloaded server, which says when to come back, is not.
  absl::StatusOr<AttendReply> Attend(const v1::AttentionSpec& spec, const AttendInputs& inputs,
                                     const CallOptions& call = {},
                                     const AttendDestination& destination = {});

  // Combines partial results in the order given. They must fit one message of the server that is
  // there now: InvalidArgument if they do not. Its limit is asked for again as by Attend, and
  // before a merge is refused that does not fit the limit last known.
  absl::StatusOr<MergeReply> Merge(const MergeInputs& inputs, const CallOptions& call = {});

  // Asks the server anew, and takes over its limits.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& call = {});

 private:
  Client(const std::shared_ptr<grpc::Channel>& channel, const ClientOptions& options);

  absl::StatusOr<grpc::ByteBuffer> CallUnary(const char* method, const grpc::ByteBuffer& request,
                                             internal::Attempts& attempts);
  struct Question;
  struct Transfer;

  // Asks in the way that `transfer` says, with repeats while attempts are left.
  absl::StatusOr<AttendReply> AttendBy(const Transfer& transfer, const Question& question,
                                       internal::Attempts& attempts);
  absl::StatusOr<v1::GetServerInfoResponse> AskForServerInfo(internal::Attempts& attempts);
  // After failed attempts whose largest message held `sent_bytes` of tensors: asks for the server's
  // limit, once, if it may be the reason. False if it was not asked or did not answer.
  bool AskedForLimitAfter(const internal::Attempts& attempts, std::int64_t sent_bytes);
  absl::Status MergeTooLarge(std::int64_t request_bytes) const;
  Transfer ChooseTransfer(CallKind kind, std::int64_t largest_bytes) const;
  bool FitsOneMessage(std::int64_t largest_bytes) const;

  const ClientOptions options_;
  grpc::GenericStub stub_;
  std::atomic<std::int64_t> max_message_bytes_{0};
};

}  // namespace attnd
