// RETURN_IF_ERROR and ASSIGN_OR_RETURN: early return for functions that return absl::Status or
// absl::StatusOr.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ATTND_CONCAT_INNER(a, b) a##b
#define ATTND_CONCAT(a, b) ATTND_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                    \
  do {                                           \
    ::absl::Status attnd_status = (expr);        \
    if (!attnd_status.ok()) return attnd_status; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ATTND_ASSIGN_OR_RETURN_IMPL(ATTND_CONCAT(attnd_statusor_, __LINE__), lhs, expr)

#define ATTND_ASSIGN_OR_RETURN_IMPL(statusor, lhs, expr) \
  auto statusor = (expr);                                \
  if (!statusor.ok()) return statusor.status();          \
  lhs = *std::move(statusor)
