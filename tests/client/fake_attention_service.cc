#include "tests/client/fake_attention_service.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attnd::testing {
namespace {

constexpr std::size_t kSentChunkBytes = 1000;
// As the server accepts beyond its limit, for what surrounds tensors.
constexpr std::int64_t kMessageOverheadBytes = 64 << 10;

// A message with one length-delimited field.
std::string OneField(int number, const std::string& contents) {
  std::string bytes;
  google::protobuf::io::StringOutputStream sink(&bytes);
  google::protobuf::io::CodedOutputStream out(&sink);
  out.WriteTag(static_cast<std::uint32_t>(number) << 3 | 2);
  out.WriteVarint32(contents.size());
  out.WriteString(contents);
  out.Trim();
  return bytes;
}

v1::AttendResponse Answer(const v1::AttendRequest& request) {
  const v1::AttentionSpec& spec = request.spec();
  v1::AttendResponse response;
  response.set_out(request.q());
  const std::int64_t rows = spec.batch_size() * spec.num_heads() * spec.seqlen_q();
  if (spec.return_lse()) {
    std::vector<float> lse(rows);
    for (std::int64_t i = 0; i < rows; ++i) lse[i] = static_cast<float>(i);
    response.set_lse(lse.data(), lse.size() * sizeof(float));
  }
  if (spec.return_probs()) response.set_probs(std::string(rows * spec.seqlen_k() * 4, '\1'));
  v1::AttendResult& result = *response.mutable_result();
  result.set_out_dtype(spec.dtype());
  result.set_out_bytes(response.out().size());
  result.set_lse_bytes(response.lse().size());
  result.set_probs_bytes(response.probs().size());
  result.set_kernel("fake");
  result.mutable_timings()->set_compute_seconds(0.25);
  return response;
}

std::string& TensorOf(v1::AttendRequest& request, v1::TensorId id) {
  switch (id) {
    case v1::TENSOR_ID_Q:
      return *request.mutable_q();
    case v1::TENSOR_ID_K:
      return *request.mutable_k();
    case v1::TENSOR_ID_V:
      return *request.mutable_v();
    case v1::TENSOR_ID_MASK:
      return *request.mutable_mask();
    default:
      return *request.mutable_bias();
  }
}

// The messages that AttendStream answers with.
std::vector<v1::AttendStreamResponse> Messages(const v1::AttendResponse& answer,
                                               std::size_t chunk_bytes) {
  std::vector<v1::AttendStreamResponse> messages(1);
  *messages[0].mutable_result() = answer.result();
  const std::pair<v1::TensorId, const std::string*> tensors[] = {
      {v1::TENSOR_ID_OUT, &answer.out()},
      {v1::TENSOR_ID_LSE, &answer.lse()},
      {v1::TENSOR_ID_PROBS, &answer.probs()}};
  for (const auto& [id, bytes] : tensors) {
    for (std::size_t offset = 0; offset < bytes->size(); offset += chunk_bytes) {
      v1::TensorChunk& chunk = *messages.emplace_back().mutable_chunk();
      chunk.set_tensor(id);
      chunk.set_offset_bytes(static_cast<std::int64_t>(offset));
      chunk.set_data(bytes->substr(offset, chunk_bytes));
    }
  }
  return messages;
}

}  // namespace

std::string StatusDetails(const std::string& type_url, const std::string& value) {
  google::protobuf::Any detail;
  detail.set_type_url(type_url);
  detail.set_value(value);
  return OneField(3, detail.SerializeAsString());
}

std::string RetryInfoDetails(std::int64_t seconds, std::int32_t nanos) {
  google::protobuf::Duration delay;
  delay.set_seconds(seconds);
  delay.set_nanos(nanos);
  return StatusDetails("type.googleapis.com/google.rpc.RetryInfo",
                       OneField(1, delay.SerializeAsString()));
}

void FakeAttentionService::RefuseNext(std::vector<Refusal> refusals) {
  absl::MutexLock lock(&mutex_);
  for (Refusal& refusal : refusals) refusals_.push_back(std::move(refusal));
}

void FakeAttentionService::HoldCalls() {
  absl::MutexLock lock(&mutex_);
  held_ = true;
}

void FakeAttentionService::ReleaseCalls() {
  absl::MutexLock lock(&mutex_);
  held_ = false;
}

void FakeAttentionService::TamperWith(std::function<bool(v1::AttendStreamResponse&)> tamper) {
  absl::MutexLock lock(&mutex_);
  tamper_ = std::move(tamper);
}

void FakeAttentionService::FailAfterHeader(grpc::Status status) {
  absl::MutexLock lock(&mutex_);
  after_header_ = std::move(status);
}

void FakeAttentionService::SetMaxMessageBytes(std::int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  max_message_bytes_ = bytes;
}

