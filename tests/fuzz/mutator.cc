#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <limits>

namespace attnd::fuzz {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::int64_t Mutator::EdgeInteger() {
  static constexpr std::int64_t kEdges[] = {
      0,       1,         2,         3,         7,         8,         16,
      256,     -1,        -2,        264,       65536,     INT32_MAX, INT32_MIN,
      1 << 20, INT64_MAX, INT64_MIN, 1LL << 31, 1LL << 32, 1LL << 40, 1LL << 62};
  return kEdges[Index(std::size(kEdges))];
}

float Mutator::EdgeFloat() {
  using Limits = std::numeric_limits<float>;
  static constexpr float kEdges[] = {0.0f,
                                     -0.0f,
                                     1.0f,
                                     -1.0f,
                                     50.0f,
                                     1e30f,
                                     -1e30f,
                                     Limits::infinity(),
                                     -Limits::infinity(),
                                     Limits::quiet_NaN(),
                                     Limits::denorm_min(),
                                     Limits::max(),
                                     Limits::lowest()};
  return kEdges[Index(std::size(kEdges))];
}

void Mutator::MutateBytes(std::string& bytes) {
  for (std::size_t count = 1 + Index(3); count > 0; --count) {
    const std::size_t at = Index(bytes.size() + 1);
    const std::size_t length = std::min<std::size_t>(1 + Index(8), bytes.size() - at);
    switch (Index(6)) {
      case 0:
        bytes.insert(at, 1, static_cast<char>(random_()));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, 1 + Index(11), '\xff');
        break;
      default:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << Index(8)));
    }
  }
}

void Mutator::MutateField(Message& message, const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, field, EdgeInteger());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, field, EdgeFloat());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, field, Index(2) == 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(&message, field, static_cast<int>(Index(8)) - 1);
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message& inner = *reflection.MutableMessage(&message, field);
      return MutateField(inner, inner.GetDescriptor()->field(
                                    static_cast<int>(Index(inner.GetDescriptor()->field_count()))));
    }
    default:
      return;
  }
}

void Mutator::MutateList(Message& message, const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, field);
  const bool is_integer = field->cpp_type() == FieldDescriptor::CPPTYPE_INT64;
  if (size > 0 && Index(3) == 0) return reflection.RemoveLast(&message, field);
  if (size == 0 || Index(3) == 0) {
    return is_integer ? reflection.AddInt64(&message, field, EdgeInteger())
                      : reflection.AddFloat(&message, field, EdgeFloat());
  }
  const int at = static_cast<int>(Index(size));
  return is_integer ? reflection.SetRepeatedInt64(&message, field, at, EdgeInteger())
                    : reflection.SetRepeatedFloat(&message, field, at, EdgeFloat());
}

void Mutator::MutateSpec(v1::AttentionSpec& spec) {
  const auto* const descriptor = spec.GetDescriptor();
  const FieldDescriptor* const field =
      descriptor->field(static_cast<int>(Index(descriptor->field_count())));
  if (Index(8) == 0) return spec.GetReflection()->ClearField(&spec, field);
  field->is_repeated() ? MutateList(spec, field) : MutateField(spec, field);
}

}  // namespace attnd::fuzz
