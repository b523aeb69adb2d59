// The programs attnctl and client/examples/attend, run as a user does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/attnctl/host_problem.h"
#include "client/attnctl/npy.h"
#include "client/attnctl/npy_problem.h"
#include "tests/client/fake_attention_service.h"
#include "tests/client/real_server.h"
#include "tests/testing/protobuf_json.h"

namespace attnd::attnctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Ran {
  int exit_code = -1;
  std::string output;  // standard output and error
};

Ran RunCommand(const std::string& command) {
  Ran run;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[4096];
  while (const std::size_t size = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    run.output.append(buffer, size);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  return run;
}

Ran Attnctl(const std::string& arguments, const char* redirection = "2>&1") {
  return RunCommand(absl::StrCat(ATTND_ATTNCTL_BINARY, " ", arguments, " ", redirection));
}

TEST(AttnctlUsageTest, AWrongCommandLineExitsWith2AndSaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "Usage: attnctl COMMAND"},
      {"fly", "unknown command \"fly\""},
      {"info --frob", "unknown flag --frob"},
      {"info extra", "unexpected argument \"extra\""},
      {"info --timeout=never", "--timeout: \"never\" is not a time"},
      {"info --call=smoke", "--call: \"smoke\" is not unary, stream or auto"},
      {"attend --q a.npy", "--q, --k, --v and --out are needed"},
      {"attend --q a --k b --v c --out d --partial", "--partial: --lse is needed, too"},
      {"attend --q a --k b --v c --out x --partial --lse x",
       "--lse: \"x\" is the file of --out, too"},
      {"attend --q a --k b --v c --out x --probs ./y/../x", "is the file of --out, too"},
      {"attend --q a --k b --v c --out d --lse x --probs x", "is the file of --lse, too"},
      {"attend --q a --k b --v c --out d --algorithm magic", "--algorithm: \"magic\" is not naive"},
      {"attend --q a --k b --v c --out d --layout sbhd", "--layout: \"sbhd\" is not bshd or bhsd"},
      {"verify --dtypes int8", "--dtypes: \"int8\" is not float32"},
      {"verify --q a.npy", "--q, --k and --v are needed together"},
      {"bench --concurrency 0", "--concurrency: 0, 1 to 1024 accepted"},
      {"bench --seqlen-q -1", "size -1 is not within 0 and 2^30"},
      {"bench --batch 65536 --seqlen-q 65536", "over 16 GiB"}};
  for (const auto& [arguments, text] : cases) {
    const Ran run = Attnctl(arguments);
    EXPECT_EQ(run.exit_code, 2) << arguments;
    EXPECT_THAT(run.output, HasSubstr(text)) << arguments;
  }
}

TEST(AttnctlUsageTest, TheVersionIsTheProjects) {
  const Ran run = Attnctl("--version", "2>/dev/null");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.output, absl::StrCat("attnctl ", ATTND_VERSION, "\n"));
}

TEST(AttnctlUsageTest, HelpExitsWith0) {
  for (const char* const help : {"--help", "-h", "help"}) {
    const Ran run = Attnctl(help, "2>/dev/null");
    EXPECT_EQ(run.exit_code, 0) << help;
    for (const char* const text : {"info", "attend", "verify", "bench", "--version", "Exit codes"})
      EXPECT_THAT(run.output, HasSubstr(text)) << help;
  }
  for (const char* const command : {"info", "attend", "verify", "bench"}) {
    const Ran run = Attnctl(absl::StrCat(command, " --help"));
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_THAT(run.output, HasSubstr(absl::StrCat("Usage: attnctl ", command)));
  }
}

TEST(AttnctlUsageTest, AServerThatIsNotThereExitsWith1) {
  const Ran run = Attnctl("info --server 127.0.0.1:1 --timeout 5s");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("UNAVAILABLE: server 127.0.0.1:1: "));
}

