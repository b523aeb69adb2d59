// Every metric family of the server, in one place. Names begin with attnd_, units are base units,
// and labels come from short fixed lists: shapes and request ids are never labels.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace attnd {

enum class Method : std::uint8_t { kAttend, kAttendStream, kMerge, kGetServerInfo };
enum class Direction : std::uint8_t { kIn, kOut };
enum class Transport : std::uint8_t { kGrpc };

// Why a request was turned away before any work was done for it.
enum class RejectReason : std::uint8_t {
  kInvalid,       // not in order: its fields, their bytes, its chunks
  kNeverFits,     // larger than the memory budgets
  kWaitingBytes,  // the requests that wait for memory hold too many bytes already
  kQueueFull,     // too many requests wait already
  kQueueTimeout,  // waited for memory as long as the server lets a request wait
  kDeadline,      // its own deadline passed while it waited
  kCancelled,     // its caller gave up while it waited
  kDraining,
  kUnhealthy,
};

inline constexpr int kNumMethods = 4;
inline constexpr int kNumDirections = 2;
inline constexpr int kNumTransports = 1;
inline constexpr int kNumRejectReasons = 9;
inline constexpr int kNumStatusCodes = 17;  // OK to UNAUTHENTICATED, as in gRPC

// As in the label `method`: "Attend".
const char* MethodName(Method method);

// What attnd_build_info says.
struct BuildInfo {
  std::string version;
  std::string backend;  // "cpu" or "cuda"
  std::string device_name;
};

// Where the time of one finished request went, in seconds.
struct RequestStageSeconds {
  double queue = 0;
  double copy_in = 0;
  double compute = 0;
  double copy_out = 0;
};

// What one finished problem was.
struct ComputedProblem {
  std::string_view kernel;  // KernelImplementation::name
  RequestStageSeconds seconds;
  double flops = 0;
  // Inputs and results, each once, read or not.
  std::int64_t tensor_bytes = 0;
  // From staging memory to the device's own and back; 0 where they are the same.
  std::int64_t copied_in_bytes = 0;
  std::int64_t copied_out_bytes = 0;
};

// Values that somebody else keeps, read at each scrape so that they cannot drift from the truth.
struct LiveReadings {
  struct Pool {
    std::string_view name;  // "device" or "staging"
    std::int64_t capacity_bytes = 0;
    std::int64_t reserved_bytes = 0;  // promised to admitted requests
    std::int64_t used_bytes = 0;      // allocated
    std::int64_t high_water_bytes = 0;
  };
  std::vector<Pool> pools;
  std::int64_t requests_in_flight = 0;
  std::int64_t queue_length = 0;
  bool device_healthy = true;
};

// The same for what the RPC layer holds.
struct RpcReadings {
  std::int64_t waiting_request_bytes = 0;  // received and not yet in staging memory
  std::int64_t sending_result_bytes = 0;   // in staging memory, not yet sent
};

// Thread-safe. The counting methods touch metrics resolved at construction: no look-up by label and
// no registry lock on a request's path.
class Metrics : public prometheus::Collectable {
 public:
  explicit Metrics(const BuildInfo& build);

  // An RPC ended. `seconds` is its whole time in the server.
  void RequestFinished(Method method, absl::StatusCode code, double seconds);
  void RequestRejected(RejectReason reason);
  // Bytes of messages that came in or went out, framing excluded.
  void TransportBytes(Direction direction, Transport transport, std::int64_t bytes);
  void ProblemComputed(const ComputedProblem& problem);

  // `source` is called at each scrape, from the thread that scrapes; it must not scrape. An empty
  // function takes the source away: when SetLiveSource returns, the former one is not running and
  // will not be called again.
  void SetLiveSource(std::function<LiveReadings()> source);
  // As SetLiveSource.
  void SetRpcSource(std::function<RpcReadings()> source);

  // Everything, with live readings as of now. Can be handed to prometheus::Exposer.
  std::vector<prometheus::MetricFamily> Collect() const override;
  // The same in the Prometheus text format, version 0.0.4.
  std::string TextExposition() const;

 private:
  using MethodCounters = std::array<prometheus::Counter*, kNumStatusCodes>;

  void AddRequestFamilies();
  void AddStageFamilies();
  void AddWorkFamilies();
  void AddKernelRuns();

  prometheus::Registry registry_;
  std::array<MethodCounters, kNumMethods> requests_{};
  std::array<prometheus::Histogram*, kNumMethods> request_seconds_{};
  std::array<std::array<prometheus::Counter*, kNumTransports>, kNumDirections> transport_bytes_{};
  std::array<prometheus::Counter*, kNumRejectReasons> rejected_{};
  prometheus::Histogram* queue_seconds_ = nullptr;
  prometheus::Histogram* copy_in_seconds_ = nullptr;
  prometheus::Histogram* compute_seconds_ = nullptr;
  prometheus::Histogram* copy_out_seconds_ = nullptr;
  prometheus::Counter* flops_ = nullptr;
  prometheus::Counter* tensor_bytes_ = nullptr;
  std::array<prometheus::Counter*, kNumDirections> copy_bytes_{};
  prometheus::Gauge* achieved_flops_per_second_ = nullptr;
  prometheus::Gauge* achieved_bytes_per_second_ = nullptr;
  std::vector<std::pair<std::string_view, prometheus::Counter*>> kernel_runs_;

  mutable std::mutex live_mu_;
  std::function<LiveReadings()> live_source_ ABSL_GUARDED_BY(live_mu_);
  std::function<RpcReadings()> rpc_source_ ABSL_GUARDED_BY(live_mu_);
};

}  // namespace attnd
