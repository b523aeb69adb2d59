// An AttentionService whose answers are a known function of the request, and which misbehaves on
// demand.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "attnd/v1/attention.grpc.pb.h"

namespace attnd::testing {

// A failure to answer a call with.
struct Refusal {
  grpc::Status status;
  std::string pushback_ms = "";  // the value of grpc-retry-pushback-ms; empty: not sent
};

// The contents of grpc-status-details-bin: a google.rpc.Status with one detail.
std::string StatusDetails(const std::string& type_url, const std::string& value);
// The same with a google.rpc.RetryInfo.
std::string RetryInfoDetails(std::int64_t seconds, std::int32_t nanos);

// out is a copy of q, lse holds 0, 1, 2, ..., probs the bytes 1, 1, 1, ...; a merge gives the first
// part back. A message larger than attnd takes under max_message_bytes is refused. Thread-safe.
class FakeAttentionService final : public v1::AttentionService::Service {
 public:
  explicit FakeAttentionService(std::int64_t max_message_bytes)
      : max_message_bytes_(max_message_bytes) {}

  // The next calls of Attend, AttendStream and Merge are refused, one for each element, before
  // anything is read.
  void RefuseNext(std::vector<Refusal> refusals);
  // From now on calls wait, before they read or answer anything, until they are released.
  void HoldCalls();
  void ReleaseCalls();
  // Changes what is sent: each response of AttendStream, or the one of Attend as its two parts.
  // Dropped if it says false.
  void TamperWith(std::function<bool(v1::AttendStreamResponse&)> tamper);
  // As if another server took its place.
  void SetMaxMessageBytes(std::int64_t bytes);
  // Ends AttendStream with `status` once the result header has been sent.
  void FailAfterHeader(grpc::Status status);

  int calls() const;                       // of Attend, AttendStream and Merge
  int info_calls() const;                  // of GetServerInfo
  v1::AttendRequest last_request() const;  // of Attend or AttendStream, whole
  std::vector<std::int64_t> last_chunk_sizes() const;

  grpc::Status Attend(grpc::ServerContext* context, const v1::AttendRequest* request,
                      v1::AttendResponse* response) override;
  grpc::Status AttendStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::AttendStreamResponse, v1::AttendStreamRequest>* stream) override;
  grpc::Status Merge(grpc::ServerContext* context, const v1::MergeRequest* request,
                     v1::MergeResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

 private:
  grpc::Status BeginCall(grpc::ServerContext* context);

  grpc::Status CheckSize(std::size_t message_bytes) const;

  mutable absl::Mutex mutex_;
  std::int64_t max_message_bytes_ ABSL_GUARDED_BY(mutex_);
  std::deque<Refusal> refusals_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<bool(v1::AttendStreamResponse&)> tamper_ ABSL_GUARDED_BY(mutex_);
  grpc::Status after_header_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int info_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::AttendRequest last_request_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::int64_t> last_chunk_sizes_ ABSL_GUARDED_BY(mutex_);
};

// Serves `service` on a free port of the loopback device while it lives.
class FakeServer {
 public:
  explicit FakeServer(grpc::Service& service);
  ~FakeServer();
  const std::string& target() const { return target_; }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

}  // namespace attnd::testing
