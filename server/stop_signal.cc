#include "server/stop_signal.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attnd {
namespace {

// poll takes milliseconds as an int.
constexpr absl::Duration kLongestPoll = absl::Hours(1);

}  // namespace

absl::StatusOr<StopSignal> StopSignal::Create() {
  // A peer that goes away while it is written to is an error of that write, not the end of the
  // process.
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  const int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (error != 0) {
    return absl::InternalError(absl::StrCat("cannot block signals: ", std::strerror(error)));
  }
  const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return absl::InternalError(absl::StrCat("signalfd: ", std::strerror(errno)));
  return StopSignal(fd);
}

StopSignal::StopSignal(StopSignal&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

StopSignal::~StopSignal() {
  if (fd_ >= 0) close(fd_);
}

bool StopSignal::WaitFor(absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  while (true) {
    signalfd_siginfo signal;
    if (read(fd_, &signal, sizeof(signal)) == sizeof(signal)) return true;
    const absl::Duration left = absl::Ceil(end - absl::Now(), absl::Milliseconds(1));
    if (left <= absl::ZeroDuration()) return false;
    pollfd readable = {.fd = fd_, .events = POLLIN, .revents = 0};
    poll(&readable, 1, static_cast<int>(std::min(left, kLongestPoll) / absl::Milliseconds(1)));
  }
}

}  // namespace attnd
