// The real process seen from outside: how it starts, answers probes, drains and ends.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "attnd/v1/attention.grpc.pb.h"
#include "health.grpc.pb.h"
#include "tests/testing/daemon_process.h"
#include "tests/testing/http_get.h"
#include "tests/testing/protobuf_json.h"
#include "tests/testing/thread_limit.h"

namespace attnd {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::DaemonProcess;
using testing::Ended;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HttpGet;
using ::testing::StartsWith;

constexpr char kServiceName[] = "attnd.v1.AttentionService";

// Where a test may write.
std::string TestPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/",
                      ::testing::UnitTest::GetInstance()->current_test_info()->name(), ".", name);
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '\n');
  return lines.back();
}

grpc::Status Check(DaemonProcess& daemon, const std::string& service,
                   HealthCheckResponse* response) {
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service(service);
  return Health::NewStub(daemon.NewChannel())->Check(&context, request, response);
}

// One query that sees two keys, fp32, head_dim 8: 32 bytes of q, 64 of k and of v.
v1::AttentionSpec SmallSpec() {
  v1::AttentionSpec spec;
  spec.set_batch_size(1);
  spec.set_seqlen_q(1);
  spec.set_seqlen_k(2);
  spec.set_num_heads(1);
  spec.set_head_dim(8);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  return spec;
}

grpc::Status Attend(const std::shared_ptr<grpc::Channel>& channel, v1::AttendResponse* response) {
  grpc::ClientContext context;
  v1::AttendRequest request;
  *request.mutable_spec() = SmallSpec();
  request.set_q(std::string(32, '\0'));
  request.set_k(std::string(64, '\0'));
  request.set_v(std::string(64, '\0'));
  return v1::AttentionService::NewStub(channel)->Attend(&context, request, response);
}

grpc::Status Attend(DaemonProcess& daemon, v1::AttendResponse* response) {
  return Attend(daemon.NewChannel(), response);
}

// An AttendStream whose header the server has taken and whose v it lacks: a call in flight for as
// long as a test likes.
class UnfinishedStream {
 public:
  explicit UnfinishedStream(DaemonProcess& daemon)
      : stub_(v1::AttentionService::NewStub(daemon.NewChannel())),
        stream_(stub_->AttendStream(&context_)) {
    v1::AttendStreamRequest header;
    *header.mutable_header() = SmallSpec();
    EXPECT_TRUE(stream_->Write(header));
    SendChunk(v1::TENSOR_ID_Q, 32);
    SendChunk(v1::TENSOR_ID_K, 64);
    WaitUntilInFlight(daemon);
  }

  void SendRest() {
    SendChunk(v1::TENSOR_ID_V, 64);
    stream_->WritesDone();
  }

  // Reads to the end.
  grpc::Status Finish(std::int64_t* out_bytes) {
    v1::AttendStreamResponse response;
    *out_bytes = 0;
    while (stream_->Read(&response)) *out_bytes += response.chunk().data().size();
    return stream_->Finish();
  }

 private:
  void SendChunk(v1::TensorId tensor, std::size_t size) {
    v1::AttendStreamRequest request;
    request.mutable_chunk()->set_tensor(tensor);
    request.mutable_chunk()->set_data(std::string(size, '\0'));
    EXPECT_TRUE(stream_->Write(request));
  }

  // The server counts what it has admitted.
  static void WaitUntilInFlight(DaemonProcess& daemon) {
    for (int scrape = 0; scrape < 10'000; ++scrape) {
      const std::string metrics = HttpGet(daemon.http_port(), "/metrics").body;
      if (metrics.find("\nattnd_requests_in_flight 1") != std::string::npos) return;
    }
    FAIL() << "the stream was never in flight";
  }

  grpc::ClientContext context_;
  std::unique_ptr<v1::AttentionService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttendStreamRequest, v1::AttendStreamResponse>>
      stream_;
};

TEST(DaemonTest, ServesOnFreePortsAndStopsCleanlyOnEitherSignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    DaemonProcess daemon;
    ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
    EXPECT_GT(daemon.grpc_port(), 0);
    EXPECT_GT(daemon.http_port(), 0);
    v1::AttendResponse response;
    const grpc::Status status = Attend(daemon, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.out(), std::string(32, '\0'));
    daemon.Signal(signal);
    const Ended ended = daemon.Wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("info draining"), EndsWith("info server stopped\n")));
  }
}

