// Element types of tensors on the client's side: names, sizes and conversion to and from float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::attnctl {

// "float32", "float16", "bfloat16"; the short forms "fp32", "fp16", "bf16" are accepted too.
absl::StatusOr<v1::DataType> DataTypeFromName(absl::string_view name);
std::string NameOf(v1::DataType dtype);

std::int64_t BytesOf(v1::DataType dtype);

// Half a unit in the last place of 1.
double RoundingUnit(v1::DataType dtype);

// `value` as `dtype` holds it: to nearest, ties to even.
float Round(v1::DataType dtype, float value);

std::vector<float> Widen(v1::DataType dtype, std::span<const std::byte> bytes);
std::vector<std::byte> Narrow(v1::DataType dtype, std::span<const float> values);

}  // namespace attnd::attnctl
