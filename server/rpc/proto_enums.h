// The public contract's enums and their counterparts in this code.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attnd/v1/attention.pb.h"
#include "kernels/data_type.h"

namespace attnd {

// What an error calls a value of the enum `descriptor`: its name, "not set" for 0, or "the unknown
// value 9".
std::string EnumText(int value, const google::protobuf::EnumDescriptor* descriptor);

// The names of all values of the enum but 0, which stands for a field that is not set.
std::string EnumNames(const google::protobuf::EnumDescriptor* descriptor);

// For a field that need not be set: OK if the enum `descriptor` names `value`; else InvalidArgument
// that lists what is accepted.
absl::Status CheckEnum(absl::string_view field, int value,
                       const google::protobuf::EnumDescriptor* descriptor);

// `value` must be known (CheckEnum). `unspecified` is what a field that is not set means.
DataType DataTypeFromProto(v1::DataType value, DataType unspecified);
v1::DataType DataTypeToProto(DataType dtype);

// KernelImplementation::algorithm; empty where the server chooses. `value` must be known.
std::string AlgorithmFromProto(v1::Algorithm value);
// ALGORITHM_UNSPECIFIED for a name that the contract does not have.
v1::Algorithm AlgorithmToProto(absl::string_view algorithm);

}  // namespace attnd