TEST(DaemonTest, HttpServesProbesAndMetrics) {
  DaemonProcess daemon;
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  EXPECT_EQ(HttpGet(daemon.http_port(), "/healthz").code, 200);
  EXPECT_EQ(HttpGet(daemon.http_port(), "/readyz").code, 200);
  v1::AttendResponse response;
  ASSERT_TRUE(Attend(daemon, &response).ok());
  EXPECT_THAT(HttpGet(daemon.http_port(), "/metrics").body,
              AllOf(ContainsRegex("\nattnd_build_info\\{.*version=\"0\\.1\\.0\".*\\} 1\n"),
                    ContainsRegex("\nattnd_requests_total\\{.*Attend.*\\} 1\n")));
}

TEST(DaemonTest, HealthKnowsTheServerAndItsService) {
  DaemonProcess daemon;
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  HealthCheckResponse response;
  for (const char* service : {"", kServiceName}) {
    ASSERT_TRUE(Check(daemon, service, &response).ok()) << service;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
  EXPECT_EQ(Check(daemon, "nobody", &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(DaemonTest, AHealthWatchSeesTheDrainAndDoesNotHoldItUp) {
  DaemonProcess daemon({"--drain-timeout=1h"});
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  const auto stub = Health::NewStub(daemon.NewChannel());
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(daemon.Wait().exit_code, 0);
}

TEST(DaemonTest, ADrainBeginsWithReadinessWhileEverythingIsStillServed) {
  DaemonProcess daemon({"--drain-delay=1h"});
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  const auto stub = Health::NewStub(daemon.NewChannel());
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HttpGet(daemon.http_port(), "/readyz").code, 503);
  EXPECT_EQ(HttpGet(daemon.http_port(), "/healthz").code, 200);
  v1::AttendResponse response;
  EXPECT_TRUE(Attend(daemon, &response).ok());

  daemon.Signal(SIGTERM);
  const Ended ended = daemon.Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(LastLine(ended.err), HasSubstr("server stopped"));
}

TEST(DaemonTest, ASecondSignalCutsShortWhatIsInFlight) {
  for (const char* stage : {"--drain-delay=1h", "--drain-timeout=1h"}) {
    DaemonProcess daemon({stage});
    ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
    const UnfinishedStream stream(daemon);
    daemon.Signal(SIGTERM);
    ASSERT_TRUE(daemon.WaitForLog("draining"));
    daemon.Signal(SIGTERM);
    const Ended ended = daemon.Wait();
    EXPECT_EQ(ended.exit_code, 4) << ended.err;
    EXPECT_THAT(LastLine(ended.err),
                HasSubstr("drain cut short reason=\"second signal\" requests_in_flight=1"));
  }
}

TEST(DaemonTest, ADrainFinishesWhatIsInFlightAndRefusesWhatIsNew) {
  DaemonProcess daemon({"--drain-timeout=1h"});
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  UnfinishedStream stream(daemon);
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(daemon.WaitForLog("refusing new requests"));
  v1::AttendResponse response;
  const grpc::Status refused = Attend(daemon, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr("shutting down"));

  stream.SendRest();
  std::int64_t out_bytes = 0;
  const grpc::Status status = stream.Finish(&out_bytes);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(out_bytes, 32);
  const Ended ended = daemon.Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
}

TEST(DaemonTest, AnIdleServerRefusesForAMomentBeforeItCloses) {
  DaemonProcess daemon;
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  const std::shared_ptr<grpc::Channel> channel = daemon.NewChannel();
  v1::AttendResponse response;
  ASSERT_TRUE(Attend(channel, &response).ok());
  daemon.Signal(SIGTERM);
  grpc::Status status;
  while (status.ok()) status = Attend(channel, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("shutting down"));
  EXPECT_EQ(daemon.Wait().exit_code, 0);
}

TEST(DaemonTest, WhatIsInFlightAtTheDrainTimeoutIsCancelled) {
  DaemonProcess daemon({"--drain-timeout=100ms"});
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  UnfinishedStream stream(daemon);
  daemon.Signal(SIGTERM);
  std::int64_t out_bytes = 0;
  const grpc::Status status = stream.Finish(&out_bytes);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(out_bytes, 0);
  const Ended ended = daemon.Wait();
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_THAT(ended.err,
              HasSubstr("drain cut short reason=\"drain timeout\" requests_in_flight=1"));
}

TEST(DaemonTest, AClientThatGoesAwayDoesNotEndTheServer) {
  DaemonProcess daemon;
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  { UnfinishedStream abandoned(daemon); }
  v1::AttendResponse response;
  EXPECT_TRUE(Attend(daemon, &response).ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait().exit_code, 0);
}

TEST(DaemonTest, ATakenGrpcPortIsAClearError) {
  DaemonProcess first;
  ASSERT_TRUE(first.running()) << first.Wait().err;
  const Ended second =
      DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(),
                               absl::StrCat("--grpc-port=", first.grpc_port()), "--http-port=0"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(LastLine(second.err),
              HasSubstr(absl::StrCat("cannot listen on 127.0.0.1:", first.grpc_port(),
                                     ": Address already in use (--bind-address, --grpc-port)")));
}

TEST(DaemonTest, ATakenHttpPortIsAClearError) {
  DaemonProcess first;
  ASSERT_TRUE(first.running()) << first.Wait().err;
  const Ended second = DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(), "--grpc-port=0",
                                                absl::StrCat("--http-port=", first.http_port())});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(LastLine(second.err),
              HasSubstr(absl::StrCat("cannot listen on 127.0.0.1:", first.http_port(),
                                     ": Address already in use (--http-address, --http-port)")));
}

TEST(DaemonTest, AnAddressOfAnotherMachineIsAClearError) {
  const Ended ended =
      DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(), "--bind-address=192.0.2.1"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(LastLine(ended.err),
              HasSubstr("cannot listen on 192.0.2.1:8001: Cannot assign requested address"));
}

TEST(DaemonTest, AUnixSocketServesAlone) {
  const std::string path = TestPath("sock");
  DaemonProcess daemon({"--grpc-port=-1", absl::StrCat("--unix-socket=", path)});
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  EXPECT_EQ(daemon.grpc_port(), -1);
  const auto stub = v1::AttentionService::NewStub(
      grpc::CreateChannel(absl::StrCat("unix:", path), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  const grpc::Status status = stub->GetServerInfo(&context, {}, &info);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(info.version(), "0.1.0");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait().exit_code, 0);
}

TEST(DaemonTest, AUnixSocketInUseIsNotTakenOver) {
  const std::string path = TestPath("sock");
  DaemonProcess first({absl::StrCat("--unix-socket=", path)});
  ASSERT_TRUE(first.running()) << first.Wait().err;
  const Ended second =
      DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(), "--grpc-port=-1", "--http-port=0",
                               absl::StrCat("--unix-socket=", path)});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(LastLine(second.err),
              HasSubstr(absl::StrCat("cannot listen on ", path,
                                     ": Address already in use (--unix-socket)")));
}

