// Causal grouped-query attention over random tensors, computed by a server: the smallest whole
// program.
//   attend [target]          target: where the server is, localhost:8001 unless given
#include <cstddef>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "attnd/client.h"

namespace {

std::vector<float> RandomTensor(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

attnd::v1::AttentionSpec Problem() {
  attnd::v1::AttentionSpec spec;
  spec.set_batch_size(2);
  spec.set_seqlen_q(128);
  spec.set_seqlen_k(128);
  spec.set_num_heads(8);
  spec.set_num_kv_heads(2);
  spec.set_head_dim(64);
  spec.set_dtype(attnd::v1::DATA_TYPE_FLOAT32);
  spec.set_causal(true);
  spec.set_return_lse(true);
  return spec;
}

}  // namespace

int main(int argc, char** argv) {
  const auto client = attnd::Client::Connect(argc > 1 ? argv[1] : "localhost:8001");
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  // [batch, seqlen, heads, head_dim], innermost dimension last; k and v have two heads, which four
  // query heads share each.
  const std::vector<float> q = RandomTensor(std::size_t{2} * 128 * 8 * 64, 1);
  const std::vector<float> k = RandomTensor(std::size_t{2} * 128 * 2 * 64, 2);
  const std::vector<float> v = RandomTensor(std::size_t{2} * 128 * 2 * 64, 3);

  const auto reply = (*client)->Attend(Problem(),
                                       {.q = std::as_bytes(std::span(q)),
                                        .k = std::as_bytes(std::span(k)),
                                        .v = std::as_bytes(std::span(v))},
                                       {.timeout = absl::Seconds(5)});
  if (!reply.ok()) {
    std::fprintf(stderr, "%s\n", reply.status().ToString().c_str());
    return 1;
  }
  const std::span<const float> out = reply->out.As<float>();
  const std::span<const float> lse = reply->lse.As<float>();
  std::printf(
      "out: %zu values, the first %.6f (v has %.6f: a first row sees the first key alone)\n",
      out.size(), out[0], v[0]);
  std::printf("lse: %zu values, the last %.6f\n", lse.size(), lse.back());
  std::printf("%s: %.3f ms of computing, %.3f ms in all\n", reply->result.kernel().c_str(),
              reply->result.timings().compute_seconds() * 1e3, reply->round_trip_seconds * 1e3);
  return 0;
}
