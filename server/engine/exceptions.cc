#include "server/engine/exceptions.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/engine/retry_info.h"

namespace attnd {
namespace {

// Memory outside the pools is short because of what else the machine does; others' requests end.
constexpr absl::Duration kRetryDelay = absl::Seconds(1);

}  // namespace

absl::Status StatusOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return WithRetryDelay(absl::ResourceExhaustedError("out of host memory"), kRetryDelay);
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("unexpected exception: ", exception.what()));
  } catch (...) {
    return absl::InternalError("unexpected exception");
  }
}

}  // namespace attnd
