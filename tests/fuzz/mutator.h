// Repeatable damage to bytes and to specs.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "attnd/v1/attention.pb.h"

namespace attnd::fuzz {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  // Flips, inserts, removes, repeats or overwrites a few bytes.
  void MutateBytes(std::string& bytes);
  // Gives one field of the spec, or one element of a list, another value: often one at an edge.
  void MutateSpec(v1::AttentionSpec& spec);

  // In [0, count).
  std::size_t Index(std::size_t count) { return random_() % count; }

 private:
  std::int64_t EdgeInteger();
  float EdgeFloat();
  void MutateField(google::protobuf::Message& message,
                   const google::protobuf::FieldDescriptor* field);
  void MutateList(google::protobuf::Message& message,
                  const google::protobuf::FieldDescriptor* field);

  std::mt19937_64 random_;
};

}  // namespace attnd::fuzz
