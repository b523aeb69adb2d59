// The contract of every implementation of attention, as cases that any runner can be put through.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/testing/kernel_runner.h"
#include "tests/testing/problem.h"

namespace attnd::testing {

// One behaviour. `check` reports failures through GoogleTest, and skips what the runner does not
// support.
struct ContractCase {
  std::string name;
  std::function<void(KernelRunner&)> check;
};

// Registers all cases for `runner` as GoogleTest tests "Contract_<runner>.<case>". Call before
// RUN_ALL_TESTS.
void RegisterContractTests(std::shared_ptr<KernelRunner> runner);

// Error against float64, written bytes and the places of infinities: over lengths, heads, widths
// and layouts, and over masks, other options, values and outputs.
std::vector<ContractCase> ShapeCases();
std::vector<ContractCase> OptionCases();
// The same over problems drawn at random, the same ones in every run.
std::vector<ContractCase> RandomCases();
// Finished scores as large and as small as float32 holds, and softcaps of any size.
std::vector<ContractCase> RangeCases();
// Which results a NaN or infinity in an input may reach, and which it must.
std::vector<ContractCase> NonfiniteCases();
// The numerical-stability report of scores of any size.
std::vector<ContractCase> DiagnosticsCases();
// Same request, same bits.
std::vector<ContractCase> DeterminismCases();
// Partial results over parts of the keys make up the whole.
std::vector<ContractCase> MergeCases();

// Runs `problem`; false, with a failure or a skip reported, if there is no result to look at.
bool RunOrSkip(KernelRunner& runner, Problem& problem);

}  // namespace attnd::testing