class AttnctlTest : public ::testing::Test {
 protected:
  Ran WithServer(const std::string& arguments, const char* redirection = "2>&1") {
    return Attnctl(absl::StrCat(arguments, " --server ", server_.target()), redirection);
  }

  static std::string Path(const std::string& name) {
    return absl::StrCat(::testing::TempDir(), "/attnctl_", name);
  }

  // Writes the tensors of a random problem and returns the flags that name them.
  static std::string SaveInputs(const HostProblem& problem) {
    const ProblemSizes sizes(problem.spec);
    const std::vector<std::int64_t> q = {problem.spec.batch_size(), problem.spec.seqlen_q(),
                                         problem.spec.num_heads(), problem.spec.head_dim()};
    std::vector<std::int64_t> k = q;
    k[1] = problem.spec.seqlen_k();
    k[2] = sizes.num_kv_heads;
    const v1::DataType dtype = problem.spec.dtype();
    EXPECT_TRUE(SaveTensor(Path("q.npy"), dtype, q, problem.q).ok());
    EXPECT_TRUE(SaveTensor(Path("k.npy"), dtype, k, problem.k).ok());
    EXPECT_TRUE(SaveTensor(Path("v.npy"), dtype, k, problem.v).ok());
    return absl::StrCat(" --q ", Path("q.npy"), " --k ", Path("k.npy"), " --v ", Path("v.npy"));
  }

  static v1::AttentionSpec Spec(v1::DataType dtype) {
    v1::AttentionSpec spec;
    spec.set_batch_size(2);
    spec.set_seqlen_q(9);
    spec.set_seqlen_k(12);
    spec.set_num_heads(4);
    spec.set_num_kv_heads(2);
    spec.set_head_dim(16);
    spec.set_dtype(dtype);
    return spec;
  }

  testing::RealServer server_;
};

TEST_F(AttnctlTest, InfoPrintsWhatTheServerIs) {
  const Ran run = WithServer("info");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.output, HasSubstr("backend              cpu"));
  EXPECT_THAT(run.output, HasSubstr("cpu_fused                fused"));
}

TEST_F(AttnctlTest, InfoPrintsJson) {
  const Ran run = WithServer("info --json", "2>/dev/null");
  const auto info = testing::ParseJson(run.output);
  ASSERT_TRUE(info.has_value()) << run.output;
  EXPECT_EQ(info->at("backend").string_value(), "cpu");
}

TEST_F(AttnctlTest, AttendWritesTheResultOfTheFiles) {
  const HostProblem problem = RandomProblem(Spec(v1::DATA_TYPE_FLOAT32), 4);
  const Ran run = WithServer(absl::StrCat("attend", SaveInputs(problem), " --causal --out ",
                                          Path("out.npy"), " --lse ", Path("lse.npy")));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const auto client = Client::Connect(server_.target());
  v1::AttentionSpec spec = problem.spec;
  spec.set_causal(true);
  spec.set_return_lse(true);
  const auto reply = (*client)->Attend(spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  const auto out = ReadNpy(Path("out.npy"));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->descr, "<f4");
  EXPECT_EQ(out->shape, (std::vector<std::int64_t>{2, 9, 4, 16}));
  EXPECT_EQ(out->data,
            std::vector<std::byte>(reply->out.bytes().begin(), reply->out.bytes().end()));
  const auto lse = ReadNpy(Path("lse.npy"));
  ASSERT_TRUE(lse.ok()) << lse.status();
  EXPECT_EQ(lse->shape, (std::vector<std::int64_t>{2, 4, 9}));
  EXPECT_EQ(lse->data,
            std::vector<std::byte>(reply->lse.bytes().begin(), reply->lse.bytes().end()));
}

