// Test problems as messages, and results as the problem's own.
#pragma once

#include <string>

#include "attnd/v1/attention.pb.h"
#include "tests/testing/problem.h"

namespace attnd::testing {

// The problem as a request. Its spec must have no slack: what a message holds is contiguous.
v1::AttendRequest RequestOf(Problem& problem);

// Puts the tensors of a response where an implementation would have written them.
void StoreResponse(const v1::AttendResponse& response, Problem& problem);

}  // namespace attnd::testing
