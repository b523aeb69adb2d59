// A growing list of problems that must be computed within the error that the numerics contract
// allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/contract_cases.h"
#include "tests/testing/problem.h"

namespace attnd::testing {

class AccuracyGrid {
 public:
  // One case in one type: types take turns, so that all of them meet most shapes at a third of the
  // cost.
  void AddInTurn(const ProblemSpec& spec);
  void AddInAllTypes(const ProblemSpec& spec);
  std::vector<ContractCase> Take() { return std::move(cases_); }

 private:
  void Add(ProblemSpec spec, DataType dtype);

  std::vector<ContractCase> cases_;
  std::size_t turn_ = 0;
};

// One head of 64 with all defaults.
ProblemSpec Spec(std::string name, std::int64_t seqlen_q, std::int64_t seqlen_k);
// Six packed sequences, empty ones among them.
ProblemSpec PackedSpec(std::string name);
// Five sequences with lengths from nothing to all of their room.
ProblemSpec PaddedSpec(std::string name);

}  // namespace attnd::testing
