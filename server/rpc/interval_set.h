// Which bytes of a tensor have arrived.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace attnd {

// [begin, end), in bytes.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

// A set of integers kept as disjoint intervals that do not touch. Adding in rising order keeps one
// interval. Not thread-safe.
class IntervalSet {
 public:
  // The first interval of the set that shares an element with `interval`; nothing if none does.
  std::optional<Interval> FindOverlap(const Interval& interval) const;
  // Adds a non-empty interval that overlaps none of the set.
  void Add(const Interval& interval);

  // Number of elements.
  std::int64_t size() const { return size_; }
  int num_intervals() const { return static_cast<int>(ends_.size()); }
  // The first run of [0, limit) that the set lacks; empty if it has all.
  Interval FirstGap(std::int64_t limit) const;

 private:
  std::map<std::int64_t, std::int64_t> ends_;  // begin -> end
  std::int64_t size_ = 0;
};

}  // namespace attnd
