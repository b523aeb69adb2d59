#include "server/version.h"

namespace attnd {

std::string_view Version() { return ATTND_VERSION; }

}  // namespace attnd
