#pragma once

#include <string_view>

namespace attnd {

// The project's version, as "0.1.0".
std::string_view Version();

}  // namespace attnd
