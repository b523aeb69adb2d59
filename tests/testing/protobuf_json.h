// Whether tests may read JSON through google.protobuf.Struct.
#pragma once

namespace attnd::testing {

// Under ThreadSanitizer the maps of protobuf's headers have a member more than those of the
// system's library: reading one crashes.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kProtobufMapsWork = false;
#else
inline constexpr bool kProtobufMapsWork = true;
#endif
inline constexpr char kNoProtobufMaps[] = "protobuf's maps cannot be read under ThreadSanitizer";

}  // namespace attnd::testing
