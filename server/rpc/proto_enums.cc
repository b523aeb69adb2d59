#include "server/rpc/proto_enums.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/rpc/field_checks.h"

namespace attnd {

std::string EnumText(int value, const google::protobuf::EnumDescriptor* descriptor) {
  if (value == 0) return "not set";
  const google::protobuf::EnumValueDescriptor* const known = descriptor->FindValueByNumber(value);
  return known == nullptr ? absl::StrCat("the unknown value ", value) : known->name();
}

std::string EnumNames(const google::protobuf::EnumDescriptor* descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor->value_count(); ++i) {
    if (descriptor->value(i)->number() != 0) names.push_back(descriptor->value(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

absl::Status CheckEnum(absl::string_view field, int value,
                       const google::protobuf::EnumDescriptor* descriptor) {
  if (descriptor->FindValueByNumber(value) != nullptr) return absl::OkStatus();
  return Refused(field, EnumText(value, descriptor),
                 absl::StrCat(EnumNames(descriptor), "; or not set"));
}

DataType DataTypeFromProto(v1::DataType value, DataType unspecified) {
  switch (value) {
    case v1::DATA_TYPE_FLOAT32:
      return DataType::kFloat32;
    case v1::DATA_TYPE_FLOAT16:
      return DataType::kFloat16;
    case v1::DATA_TYPE_BFLOAT16:
      return DataType::kBFloat16;
    default:
      return unspecified;
  }
}

v1::DataType DataTypeToProto(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case DataType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
    case DataType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

std::string AlgorithmFromProto(v1::Algorithm value) {
  if (value == v1::ALGORITHM_UNSPECIFIED) return "";
  return absl::AsciiStrToLower(absl::StripPrefix(v1::Algorithm_Name(value), "ALGORITHM_"));
}

v1::Algorithm AlgorithmToProto(absl::string_view algorithm) {
  v1::Algorithm value = v1::ALGORITHM_UNSPECIFIED;
  v1::Algorithm_Parse(absl::StrCat("ALGORITHM_", absl::AsciiStrToUpper(algorithm)), &value);
  return value;
}

}  // namespace attnd