grpc::Status FakeAttentionService::CheckSize(std::size_t message_bytes) const {
  absl::MutexLock lock(&mutex_);
  const std::int64_t accepted = max_message_bytes_ + kMessageOverheadBytes;
  if (static_cast<std::int64_t>(message_bytes) <= accepted) return grpc::Status::OK;
  return {grpc::StatusCode::INVALID_ARGUMENT,
          absl::StrCat("message: is of ", message_bytes, " bytes, accepted: at most ", accepted)};
}

int FakeAttentionService::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

int FakeAttentionService::info_calls() const {
  absl::MutexLock lock(&mutex_);
  return info_calls_;
}

v1::AttendRequest FakeAttentionService::last_request() const {
  absl::MutexLock lock(&mutex_);
  return last_request_;
}

std::vector<std::int64_t> FakeAttentionService::last_chunk_sizes() const {
  absl::MutexLock lock(&mutex_);
  return last_chunk_sizes_;
}

grpc::Status FakeAttentionService::BeginCall(grpc::ServerContext* context) {
  absl::MutexLock lock(&mutex_);
  ++calls_;
  mutex_.Await(absl::Condition(
      +[](bool* held) { return !*held; }, &held_));
  if (refusals_.empty()) return grpc::Status::OK;
  const Refusal refusal = refusals_.front();
  refusals_.pop_front();
  if (!refusal.pushback_ms.empty()) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", refusal.pushback_ms);
  }
  return refusal.status;
}

grpc::Status FakeAttentionService::Attend(grpc::ServerContext* context,
                                          const v1::AttendRequest* request,
                                          v1::AttendResponse* response) {
  if (grpc::Status status = BeginCall(context); !status.ok()) return status;
  if (grpc::Status status = CheckSize(request->ByteSizeLong()); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  last_request_ = *request;
  *response = Answer(*request);
  if (tamper_ == nullptr) return grpc::Status::OK;
  for (v1::AttendStreamResponse& message : Messages(*response, response->ByteSizeLong())) {
    tamper_(message);
    if (message.has_result()) *response->mutable_result() = message.result();
    if (message.chunk().tensor() == v1::TENSOR_ID_OUT) response->set_out(message.chunk().data());
  }
  return grpc::Status::OK;
}

grpc::Status FakeAttentionService::AttendStream(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::AttendStreamResponse, v1::AttendStreamRequest>* stream) {
  if (grpc::Status status = BeginCall(context); !status.ok()) return status;
  v1::AttendRequest request;
  std::vector<std::int64_t> chunk_sizes;
  v1::AttendStreamRequest message;
  while (stream->Read(&message)) {
    if (grpc::Status status = CheckSize(message.ByteSizeLong()); !status.ok()) return status;
    if (message.has_header()) {
      *request.mutable_spec() = message.header();
      continue;
    }
    const v1::TensorChunk& chunk = message.chunk();
    std::string& tensor = TensorOf(request, chunk.tensor());
    tensor.resize(std::max(tensor.size(), chunk.offset_bytes() + chunk.data().size()));
    std::memcpy(tensor.data() + chunk.offset_bytes(), chunk.data().data(), chunk.data().size());
    chunk_sizes.push_back(static_cast<std::int64_t>(chunk.data().size()));
  }
  absl::MutexLock lock(&mutex_);
  last_request_ = request;
  last_chunk_sizes_ = chunk_sizes;
  for (v1::AttendStreamResponse& response : Messages(Answer(request), kSentChunkBytes)) {
    if (response.has_chunk() && !after_header_.ok()) return after_header_;
    if (tamper_ == nullptr || tamper_(response)) stream->Write(response);
  }
  return grpc::Status::OK;
}

grpc::Status FakeAttentionService::Merge(grpc::ServerContext* context,
                                         const v1::MergeRequest* request,
                                         v1::MergeResponse* response) {
  if (grpc::Status status = BeginCall(context); !status.ok()) return status;
  if (grpc::Status status = CheckSize(request->ByteSizeLong()); !status.ok()) return status;
  response->set_out(request->out().substr(0, request->rows() * request->head_dim_v() * 4));
  response->set_lse(request->lse().substr(0, request->rows() * 4));
  response->mutable_timings()->set_compute_seconds(0.25);
  return grpc::Status::OK;
}

grpc::Status FakeAttentionService::GetServerInfo(grpc::ServerContext*,
                                                 const v1::GetServerInfoRequest*,
                                                 v1::GetServerInfoResponse* response) {
  absl::MutexLock lock(&mutex_);
  ++info_calls_;
  response->set_version("fake 1");
  response->set_backend("cpu");
  response->set_max_message_bytes(max_message_bytes_);
  return grpc::Status::OK;
}

FakeServer::FakeServer(grpc::Service& service) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  server_ = builder.BuildAndStart();
  target_ = absl::StrCat("127.0.0.1:", port);
}

FakeServer::~FakeServer() {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

}  // namespace attnd::testing
