#include "client/attnctl/load_report.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"

namespace attnd::attnctl {
namespace {

struct Stage {
  const char* name;
  double (*seconds)(const CallSeconds&);
};

constexpr Stage kStages[] = {
    {"total", [](const CallSeconds& call) { return call.total; }},
    {"queue", [](const CallSeconds& call) { return call.queue; }},
    {"copy_in", [](const CallSeconds& call) { return call.copy_in; }},
    {"compute", [](const CallSeconds& call) { return call.compute; }},
    {"copy_out", [](const CallSeconds& call) { return call.copy_out; }},
    {"network_and_rest", [](const CallSeconds& call) { return call.rest(); }}};

// In milliseconds.
struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};

Distribution DistributionOf(const LoadResult& result, const Stage& stage) {
  std::vector<double> values;
  for (const CallSeconds& call : result.calls) values.push_back(stage.seconds(call) * 1e3);
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.mean = sum / static_cast<double>(values.size()),
          .p50 = Percentile(values, 0.50),
          .p95 = Percentile(values, 0.95),
          .p99 = Percentile(values, 0.99)};
}

// Per second.
struct Rates {
  double requests;
  double gigabytes;
  double teraflops;
};

Rates RatesOf(const LoadResult& result, const HostProblem& problem) {
  const double requests = static_cast<double>(result.calls.size()) / result.seconds;
  const auto bytes = static_cast<double>(problem.input_bytes() + result.result_bytes);
  return {.requests = requests,
          .gigabytes = requests * bytes / 1e9,
          .teraflops = requests * AttentionFlops(problem.spec) / 1e12};
}

}  // namespace

std::string LoadTable(const LoadResult& result, const HostProblem& problem) {
  std::string table =
      absl::StrFormat("%-18s %10s %10s %10s %10s   (ms)\n", "stage", "mean", "p50", "p95", "p99");
  for (const Stage& stage : kStages) {
    const Distribution d = DistributionOf(result, stage);
    absl::StrAppendFormat(&table, "%-18s %10.3f %10.3f %10.3f %10.3f\n", stage.name, d.mean, d.p50,
                          d.p95, d.p99);
  }
  const Rates rates = RatesOf(result, problem);
  absl::StrAppendFormat(&table,
                        "%d requests in %.2f s, %d failed; kernel %s\n"
                        "%.1f requests/s, %.3f GB/s of tensors, %.4f TFLOP/s\n",
                        result.calls.size(), result.seconds, result.failed, result.kernel,
                        rates.requests, rates.gigabytes, rates.teraflops);
  return table;
}

std::string LoadJson(const LoadResult& result, const HostProblem& problem) {
  google::protobuf::Struct report;
  auto& fields = *report.mutable_fields();
  const Rates rates = RatesOf(result, problem);
  fields["requests"].set_number_value(static_cast<double>(result.calls.size()));
  fields["failed"].set_number_value(static_cast<double>(result.failed));
  fields["seconds"].set_number_value(result.seconds);
  fields["kernel"].set_string_value(result.kernel);
  fields["requests_per_second"].set_number_value(rates.requests);
  fields["gigabytes_per_second"].set_number_value(rates.gigabytes);
  fields["teraflops_per_second"].set_number_value(rates.teraflops);
  auto& stages = *fields["milliseconds"].mutable_struct_value()->mutable_fields();
  for (const Stage& stage : kStages) {
    const Distribution d = DistributionOf(result, stage);
    auto& values = *stages[stage.name].mutable_struct_value()->mutable_fields();
    values["mean"].set_number_value(d.mean);
    values["p50"].set_number_value(d.p50);
    values["p95"].set_number_value(d.p95);
    values["p99"].set_number_value(d.p99);
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(report, &text, options);
  return text;
}

}  // namespace attnd::attnctl