TEST(DaemonTest, AUnixSocketLeftBehindIsTakenOver) {
  const std::string path = TestPath("sock");
  {
    DaemonProcess killed({absl::StrCat("--unix-socket=", path)});
    ASSERT_TRUE(killed.running()) << killed.Wait().err;
    killed.Signal(SIGKILL);
    EXPECT_EQ(killed.Wait().exit_code, -1);
  }
  struct stat left_behind = {};
  ASSERT_EQ(stat(path.c_str(), &left_behind), 0);
  DaemonProcess next({absl::StrCat("--unix-socket=", path)});
  EXPECT_TRUE(next.running()) << next.Wait().err;
}

TEST(DaemonTest, AUnixSocketReplacesNoFile) {
  const std::string path = TestPath("file");
  std::ofstream(path) << "precious";
  const Ended ended =
      DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(), "--grpc-port=-1", "--http-port=0",
                               absl::StrCat("--unix-socket=", path)});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(LastLine(ended.err), HasSubstr("it exists and is no socket"));
  EXPECT_EQ(ReadWholeFile(path), "precious");
}

TEST(DaemonTest, AUnixSocketInAMissingFolderIsAClearError) {
  const Ended ended = DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(), "--grpc-port=-1",
                                               "--http-port=0", "--unix-socket=/nonexistent/sock"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("No such file or directory"));
  EXPECT_THAT(LastLine(ended.err), HasSubstr("cannot serve gRPC on /nonexistent/sock; "));
}

