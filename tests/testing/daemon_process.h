// The real attnd binary as a child process, for tests.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/channel.h"

namespace attnd::testing {

// How a process ended and what it wrote.
struct Ended {
  int exit_code = -1;  // -1: it was killed by a signal, or was silent for 30 s and then killed
  std::string out;
  std::string err;
};

// The binary is the one of this build; the environment variable ATTND_SERVER names another.
class DaemonProcess {
 public:
  // --backend=cpu; the environment variable ATTND_BACKEND names another backend.
  static std::string BackendFlag();

  // Runs `attnd args...` to its end.
  static Ended RunToEnd(const std::vector<std::string>& args);
  // The same with so much address space. A shell sets the limit: in this process, whose threads
  // have reserved more, nothing could be started under it.
  static Ended RunToEndWithin(std::int64_t address_space_bytes,
                              const std::vector<std::string>& args);

  // Starts `attnd` with BackendFlag(), free ports and `args`. Returns when it serves, or has ended:
  // then running() is false.
  explicit DaemonProcess(const std::vector<std::string>& args = {});
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  bool running() const { return running_; }
  int grpc_port() const { return grpc_port_; }
  int http_port() const { return http_port_; }
  // A channel of its own connection.
  std::shared_ptr<grpc::Channel> NewChannel() const;

  void Signal(int signal) const;
  // Reads the log until a line holds `text`; false if there is none, or nothing for 30 s. Each line
  // is looked at once.
  bool WaitForLog(const std::string& text);
  // Waits for the end.
  Ended Wait();

 private:
  struct Unstarted {};
  DaemonProcess(Unstarted, std::vector<std::string> words);

  // The number after "`key`=" in the log, or -1.
  int NumberInLog(const std::string& key) const;

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string err_;
  std::size_t searched_ = 0;  // bytes of err_ that WaitForLog has passed
  bool running_ = false;
  int grpc_port_ = -1;
  int http_port_ = -1;
};

}  // namespace attnd::testing
