#include "server/telemetry/metrics.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kernel_registry.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BuildInfo TestBuild() { return {"1.2.3", "cpu", "test device"}; }

TEST(MetricsTest, BuildInfoCarriesWhatRuns) {
  Metrics metrics(TestBuild());
  const std::string text = metrics.TextExposition();
  EXPECT_THAT(text, HasSubstr("attnd_build_info{"));
  EXPECT_THAT(text, HasSubstr("version=\"1.2.3\""));
  EXPECT_THAT(text, HasSubstr("device=\"test device\""));
}

TEST(MetricsTest, FinishedRequestsAreCountedByMethodAndCode) {
  Metrics metrics(TestBuild());
  metrics.RequestFinished(Method::kAttend, absl::StatusCode::kOk, 0.001);
  metrics.RequestFinished(Method::kAttend, absl::StatusCode::kOk, 0.001);
  metrics.RequestFinished(Method::kMerge, absl::StatusCode::kInvalidArgument, 0.001);
  const std::string text = metrics.TextExposition();
  EXPECT_THAT(text, HasSubstr("attnd_requests_total{code=\"OK\",method=\"Attend\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("attnd_requests_total{code=\"INVALID_ARGUMENT\",method=\"Merge\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("attnd_request_seconds_count{method=\"Attend\"} 2\n"));
}

TEST(MetricsTest, CountersThatSawNothingAreExportedAsZero) {
  Metrics metrics(TestBuild());
  const std::string text = metrics.TextExposition();
  EXPECT_THAT(
      text,
      HasSubstr("attnd_requests_total{code=\"UNAUTHENTICATED\",method=\"AttendStream\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("attnd_rejected_total{reason=\"queue_full\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("attnd_transport_bytes_total{direction=\"in\",transport=\"grpc\"} 0\n"));
}

TEST(MetricsTest, LatencyBucketsDoubleFrom25MicrosecondsTo13Seconds) {
  Metrics metrics(TestBuild());
  metrics.RequestFinished(Method::kAttend, absl::StatusCode::kOk, 30e-6);
  metrics.RequestFinished(Method::kAttend, absl::StatusCode::kOk, 100);
  const std::string text = metrics.TextExposition();
  EXPECT_THAT(text,
              HasSubstr("attnd_request_seconds_bucket{method=\"Attend\",le=\"2.5e-05\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("attnd_request_seconds_bucket{method=\"Attend\",le=\"5e-05\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("attnd_request_seconds_bucket{method=\"Attend\",le=\"13.1072\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("attnd_request_seconds_bucket{method=\"Attend\",le=\"+Inf\"} 2\n"));
}

TEST(MetricsTest, RejectionsAndBytesLandUnderTheirLabels) {
  Metrics metrics(TestBuild());
  metrics.RequestRejected(RejectReason::kQueueFull);
  metrics.RequestRejected(RejectReason::kUnhealthy);
  metrics.TransportBytes(Direction::kOut, Transport::kGrpc, 1 << 20);
  const std::string text = metrics.TextExposition();
  EXPECT_THAT(text, HasSubstr("attnd_rejected_total{reason=\"queue_full\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("attnd_rejected_total{reason=\"unhealthy\"} 1\n"));
  EXPECT_THAT(
      text,
      HasSubstr("attnd_transport_bytes_total{direction=\"out\",transport=\"grpc\"} 1048576\n"));
}

TEST(MetricsTest, AComputedProblemFillsStagesKernelFlopsAndBytes) {
  Metrics metrics(TestBuild());
  const std::string kernel(ImplementationsFor(Backend::kCpu).front().name);
  metrics.ProblemComputed({.kernel = kernel,
                           .seconds = {.queue = 1, .copy_in = 2, .compute = 4, .copy_out = 8},
                           .flops = 1000,
                           .tensor_bytes = 600,
                           .copied_in_bytes = 400,
                           .copied_out_bytes = 200});
  const std::string text = metrics.TextExposition();
  EXPECT_THAT(text, HasSubstr("attnd_queue_seconds_sum 1\n"));
  EXPECT_THAT(text, HasSubstr("attnd_copy_in_seconds_sum 2\n"));
  EXPECT_THAT(text, HasSubstr("attnd_compute_seconds_sum 4\n"));
  EXPECT_THAT(text, HasSubstr("attnd_copy_out_seconds_sum 8\n"));
  EXPECT_THAT(text, HasSubstr("attnd_flops_total 1000\n"));
  EXPECT_THAT(text, HasSubstr("attnd_achieved_flops_per_second 250\n"));
  EXPECT_THAT(text, HasSubstr("attnd_tensor_bytes_total 600\n"));
  EXPECT_THAT(text, HasSubstr("attnd_achieved_bytes_per_second 150\n"));
  EXPECT_THAT(text, HasSubstr("attnd_copy_bytes_total{direction=\"in\"} 400\n"));
  EXPECT_THAT(text, HasSubstr("attnd_copy_bytes_total{direction=\"out\"} 200\n"));
  EXPECT_THAT(text, HasSubstr("attnd_kernel_runs_total{kernel=\"" + kernel + "\"} 1\n"));
}

TEST(MetricsTest, LiveReadingsAreTakenAtEachScrape) {
  Metrics metrics(TestBuild());
  std::int64_t used = 7;
  metrics.SetLiveSource([&used] {
    return LiveReadings{
        .pools = {{"staging", 100, 50, used, 90}}, .requests_in_flight = 3, .queue_length = 4};
  });
  EXPECT_THAT(metrics.TextExposition(),
              HasSubstr("attnd_pool_bytes{pool=\"staging\",state=\"used\"} 7\n"));
  used = 8;
  const std::string text = metrics.TextExposition();
  EXPECT_THAT(text, HasSubstr("attnd_pool_bytes{pool=\"staging\",state=\"used\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("attnd_pool_bytes{pool=\"staging\",state=\"capacity\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("attnd_pool_bytes{pool=\"staging\",state=\"reserved\"} 50\n"));
  EXPECT_THAT(text, HasSubstr("attnd_pool_bytes{pool=\"staging\",state=\"high_water\"} 90\n"));
  EXPECT_THAT(text, HasSubstr("attnd_requests_in_flight 3\n"));
  EXPECT_THAT(text, HasSubstr("attnd_queue_length 4\n"));
  EXPECT_THAT(text, HasSubstr("attnd_device_healthy 1\n"));
  metrics.SetLiveSource(nullptr);
  EXPECT_THAT(metrics.TextExposition(), Not(HasSubstr("attnd_pool_bytes")));
}

TEST(MetricsTest, RpcReadingsAreTakenAtEachScrape) {
  Metrics metrics(TestBuild());
  std::int64_t waiting = 5;
  metrics.SetRpcSource([&waiting] {
    return RpcReadings{.waiting_request_bytes = waiting, .sending_result_bytes = 11};
  });
  EXPECT_THAT(metrics.TextExposition(), HasSubstr("attnd_waiting_request_bytes 5\n"));
  waiting = 6;
  EXPECT_THAT(metrics.TextExposition(), HasSubstr("attnd_waiting_request_bytes 6\n"));
  EXPECT_THAT(metrics.TextExposition(), HasSubstr("attnd_sending_result_bytes 11\n"));
  metrics.SetRpcSource(nullptr);
  EXPECT_THAT(metrics.TextExposition(), Not(HasSubstr("attnd_waiting_request_bytes")));
}

TEST(MetricsTest, NothingIsLostWhenThreadsCountAtOnce) {
  Metrics metrics(TestBuild());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 1000; ++i)
        metrics.RequestFinished(Method::kAttend, absl::StatusCode::kOk, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(metrics.TextExposition(),
              HasSubstr("attnd_requests_total{code=\"OK\",method=\"Attend\"} 4000\n"));
}

}  // namespace
}  // namespace attnd
