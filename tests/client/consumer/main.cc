#include <cstdio>

#include "attnd/client.h"

int main() {
  const auto client =
      attnd::Client::Connect("localhost:1", {.connect_timeout = absl::Milliseconds(10)});
  std::printf("%s\n", client.status().ToString().c_str());
  return client.ok() ? 1 : 0;
}