TEST_F(AttnctlTest, APartialResultIsWrittenWithItsLse) {
  const HostProblem problem = RandomProblem(Spec(v1::DATA_TYPE_FLOAT16), 4);
  std::remove(Path("lse.npy").c_str());
  const Ran run = WithServer(absl::StrCat("attend", SaveInputs(problem), " --partial --out ",
                                          Path("out.npy"), " --lse ", Path("lse.npy")));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(ReadNpy(Path("out.npy"))->descr, "<f4");
  const auto lse = ReadNpy(Path("lse.npy"));
  ASSERT_TRUE(lse.ok()) << lse.status();
  EXPECT_EQ(lse->shape, (std::vector<std::int64_t>{2, 4, 9}));
}

TEST_F(AttnctlTest, NothingIsWrittenUnlessEveryFileCanBe) {
  const std::string files = SaveInputs(RandomProblem(Spec(v1::DATA_TYPE_FLOAT32), 4));
  const std::string out = Path("unwritten.npy");
  std::remove(out.c_str());
  const std::pair<std::string, const char*> cases[] = {
      {"/no/such/folder/lse.npy", "NOT_FOUND: /no/such/folder/lse.npy: No such file or directory"},
      {::testing::TempDir(), "Is a directory"}};
  for (const auto& [lse, text] : cases) {
    const Ran run = WithServer(absl::StrCat("attend", files, " --out ", out, " --lse ", lse));
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.output, HasSubstr(text));
    EXPECT_FALSE(std::ifstream(out).is_open()) << lse;
  }
}

TEST_F(AttnctlTest, WhatWasWrittenBeforeAFailureIsNamed) {
  const std::string files = SaveInputs(RandomProblem(Spec(v1::DATA_TYPE_FLOAT32), 4));
  const Ran run =
      WithServer(absl::StrCat("attend", files, " --out ", Path("out.npy"), " --lse /dev/full"));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr(absl::StrCat("/dev/full: No space left on device; written: ",
                                                 Path("out.npy"), "\n")));
}

TEST_F(AttnctlTest, BFloat16NeedsToBeNamed) {
  const std::string files = SaveInputs(RandomProblem(Spec(v1::DATA_TYPE_BFLOAT16), 4));
  const std::string command = absl::StrCat("attend", files, " --out ", Path("out.npy"));
  const Ran without = WithServer(command);
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.output, HasSubstr("q.npy: type |V2 needs --dtype bfloat16"));
  EXPECT_EQ(WithServer(command + " --dtype bfloat16").exit_code, 0);
  EXPECT_EQ(ReadNpy(Path("out.npy"))->descr, "|V2");
}

TEST_F(AttnctlTest, FilesThatDoNotFitAreNamed) {
  const std::string files = SaveInputs(RandomProblem(Spec(v1::DATA_TYPE_FLOAT32), 4));
  std::ofstream(Path("text.npy")) << "no array";
  const std::string out = absl::StrCat(" --out ", Path("out.npy"));
  const std::pair<std::string, const char*> cases[] = {
      {absl::StrCat("attend", files, out, " --mask ", Path("text.npy")),
       "text.npy: not a sound .npy file"},
      {absl::StrCat("attend", files, out, " --mask ", Path("q.npy")),
       "q.npy: type <f4, |b1 (bool) accepted"},
      {absl::StrCat("attend", files, out, " --bias ", Path("none.npy")), "none.npy: No such file"},
      {absl::StrCat("attend", files, out, " --v ", Path("q.npy")),
       "q.npy: 9 keys and 4 heads, k has 12 and 2"},
      {absl::StrCat("attend", files, out, " --dtype float16"),
       "the file is float32, --dtype says float16"},
      {absl::StrCat("attend", files, out, " --cu-seqlens-q 0,9 --cu-seqlens-k 0,12"),
       "packed sequences are [total, heads, head_dim]"},
      {absl::StrCat("attend", files, " --out /no/such/folder/out.npy"),
       "attnctl: NOT_FOUND: /no/such/folder/out.npy: No such file or directory"}};
  for (const auto& [command, text] : cases) {
    const Ran run = WithServer(command);
    EXPECT_EQ(run.exit_code, 1) << command;
    EXPECT_THAT(run.output, HasSubstr(text));
  }
}

