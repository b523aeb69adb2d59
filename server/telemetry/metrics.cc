#include "server/telemetry/metrics.h"

#include <cassert>
#include <cstddef>
#include <iterator>

#include "kernels/kernel_registry.h"
#include "prometheus/text_serializer.h"

namespace attnd {
namespace {

constexpr std::array<const char*, kNumMethods> kMethodNames = {"Attend", "AttendStream", "Merge",
                                                               "GetServerInfo"};
constexpr std::array<const char*, kNumDirections> kDirectionNames = {"in", "out"};
constexpr std::array<const char*, kNumTransports> kTransportNames = {"grpc"};
constexpr std::array<const char*, kNumRejectReasons> kRejectReasonNames = {
    "invalid",  "never_fits", "waiting_bytes", "queue_full", "queue_timeout",
    "deadline", "cancelled",  "draining",      "unhealthy"};

template <typename Enum>
constexpr std::size_t IndexOf(Enum value) {
  return static_cast<std::size_t>(value);
}

// Factor 2 from 25 us to 13 s: 20 buckets, so that one family serves a decode step and a long
// prefill.
prometheus::Histogram::BucketBoundaries LatencyBuckets() {
  prometheus::Histogram::BucketBoundaries bounds;
  for (double bound = 25e-6; bounds.size() < 20; bound *= 2) bounds.push_back(bound);
  return bounds;
}

prometheus::Histogram& AddStageHistogram(prometheus::Registry& registry, const std::string& name,
                                         const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
      {}, LatencyBuckets());
}

prometheus::Counter& AddCounter(prometheus::Registry& registry, const std::string& name,
                                const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Gauge& AddGauge(prometheus::Registry& registry, const std::string& name,
                            const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

prometheus::MetricFamily GaugeFamily(std::string name, std::string help) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = prometheus::MetricType::Gauge;
  return family;
}

void AddSample(prometheus::MetricFamily& family, double value,
               std::vector<prometheus::ClientMetric::Label> labels = {}) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  family.metric.push_back(std::move(metric));
}

prometheus::MetricFamily ScalarGauge(std::string name, std::string help, double value) {
  prometheus::MetricFamily family = GaugeFamily(std::move(name), std::move(help));
  AddSample(family, value);
  return family;
}

prometheus::MetricFamily PoolFamily(const std::vector<LiveReadings::Pool>& pools) {
  prometheus::MetricFamily family =
      GaugeFamily("attnd_pool_bytes", "Memory of a pool by state, in bytes");
  for (const LiveReadings::Pool& pool : pools) {
    const std::pair<const char*, std::int64_t> states[] = {{"capacity", pool.capacity_bytes},
                                                           {"reserved", pool.reserved_bytes},
                                                           {"used", pool.used_bytes},
                                                           {"high_water", pool.high_water_bytes}};
    for (const auto& [state, bytes] : states) {
      AddSample(family, static_cast<double>(bytes),
                {{"pool", std::string(pool.name)}, {"state", state}});
    }
  }
  return family;
}

std::vector<prometheus::MetricFamily> LiveFamilies(const LiveReadings& readings) {
  return {
      PoolFamily(readings.pools),
      ScalarGauge("attnd_requests_in_flight", "Requests that hold memory of the server",
                  static_cast<double>(readings.requests_in_flight)),
      ScalarGauge("attnd_queue_length", "Requests that wait for memory",
                  static_cast<double>(readings.queue_length)),
      ScalarGauge("attnd_device_healthy",
                  "1 while the device works, 0 from its first unrecoverable error on",
                  readings.device_healthy ? 1 : 0),
  };
}

std::vector<prometheus::MetricFamily> RpcFamilies(const RpcReadings& readings) {
  return {
      ScalarGauge("attnd_waiting_request_bytes",
                  "Bytes of requests that were received and are not yet in staging memory",
                  static_cast<double>(readings.waiting_request_bytes)),
      ScalarGauge("attnd_sending_result_bytes",
                  "Bytes of results in staging memory that are not yet sent",
                  static_cast<double>(readings.sending_result_bytes)),
  };
}

void Append(std::vector<prometheus::MetricFamily> more,
            std::vector<prometheus::MetricFamily>* families) {
  families->insert(families->end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
}

}  // namespace

const char* MethodName(Method method) { return kMethodNames[static_cast<std::size_t>(method)]; }

Metrics::Metrics(const BuildInfo& build) {
  prometheus::BuildGauge()
      .Name("attnd_build_info")
      .Help("Always 1; the labels say what runs")
      .Register(registry_)
      .Add({{"version", build.version}, {"backend", build.backend}, {"device", build.device_name}})
      .Set(1);
  AddRequestFamilies();
  AddStageFamilies();
  AddWorkFamilies();
  AddKernelRuns();
}

void Metrics::AddRequestFamilies() {
  auto& requests = prometheus::BuildCounter()
                       .Name("attnd_requests_total")
                       .Help("Finished RPCs by method and gRPC code")
                       .Register(registry_);
  auto& seconds = prometheus::BuildHistogram()
                      .Name("attnd_request_seconds")
                      .Help("Time of an RPC in the server, in seconds")
                      .Register(registry_);
  for (int m = 0; m < kNumMethods; ++m) {
    for (int code = 0; code < kNumStatusCodes; ++code) {
      const std::string code_name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
      requests_[m][code] = &requests.Add({{"method", kMethodNames[m]}, {"code", code_name}});
    }
    request_seconds_[m] = &seconds.Add({{"method", kMethodNames[m]}}, LatencyBuckets());
  }

  auto& bytes = prometheus::BuildCounter()
                    .Name("attnd_transport_bytes_total")
                    .Help("Bytes of messages received (in) and sent (out)")
                    .Register(registry_);
  for (int d = 0; d < kNumDirections; ++d) {
    for (int t = 0; t < kNumTransports; ++t) {
      transport_bytes_[d][t] =
          &bytes.Add({{"direction", kDirectionNames[d]}, {"transport", kTransportNames[t]}});
    }
  }

  auto& rejected = prometheus::BuildCounter()
                       .Name("attnd_rejected_total")
                       .Help("Requests turned away before any work was done for them")
                       .Register(registry_);
  for (int r = 0; r < kNumRejectReasons; ++r)
    rejected_[r] = &rejected.Add({{"reason", kRejectReasonNames[r]}});
}

void Metrics::AddStageFamilies() {
  queue_seconds_ =
      &AddStageHistogram(registry_, "attnd_queue_seconds",
                         "Waiting for memory and for a turn on the device, in seconds");
  copy_in_seconds_ = &AddStageHistogram(registry_, "attnd_copy_in_seconds",
                                        "Copying inputs to the device, in seconds");
  compute_seconds_ =
      &AddStageHistogram(registry_, "attnd_compute_seconds", "Computing, in seconds");
  copy_out_seconds_ = &AddStageHistogram(registry_, "attnd_copy_out_seconds",
                                         "Copying results from the device, in seconds");
}

void Metrics::AddWorkFamilies() {
  flops_ = &AddCounter(registry_, "attnd_flops_total",
                       "Floating-point operations of finished problems; divide by "
                       "attnd_compute_seconds_sum for FLOP/s");
  tensor_bytes_ = &AddCounter(registry_, "attnd_tensor_bytes_total",
                              "Bytes of inputs and results of finished problems, each counted "
                              "once; divide by attnd_compute_seconds_sum for bytes/s");
  achieved_flops_per_second_ =
      &AddGauge(registry_, "attnd_achieved_flops_per_second",
                "FLOP/s of the problem that finished last, over its time of computing");
  achieved_bytes_per_second_ =
      &AddGauge(registry_, "attnd_achieved_bytes_per_second",
                "Bytes/s of the problem that finished last, over its time of computing, counting "
                "inputs and results once");
  auto& copied = prometheus::BuildCounter()
                     .Name("attnd_copy_bytes_total")
                     .Help(
                         "Bytes copied between staging memory and the device's own; divide by "
                         "attnd_copy_in_seconds_sum or attnd_copy_out_seconds_sum for bytes/s")
                     .Register(registry_);
  for (int d = 0; d < kNumDirections; ++d)
    copy_bytes_[d] = &copied.Add({{"direction", kDirectionNames[d]}});
}

void Metrics::AddKernelRuns() {
  auto& runs = prometheus::BuildCounter()
                   .Name("attnd_kernel_runs_total")
                   .Help("Problems computed by each kernel")
                   .Register(registry_);
  for (const Backend backend : {Backend::kCpu, Backend::kCuda}) {
    for (const KernelImplementation& kernel : ImplementationsFor(backend)) {
      kernel_runs_.emplace_back(kernel.name, &runs.Add({{"kernel", std::string(kernel.name)}}));
    }
  }
}

void Metrics::RequestFinished(Method method, absl::StatusCode code, double seconds) {
  const auto code_index = IndexOf(code);
  assert(code_index < kNumStatusCodes);
  requests_[IndexOf(method)][code_index]->Increment();
  request_seconds_[IndexOf(method)]->Observe(seconds);
}

void Metrics::RequestRejected(RejectReason reason) { rejected_[IndexOf(reason)]->Increment(); }

void Metrics::TransportBytes(Direction direction, Transport transport, std::int64_t bytes) {
  transport_bytes_[IndexOf(direction)][IndexOf(transport)]->Increment(static_cast<double>(bytes));
}

void Metrics::ProblemComputed(const ComputedProblem& problem) {
  const RequestStageSeconds& seconds = problem.seconds;
  queue_seconds_->Observe(seconds.queue);
  copy_in_seconds_->Observe(seconds.copy_in);
  compute_seconds_->Observe(seconds.compute);
  copy_out_seconds_->Observe(seconds.copy_out);
  const auto tensor_bytes = static_cast<double>(problem.tensor_bytes);
  flops_->Increment(problem.flops);
  tensor_bytes_->Increment(tensor_bytes);
  copy_bytes_[IndexOf(Direction::kIn)]->Increment(static_cast<double>(problem.copied_in_bytes));
  copy_bytes_[IndexOf(Direction::kOut)]->Increment(static_cast<double>(problem.copied_out_bytes));
  if (seconds.compute > 0) {
    achieved_flops_per_second_->Set(problem.flops / seconds.compute);
    achieved_bytes_per_second_->Set(tensor_bytes / seconds.compute);
  }
  // A dozen entries: a scan is cheaper than hashing the name.
  for (const auto& [name, counter] : kernel_runs_) {
    if (name == problem.kernel) return counter->Increment();
  }
}

void Metrics::SetLiveSource(std::function<LiveReadings()> source) {
  const std::lock_guard lock(live_mu_);
  live_source_ = std::move(source);
}

void Metrics::SetRpcSource(std::function<RpcReadings()> source) {
  const std::lock_guard lock(live_mu_);
  rpc_source_ = std::move(source);
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  const std::lock_guard lock(live_mu_);
  if (live_source_) Append(LiveFamilies(live_source_()), &families);
  if (rpc_source_) Append(RpcFamilies(rpc_source_()), &families);
  return families;
}

std::string Metrics::TextExposition() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

}  // namespace attnd
