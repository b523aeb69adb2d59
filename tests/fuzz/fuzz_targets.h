// What hostile bytes are fed to. Each target aborts when an invariant breaks; otherwise anything
// goes, as long as no sanitizer objects.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attnd::fuzz {

// `data` is an AttendRequest, cut into slices whose size its first byte says. What is accepted is
// computed, if it is small, in memory that has just the bytes that the request states.
void FuzzAttendRequest(const std::uint8_t* data, std::size_t size);

// `data` is the messages of an AttendStream, each behind its length in two bytes, the lower first.
void FuzzAttendStream(const std::uint8_t* data, std::size_t size);

// `data` is what a peer of the HTTP port sends, in pieces whose size its first byte says.
void FuzzHttpRequest(const std::uint8_t* data, std::size_t size);

}  // namespace attnd::fuzz
