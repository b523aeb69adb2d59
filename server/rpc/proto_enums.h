// The public contract's enums and their counterparts in this code.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attnd/v1/attention.pb.h"
#include "kernels/data_type.h"
#include "server/engine/attention_plan.h"

namespace attnd {

// OK if `value` is one that the enum `descriptor` names; else InvalidArgument that lists the names.
absl::Status CheckEnum(absl::string_view field, int value,
                       const google::protobuf::EnumDescriptor* descriptor);

// `value` must be known (CheckEnum). `unspecified` is what a field that is not set means.
DataType DataTypeFromProto(v1::DataType value, DataType unspecified);
v1::DataType DataTypeToProto(DataType dtype);

// KernelImplementation::algorithm; empty where the server chooses. `value` must be known.
std::string AlgorithmFromProto(v1::Algorithm value);
// ALGORITHM_UNSPECIFIED for a name that the contract does not have.
v1::Algorithm AlgorithmToProto(absl::string_view algorithm);

// As the fields of AttendRequest and AttendResponse are called.
const char* NameOf(InputTensor tensor);
const char* NameOf(OutputTensor tensor);

}  // namespace attnd
