#include "tests/testing/contract_cases.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace attnd::testing {
namespace {

class ContractTest : public ::testing::Test {
 public:
  ContractTest(std::shared_ptr<KernelRunner> runner, ContractCase contract_case)
      : runner_(std::move(runner)), case_(std::move(contract_case)) {}
  void TestBody() override { case_.check(*runner_); }

 private:
  std::shared_ptr<KernelRunner> runner_;
  ContractCase case_;
};

// All cases, made once, so that runners share the expected results that cases keep.
const std::vector<ContractCase>& AllCases() {
  static const auto* const kCases = [] {
    auto* cases = new std::vector<ContractCase>;
    for (const auto make : {ShapeCases, OptionCases, RandomCases, RangeCases, NonfiniteCases,
                            DiagnosticsCases, DeterminismCases, MergeCases}) {
      for (ContractCase& c : make()) cases->push_back(std::move(c));
    }
    return cases;
  }();
  return *kCases;
}

}  // namespace

void RegisterContractTests(std::shared_ptr<KernelRunner> runner) {
  const std::string suite = absl::StrCat("Contract_", runner->name());
  for (const ContractCase& contract_case : AllCases()) {
    ::testing::RegisterTest(suite.c_str(), contract_case.name.c_str(), nullptr, nullptr, __FILE__,
                            __LINE__, [runner, contract_case]() -> ::testing::Test* {
                              return new ContractTest(runner, contract_case);
                            });
  }
}

bool RunOrSkip(KernelRunner& runner, Problem& problem) {
  const absl::Status supported = runner.Supports(problem.params());
  if (absl::IsUnimplemented(supported)) {
    // GTEST_SKIP returns from the function it stands in.
    [&] { GTEST_SKIP() << supported.ToString(); }();
    return false;
  }
  const absl::Status status = runner.Run(problem);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return status.ok();
}

}  // namespace attnd::testing
