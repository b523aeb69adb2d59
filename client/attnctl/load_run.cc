#include "client/attnctl/load_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace attnd::attnctl {
namespace {

CallSeconds SecondsOf(const AttendReply& reply) {
  const v1::Timings& timings = reply.result.timings();
  return {.total = reply.round_trip_seconds,
          .queue = timings.queue_seconds(),
          .copy_in = timings.copy_in_seconds(),
          .compute = timings.compute_seconds(),
          .copy_out = timings.copy_out_seconds()};
}

// When the run is over, and how far it is; shared by all callers.
class RunState {
 public:
  RunState(absl::Time end, std::int64_t max_requests)
      : end_(end),
        max_requests_(max_requests == 0 ? std::numeric_limits<std::int64_t>::max() : max_requests) {
  }

  bool BeginRequest() { return absl::Now() < end_ && begun_.fetch_add(1) < max_requests_; }
  void EndRequest() { ++done_; }
  std::int64_t done() const { return done_; }

 private:
  const absl::Time end_;
  const std::int64_t max_requests_;
  std::atomic<std::int64_t> begun_{0};
  std::atomic<std::int64_t> done_{0};
};

// One caller. Results go into memory that it uses over again, as a program that cares about speed
// would do.
class Caller {
 public:
  Caller(std::unique_ptr<Client> client, const HostProblem& problem, const CallOptions& call)
      : client_(std::move(client)), problem_(problem), call_(call) {}

  absl::Status WarmUp(std::int64_t requests) {
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, requests); ++i) {
      const absl::StatusOr<AttendReply> reply = Attend();
      if (!reply.ok()) return reply.status();
      kernel_ = reply->result.kernel();
      out_.resize(reply->out.bytes().size());
      lse_.resize(reply->lse.bytes().size());
    }
    return absl::OkStatus();
  }

  void Run(RunState& state) {
    while (state.BeginRequest()) {
      const absl::StatusOr<AttendReply> reply = Attend();
      if (reply.ok()) {
        calls_.push_back(SecondsOf(*reply));
      } else {
        ++failed_;
        first_error_.Update(reply.status());
      }
      state.EndRequest();
    }
  }

  void AddTo(LoadResult& result) const {
    result.calls.insert(result.calls.end(), calls_.begin(), calls_.end());
    result.failed += failed_;
    result.first_error.Update(first_error_);
    result.kernel = kernel_;
    result.result_bytes = static_cast<std::int64_t>(out_.size() + lse_.size());
  }

 private:
  absl::StatusOr<AttendReply> Attend() {
    return client_->Attend(problem_.spec, problem_.inputs(), call_, {.out = out_, .lse = lse_});
  }

  std::unique_ptr<Client> client_;
  const HostProblem& problem_;
  const CallOptions call_;
  std::vector<std::byte> out_;
  std::vector<std::byte> lse_;
  std::vector<CallSeconds> calls_;
  std::int64_t failed_ = 0;
  absl::Status first_error_;
  std::string kernel_;
};

using Callers = std::vector<std::unique_ptr<Caller>>;

absl::StatusOr<Callers> MakeCallers(const LoadOptions& options, const HostProblem& problem,
                                    const ConnectFunction& connect) {
  Callers callers;
  for (std::int64_t i = 0; i < options.concurrency; ++i) {
    absl::StatusOr<std::unique_ptr<Client>> client = connect();
    if (!client.ok()) return client.status();
    callers.push_back(std::make_unique<Caller>(*std::move(client), problem, options.call));
    const absl::Status status = callers.back()->WarmUp(options.warmup_requests);
    if (!status.ok()) return status;
  }
  return callers;
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options, const HostProblem& problem,
                                   const ConnectFunction& connect,
                                   const ProgressFunction& progress) {
  absl::StatusOr<Callers> callers = MakeCallers(options, problem, connect);
  if (!callers.ok()) return callers.status();

  const absl::Time start = absl::Now();
  RunState state(start + options.duration, options.max_requests);
  std::vector<std::thread> threads;
  for (const auto& caller : *callers) threads.emplace_back([&] { caller->Run(state); });
  absl::Notification finished;
  std::thread reporter([&] {
    while (!finished.WaitForNotificationWithTimeout(absl::Seconds(1))) {
      progress(state.done(), absl::ToDoubleSeconds(absl::Now() - start));
    }
  });
  for (std::thread& thread : threads) thread.join();
  LoadResult result;
  result.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  finished.Notify();
  reporter.join();
  for (const auto& caller : *callers) caller->AddTo(result);
  return result;
}

double Percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const auto size = static_cast<std::int64_t>(sorted.size());
  const auto rank = static_cast<std::int64_t>(std::ceil(p * static_cast<double>(size)));
  return sorted[std::clamp<std::int64_t>(rank, 1, size) - 1];
}

}  // namespace attnd::attnctl