TEST_F(AttnctlTest, AServersRefusalExitsWith1AndItsText) {
  const std::string files = SaveInputs(RandomProblem(Spec(v1::DATA_TYPE_FLOAT32), 4));
  const Ran run =
      WithServer(absl::StrCat("attend", files, " --softcap -1 --out ", Path("out.npy")));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("INVALID_ARGUMENT: "));
  EXPECT_THAT(run.output, HasSubstr("softcap"));
}

TEST_F(AttnctlTest, VerifyPassesOnARightServer) {
  const Ran run = WithServer("verify --cases gqa");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("3 of 3 problems passed"));
}

TEST_F(AttnctlTest, VerifyTellsWhatANamedKernelDoesNotSupport) {
  const Ran run = WithServer("verify --algorithm online --dtypes float32");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("27 of 28 problems passed, 1 not supported"));
  EXPECT_EQ(WithServer("verify --algorithm online --cases probs").exit_code, 1);
}

TEST_F(AttnctlTest, VerifyTakesFiles) {
  const std::string files = SaveInputs(RandomProblem(Spec(v1::DATA_TYPE_FLOAT16), 4));
  const Ran run = WithServer(absl::StrCat("verify --causal", files));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("1 of 1 problems passed"));
}

TEST_F(AttnctlTest, VerifyOfNothingIsAFailure) {
  EXPECT_EQ(WithServer("verify --cases no_such_case").exit_code, 1);
}

TEST(AttnctlVerifyTest, VerifyFailsOnAWrongServerAndSaysWhere) {
  testing::FakeAttentionService service(1 << 26);  // its out is a copy of q
  testing::FakeServer server(service);
  const Ran run = Attnctl(
      absl::StrCat("verify --cases tile_and_one --dtypes float32 --server ", server.target()));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("FAILED: out["));
  EXPECT_THAT(run.output, HasSubstr("FAILED: lse["));
  EXPECT_THAT(run.output, HasSubstr("0 of 1 problems passed"));
}

TEST_F(AttnctlTest, BenchPrintsATableSplitByStage) {
  const Ran run = WithServer("bench --requests 20 --concurrency 2 --seqlen-q 16", "2>/dev/null");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  for (const char* const text : {"p50", "p95", "p99", "queue", "copy_in", "compute", "copy_out",
                                 "network_and_rest", "20 requests in", "0 failed", "GB/s"}) {
    EXPECT_THAT(run.output, HasSubstr(text));
  }
}

TEST_F(AttnctlTest, BenchPrintsJson) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "attnctl fills a map of protobuf's, whose header disagrees with the system's "
                  "library under ThreadSanitizer";
#endif
  const Ran run = WithServer("bench --requests 5 --seqlen-q 16 --json", "2>/dev/null");
  const auto report = testing::ParseJson(run.output);
  ASSERT_TRUE(report.has_value()) << run.output;
  EXPECT_EQ(report->at("requests").number_value(), 5);
  EXPECT_EQ(report->at("kernel").string_value(), "cpu_fused");
}

TEST_F(AttnctlTest, BenchPrintsTheLadderOfGenerations) {
  const Ran run = WithServer("bench --generations --seqlen-q 32 --repeats 2");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  for (const char* const kernel : {"cpu_naive", "cpu_two_pass", "cpu_online", "cpu_fused"}) {
    EXPECT_THAT(run.output, HasSubstr(kernel));
  }
  EXPECT_THAT(run.output, Not(HasSubstr("nan")));
}

TEST(AttendExampleTest, PrintsItsResult) {
  testing::RealServer server;
  const Ran run = RunCommand(absl::StrCat(ATTND_EXAMPLE_BINARY, " ", server.target(), " 2>&1"));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("out: 131072 values"));
  EXPECT_THAT(run.output, HasSubstr("cpu_fused: "));
}

}  // namespace
}  // namespace attnd::attnctl
