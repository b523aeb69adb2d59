// What a load run says: a table for people, JSON for programs.
#pragma once

#include <string>

#include "client/attnctl/host_problem.h"
#include "client/attnctl/load_run.h"

namespace attnd::attnctl {

// Mean, p50, p95 and p99 of each stage in milliseconds; requests, gigabytes of tensors (both ways)
// and floating-point operations a second.
std::string LoadTable(const LoadResult& result, const HostProblem& problem);
std::string LoadJson(const LoadResult& result, const HostProblem& problem);

}  // namespace attnd::attnctl
