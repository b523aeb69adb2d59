#include "tests/testing/daemon_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

extern char** environ;

namespace attnd::testing {
namespace {

constexpr int kPatienceMilliseconds = 30'000;

std::string EnvironmentOr(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

enum class ReadResult { kSome, kEnd, kNothingForLong };

std::string ServerBinary() { return EnvironmentOr("ATTND_SERVER", ATTND_SERVER_BINARY); }

std::vector<std::string> Joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Appends what comes next.
ReadResult ReadSome(int fd, std::string* text) {
  pollfd readable = {.fd = fd, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, kPatienceMilliseconds) <= 0) return ReadResult::kNothingForLong;
  char block[4096];
  const ssize_t size = read(fd, block, sizeof(block));
  if (size <= 0) return ReadResult::kEnd;
  text->append(block, static_cast<std::size_t>(size));
  return ReadResult::kSome;
}

// Appends all that comes; false if the end does not come.
bool ReadToEnd(int fd, std::string* text) {
  ReadResult result = ReadResult::kSome;
  while (result == ReadResult::kSome) result = ReadSome(fd, text);
  return result == ReadResult::kEnd;
}

}  // namespace

DaemonProcess::DaemonProcess(Unstarted, std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  running_ = error == 0;
  pid_ = running_ ? pid : -1;
  if (!running_) err_ = absl::StrCat("cannot run ", words[0], ": ", std::strerror(error));
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
}

DaemonProcess::DaemonProcess(const std::vector<std::string>& args)
    : DaemonProcess(
          Unstarted(),
          Joined({ServerBinary(), BackendFlag(), "--grpc-port=0", "--http-port=0"}, args)) {
  running_ = running_ && WaitForLog("server started");
  grpc_port_ = NumberInLog("grpc_port");
  http_port_ = NumberInLog("http_port");
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_fd_);
  close(err_fd_);
}

std::string DaemonProcess::BackendFlag() {
  return absl::StrCat("--backend=", EnvironmentOr("ATTND_BACKEND", "cpu"));
}

Ended DaemonProcess::RunToEnd(const std::vector<std::string>& args) {
  return DaemonProcess(Unstarted(), Joined({ServerBinary()}, args)).Wait();
}

Ended DaemonProcess::RunToEndWithin(std::int64_t address_space_bytes,
                                    const std::vector<std::string>& args) {
  const std::string limited =
      absl::StrCat("ulimit -v ", address_space_bytes / 1024, R"( && exec "$0" "$@")");
  return DaemonProcess(Unstarted(), Joined({"/bin/sh", "-c", limited, ServerBinary()}, args))
      .Wait();
}

std::shared_ptr<grpc::Channel> DaemonProcess::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", grpc_port_),
                                   grpc::InsecureChannelCredentials(), arguments);
}

// kill takes a pid of 0 or less to mean many processes, so that one which was never started must
// not reach it.
void DaemonProcess::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

bool DaemonProcess::WaitForLog(const std::string& text) {
  while (true) {
    const std::size_t found = err_.find(text, searched_);
    const std::size_t end = found == std::string::npos ? found : err_.find('\n', found);
    if (end != std::string::npos) {
      searched_ = end + 1;
      return true;
    }
    if (ReadSome(err_fd_, &err_) != ReadResult::kSome) return false;
  }
}

int DaemonProcess::NumberInLog(const std::string& key) const {
  const std::size_t at = err_.find(absl::StrCat(" ", key, "="));
  return at == std::string::npos ? -1 : std::atoi(err_.c_str() + at + key.size() + 2);
}

Ended DaemonProcess::Wait() {
  Ended ended;
  ended.err = err_;
  if (pid_ <= 0) return ended;
  // Its end closes both pipes.
  const bool ended_by_itself = ReadToEnd(err_fd_, &err_) && ReadToEnd(out_fd_, &ended.out);
  if (!ended_by_itself) kill(pid_, SIGKILL);
  ended.err = err_;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  running_ = false;
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  return ended;
}

}  // namespace attnd::testing