TEST(DaemonTest, ThePortFileHoldsBothPorts) {
  const std::string path = TestPath("ports");
  DaemonProcess daemon({absl::StrCat("--port-file=", path)});
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  EXPECT_EQ(ReadWholeFile(path), absl::StrCat("grpc_port=", daemon.grpc_port(),
                                              "\nhttp_port=", daemon.http_port(), "\n"));
}

TEST(DaemonTest, AnEarlierPortFileDoesNotOutliveAFailedStart) {
  DaemonProcess daemon;
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  const std::string path = TestPath("earlier_ports");
  std::ofstream(path) << "grpc_port=1\nhttp_port=2\n";
  const Ended ended = DaemonProcess::RunToEnd(
      {DaemonProcess::BackendFlag(), absl::StrCat("--grpc-port=", daemon.grpc_port()),
       "--http-port=0", absl::StrCat("--port-file=", path)});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_FALSE(std::ifstream(path).good());
}

TEST(DaemonTest, APortFileThatCannotBeWrittenIsAClearError) {
  const Ended ended = DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(), "--grpc-port=0",
                                               "--http-port=0", "--port-file=/nonexistent/ports"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(LastLine(ended.err),
              HasSubstr("port_file: cannot write /nonexistent/ports: No such file or directory"));
}

TEST(DaemonTest, UsageErrorsExitWith2AndSayWhatIsWrongLast) {
  struct Case {
    std::vector<std::string> args;
    std::string error;
  };
  const std::vector<Case> cases = {
      {{"--grpc-prt=1"}, "attnd: --grpc-prt: unknown flag; did you mean --grpc-port?"},
      {{"--grpc-port=http"},
       "attnd: --grpc-port: got \"http\"; accepted: a whole number from -1 to 65535"},
      {{"--grpc-port=7000", "--http-port=7000"},
       "attnd: grpc_port and http_port are both 7000; give each a port of its own"},
      {{"--grpc-port=-1"},
       "attnd: grpc_port is -1 and unix_socket is empty; gRPC needs one of them to listen on"},
      {{"--bind-address=localhost"},
       "attnd: bind_address: got \"localhost\"; accepted: an IPv4 or IPv6 address, as 127.0.0.1, "
       "0.0.0.0 or ::1"},
      {{absl::StrCat("--unix-socket=/", std::string(107, 'x'))},
       "attnd: unix_socket: got a path of 108 bytes; accepted: at most 107"},
      {{"--config=/nonexistent"}, "attnd: /nonexistent: cannot read it: No such file or directory"},
  };
  for (const Case& c : cases) {
    const Ended ended = DaemonProcess::RunToEnd(c.args);
    EXPECT_EQ(ended.exit_code, 2) << c.args[0];
    EXPECT_EQ(LastLine(ended.err), c.error);
    EXPECT_EQ(ended.out, "");
  }
}

TEST(DaemonTest, MoreMemoryThanTheMachineHasIsASettingThatIsNotInOrder) {
  for (const std::string setting : {"device_memory_bytes", "staging_memory_bytes"}) {
    const std::string flag = absl::StrReplaceAll(setting, {{"_", "-"}});
    const Ended ended =
        DaemonProcess::RunToEnd({DaemonProcess::BackendFlag(), "--grpc-port=0", "--http-port=0",
                                 absl::StrCat("--", flag, "=9223372036854775807")});
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_THAT(LastLine(ended.err),
                HasSubstr(absl::StrCat(" error cannot start error=\"", setting,
                                       ": got 9223372036854775807; accepted here: at most ")));
  }
}

TEST(DaemonTest, ThreadsThatTheSystemRefusesExitWith3AndAreNamed) {
  if (!testing::kCanLimitThreads) GTEST_SKIP() << "sanitizers need the whole address space";
  // As much as 4096 stacks of 256 KiB take, which leaves nothing for the rest.
  constexpr std::int64_t kAddressSpace = std::int64_t{1} << 30;
  rlimit here;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &here), 0);
  if (here.rlim_max < kAddressSpace) GTEST_SKIP() << "less address space than that to begin with";
  const Ended ended = DaemonProcess::RunToEndWithin(
      kAddressSpace,
      {"--backend=cpu", "--grpc-port=0", "--http-port=0", "--device-memory-bytes=1MiB",
       "--staging-memory-bytes=1MiB", "--threads=4096"});
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_THAT(LastLine(ended.err),
              HasSubstr(" error cannot start error=\"threads: got 4096; accepted now: fewer"));
}

TEST(DaemonTest, CudaWithoutADeviceExitsWith3) {
  // No device is visible, whatever the machine has.
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  const Ended ended = DaemonProcess::RunToEnd({"--backend=cuda", "--grpc-port=0", "--http-port=0"});
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_THAT(LastLine(ended.err), HasSubstr("error cannot start error="));
}

// What suits no CUDA device, here more pinned memory than the host has, is not looked at before
// there is one.
TEST(DaemonTest, SettingsThatSuitNoCudaDeviceDoNotHideThatThereIsNone) {
  const std::int64_t host_memory_bytes =
      std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const std::string staging = absl::StrCat("--staging-memory-bytes=", 2 * host_memory_bytes);
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  const Ended cuda =
      DaemonProcess::RunToEnd({"--backend=cuda", "--grpc-port=0", "--http-port=0", staging});
  DaemonProcess automatic({"--backend=auto", staging});
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(cuda.exit_code, 3) << cuda.err;
  EXPECT_THAT(LastLine(cuda.err),
              ContainsRegex("error=\"(no usable CUDA device|this build has no CUDA backend)"));
  EXPECT_TRUE(automatic.running()) << automatic.Wait().err;
}

TEST(DaemonTest, AutoFallsBackToTheCpuAndSaysSo) {
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  DaemonProcess daemon({"--backend=auto"});
  unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  daemon.Signal(SIGTERM);
  EXPECT_THAT(daemon.Wait().err,
              AllOf(HasSubstr("no CUDA device, computing on the CPU"), HasSubstr("backend=cpu")));
}

TEST(DaemonTest, VersionAndHelpGoToStandardOutput) {
  const Ended version = DaemonProcess::RunToEnd({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out, "attnd 0.1.0\n");
  const Ended help = DaemonProcess::RunToEnd({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out,
              AllOf(StartsWith("attnd: the attention server.\n"), HasSubstr("--grpc-port=8001")));
}

TEST(DaemonTest, ThePrintedConfigurationIsTheOneInEffect) {
  const std::string path = TestPath("textproto");
  std::ofstream(path) << "log_level: \"debug\"\ngrpc_port: 7001\n";
  const Ended first =
      DaemonProcess::RunToEnd({"--config", path, "--grpc-port=7002", "--print-config"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("grpc_port: 7002\n"), HasSubstr("log_level: \"debug\"\n"),
                               HasSubstr("http_port: 8002\n")));
  std::ofstream(path) << first.out;
  EXPECT_EQ(DaemonProcess::RunToEnd({"--config", path, "--print-config"}).out, first.out);
}

TEST(DaemonTest, EveryRequestIsALineAtDebug) {
  DaemonProcess daemon({"--log-level=debug"});
  ASSERT_TRUE(daemon.running()) << daemon.Wait().err;
  v1::AttendResponse response;
  EXPECT_TRUE(Attend(daemon, &response).ok());
  daemon.Signal(SIGTERM);
  EXPECT_THAT(daemon.Wait().err,
              ContainsRegex(" debug request method=Attend code=OK seconds=[^ ]+ peer=ipv4:127"));
}

TEST(DaemonTest, JsonLogsAreOneObjectALine) {
  const Ended ended = [] {
    DaemonProcess daemon({"--log-format=json", "--log-level=debug"});
    EXPECT_TRUE(daemon.running());
    daemon.Signal(SIGTERM);
    return daemon.Wait();
  }();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  for (const absl::string_view line : absl::StrSplit(ended.err, '\n', absl::SkipEmpty())) {
    const auto json = testing::ParseJson(std::string(line));
    ASSERT_TRUE(json.has_value()) << line;
    EXPECT_TRUE(json->contains("time") && json->contains("message")) << line;
  }
}

// The reply to a request without content, which is enough to tell whether a method is served.
grpc::Status CallEmpty(DaemonProcess& daemon, const std::string& method) {
  grpc::GenericStub stub(daemon.NewChannel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST(DaemonTest, ReflectionCanBeTurnedOff) {
  constexpr char kMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  DaemonProcess with;
  ASSERT_TRUE(with.running()) << with.Wait().err;
  EXPECT_TRUE(CallEmpty(with, kMethod).ok());
  DaemonProcess without({"--no-reflection"});
  ASSERT_TRUE(without.running()) << without.Wait().err;
  EXPECT_EQ(CallEmpty(without, kMethod).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace attnd
